-- What must always hold, for `store check` alone. Each statement answers [how many break it, one of them].

-- name: check_pages_quick
SELECT json_group_array(quick_check) FROM pragma_quick_check;

-- name: check_pages_full
SELECT json_group_array(integrity_check) FROM pragma_integrity_check;

-- name: check_structure
SELECT json_group_array(json_array(type, name, sql)) FROM (
    SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
    ORDER BY name
);

-- name: check_states
SELECT json_array(json_array(count(*), min(id))) FROM tasks
WHERE state NOT IN (SELECT value FROM json_each(:known));

-- name: check_details
SELECT json_array(json_array(count(*), min(t.id))) FROM tasks AS t
WHERE NOT EXISTS (SELECT 1 FROM task_details AS d WHERE d.id = t.id AND d.tenant = t.tenant);

-- name: check_payloads
SELECT json_array(json_array(count(*), min(t.id))) FROM tasks AS t
LEFT JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
LEFT JOIN payloads AS p ON
    -- include: tasks.is_its_payload
WHERE NOT coalesce(json_valid(
    -- include: tasks.payload
), 0);

-- name: check_running
SELECT json_array(json_array(count(*), min(t.id))) FROM tasks AS t
WHERE t.state = 4 AND (
    t.lease_until IS NULL OR t.node IS NULL OR t.fence = 0
    OR NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = t.incarnation)
);

-- name: check_finished
SELECT json_array(json_array(count(*), min(id))) FROM tasks WHERE state >= 10 AND completed_at IS NULL;

-- name: check_dead
SELECT json_array(json_array(count(*), min(t.id))) FROM tasks AS t
WHERE t.state = 11 AND NOT EXISTS (SELECT 1 FROM dead_letters AS l WHERE l.task_id = t.id);

-- Rows of which the task is gone.
-- name: check_orphans
SELECT json_array(json_array(count(*), min(task_id))) FROM (
    SELECT id AS task_id FROM task_details
    UNION ALL SELECT task_id FROM payloads WHERE template = 0
    UNION ALL SELECT task_id FROM attempts
    UNION ALL SELECT task_id FROM dead_letters
) AS part
WHERE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = part.task_id);

-- There is no other place for what has finished.
-- name: check_history
SELECT json_array(json_array(0, NULL));

-- name: check_keys
SELECT json_array(json_array(count(*), min(n.name))) FROM names AS n
WHERE n.kind = 'task' AND NOT EXISTS (
    SELECT 1 FROM tasks AS t JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
    WHERE t.id = n.object_id AND t.tenant = n.tenant AND t.state < 10 AND d.key = n.name
);

-- name: check_partitions
SELECT json_array(json_array(abs(count(*) - :partitions), NULL)) FROM leases
WHERE partition_id >= 0 AND partition_id < :partitions;

-- name: check_events
SELECT json_array(json_array(count(*), CAST(min(e.sequence) AS TEXT))) FROM events AS e
WHERE NOT json_valid(e.items)
    OR e.upto < (SELECT b.upto FROM events AS b WHERE b.sequence < e.sequence ORDER BY b.sequence DESC LIMIT 1);

-- The fire ahead of a schedule, and the one that waits for another, are there.
-- name: check_ahead
SELECT json_array(json_array(count(*), min(s.id))) FROM schedules AS s
WHERE (s.next_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM tasks AS t WHERE t.id = s.next_id AND t.run_at = s.next_at
    ))
    OR (s.next_id IS NOT NULL AND (s.next_due_at IS NULL OR s.look_at IS NULL OR s.paused))
    OR (s.buffered_id IS NOT NULL AND s.holder_id IS NULL);

-- Who stands in a line is there and has not ended, who waits there is blocked, and somebody is in the way.
-- name: check_lines
SELECT json_array(json_array(count(*), min(l.task_id))) FROM line_fires AS l LEFT JOIN tasks AS t ON t.id = l.task_id
WHERE t.id IS NULL OR t.state >= 10 OR (l.waits AND t.state <> 1)
    OR (l.waits AND NOT EXISTS (
        SELECT 1 FROM line_fires AS g WHERE g.tenant = l.tenant AND g.line = l.line AND NOT g.waits
    ));

-- What a schedule sends is there, once.
-- name: check_templates
SELECT json_array(json_array(count(*), min(s.id))) FROM schedules AS s
WHERE (SELECT count(*) FROM payloads AS p WHERE p.task_id = s.id AND p.template = 1) <> 1
    OR NOT EXISTS (SELECT 1 FROM payloads AS p WHERE p.task_id = s.id AND p.version = s.payload_version);

-- name: check_calendars
SELECT json_array(json_array(count(*), min(s.id))) FROM schedules AS s
WHERE s.calendars <> '[]' AND EXISTS (
    SELECT 1 FROM json_each(s.calendars) AS used
    WHERE NOT EXISTS (
        SELECT 1 FROM calendars AS c WHERE c.tenant = s.tenant AND c.name = used.value->>'name'
    )
);

-- A schedule stands no earlier than the last time in its ledger, and a time that ran has, or had, its task.
-- name: check_ledger
SELECT json_array(json_array(count(*), min(f.schedule_id))) FROM fires AS f JOIN schedules AS s ON s.id = f.schedule_id
WHERE f.nominal_at > s.cursor_at OR (f.outcome = 'run' AND f.task_id IS NULL);

-- What did not run has no task that is still to come.
-- name: check_idle
SELECT json_array(json_array(count(*), min(f.schedule_id))) FROM fires AS f JOIN tasks AS t ON t.id = f.task_id
WHERE f.outcome <> 'run' AND t.state < 10;

-- What a schedule counts is in its ledger, or was.
-- name: check_fire_counts
SELECT json_array(json_array(count(*), min(s.id)))
FROM schedules AS s LEFT JOIN (
    SELECT
        schedule_id, sum(iif(outcome = 'run', times, 0)) AS fired, sum(iif(outcome = 'skipped', times, 0)) AS skipped,
        sum(iif(outcome = 'missed', times, 0)) AS missed, sum(failed) AS failed
    FROM fires GROUP BY schedule_id
) AS f ON f.schedule_id = s.id
WHERE s.fired <> s.gone_fired + coalesce(f.fired, 0) OR s.skipped <> s.gone_skipped + coalesce(f.skipped, 0)
    OR s.missed <> s.gone_missed + coalesce(f.missed, 0) OR s.failed <> s.gone_failed + coalesce(f.failed, 0);
