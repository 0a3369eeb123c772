-- What must always hold, for `store check` alone. Each statement answers [how many break it, one of them].

-- PostgreSQL has no check of its pages that a statement can ask for: pg_amcheck does that.
-- name: check_pages_quick
SELECT json_build_array('ok');

-- name: check_pages_full
SELECT json_build_array('ok');

-- Columns, indexes, constraints and functions, as the database describes them.
-- name: check_structure
SELECT json_agg(json_build_array(kind, name, text) ORDER BY kind, name) FROM (
    SELECT 'column' AS kind, c.relname || '.' || a.attname AS name,
        format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS text
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT 'index', c.relname, replace(pg_get_indexdef(c.oid), current_schema() || '.', '')
        || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END
    FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid
    WHERE c.relnamespace = to_regnamespace(current_schema())
    UNION ALL
    SELECT 'function', p.proname, p.prosrc FROM pg_proc AS p
    WHERE p.pronamespace = to_regnamespace(current_schema()) AND p.proname IN ('partition_of', 'hex_of', 'id_of', 'edge_of', 'id_at', 'make_history_day'
    )
) AS object;

-- name: check_states
SELECT json_build_array(json_build_array(count(*), min(hex_of(id)))) FROM all_tasks
WHERE ended_at >= (SELECT gone_before FROM history WHERE only_one) AND state NOT IN (SELECT value::smallint FROM json_array_elements_text(:known::text::json));

-- name: check_details
SELECT json_build_array(json_build_array(count(*), min(hex_of(t.id)))) FROM tasks AS t
WHERE NOT EXISTS (
    SELECT 1 FROM task_details AS d WHERE d.partition_id = t.partition_id AND d.id = t.id AND d.tenant = t.tenant
);

-- name: check_payloads
SELECT json_build_array(json_build_array(count(*), min(hex_of(t.id)))) FROM all_tasks AS t
WHERE t.ended_at >= (SELECT gone_before FROM history WHERE only_one) AND NOT EXISTS (
    SELECT 1 FROM all_payloads AS p
    WHERE p.partition_id = partition_of(coalesce(t.template_id, t.id)) AND p.task_id = coalesce(t.template_id, t.id)
        AND p.version = t.payload_version AND p.payload IS NOT NULL
        AND p.ended_at = CASE WHEN t.template_id IS NULL THEN t.ended_at ELSE 9223372036854775807 END
);

-- name: check_running
SELECT json_build_array(json_build_array(count(*), min(hex_of(t.id)))) FROM tasks AS t
WHERE t.state = 4 AND (
    t.lease_until IS NULL OR t.node IS NULL OR t.fence = 0
    OR NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = t.incarnation)
);

-- name: check_finished
SELECT json_build_array(json_build_array(count(*), min(hex_of(id)))) FROM all_tasks
WHERE state >= 10 AND completed_at IS NULL;

-- name: check_dead
SELECT json_build_array(json_build_array(count(*), min(hex_of(t.id)))) FROM tasks AS t
WHERE t.state = 11 AND NOT EXISTS (SELECT 1 FROM dead_letters AS l WHERE l.task_id = t.id);

-- Rows of which the task is gone.
-- name: check_orphans
SELECT json_build_array(json_build_array(count(*), min(hex_of(part.task_id)))) FROM (
    SELECT partition_id, id AS task_id FROM task_details
    UNION ALL SELECT partition_id, task_id FROM payloads WHERE template = 0
    UNION ALL SELECT partition_id, task_id FROM attempts
    UNION ALL SELECT partition_of(task_id), task_id FROM dead_letters
) AS part
WHERE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.partition_id = part.partition_id AND t.id = part.task_id);

-- What is in history is finished, lies in its day, is nowhere else, and its day counts it.
-- name: check_history
SELECT json_build_array(json_build_array(sum(rows), min(example))) FROM (
    SELECT count(*) AS rows, min(hex_of(t.id)) AS example FROM finished_tasks AS t
    WHERE t.state < 10 OR t.ended_at < t.completed_at OR t.ended_at < id_at(t.id)
        OR EXISTS (SELECT 1 FROM tasks AS hot WHERE hot.partition_id = t.partition_id AND hot.id = t.id)
        OR EXISTS (SELECT 1 FROM dead_letters AS l WHERE l.task_id = t.id)
    UNION ALL
    SELECT count(*), min(hex_of(a.task_id)) FROM finished_attempts AS a
    WHERE NOT EXISTS (
        SELECT 1 FROM finished_tasks AS t
        WHERE t.partition_id = a.partition_id AND t.id = a.task_id AND t.ended_at = a.ended_at
    )
    UNION ALL
    SELECT count(*), min(coalesce(kept.tenant, held.tenant)) FROM (
        SELECT from_at, tenant, state, tasks FROM history_counts WHERE tasks <> 0
    ) AS kept
    FULL JOIN (
        SELECT ended_at - ended_at % 86400000 AS from_at, tenant, state, count(*) AS tasks FROM finished_tasks
        WHERE ended_at >= (SELECT gone_before FROM history WHERE only_one)
        GROUP BY 1, 2, 3
    ) AS held USING (from_at, tenant, state)
    WHERE kept.tasks IS DISTINCT FROM held.tasks
) AS found;

-- name: check_keys
SELECT json_build_array(json_build_array(count(*), min(n.name))) FROM names AS n
WHERE n.kind = 'task' AND NOT EXISTS (
    SELECT 1 FROM tasks AS t JOIN task_details AS d
        ON d.tenant = t.tenant AND d.id = t.id AND d.partition_id = t.partition_id
    WHERE t.partition_id = partition_of(n.object_id::uuid) AND t.id = n.object_id::uuid
        AND t.tenant = n.tenant AND t.state < 10 AND d.key = n.name
);

-- name: check_partitions
SELECT json_build_array(json_build_array(abs(count(*) - :partitions::bigint), NULL)) FROM leases
WHERE partition_id >= 0 AND partition_id < :partitions::bigint;

-- name: check_events
SELECT json_build_array(json_build_array(count(*), min(e.sequence)::text)) FROM (
    SELECT
        sequence,
        upto < lag(upto) OVER (ORDER BY sequence) OR sequence > (SELECT sequence FROM event_head) AS is_wrong
    FROM events
    UNION ALL
    -- What has no number yet, where nobody would look for it at once.
    SELECT number, number <= (SELECT settled FROM event_head) FROM event_inbox
) AS e
WHERE e.is_wrong;

-- The fire ahead of a schedule, and the one that waits for another, are there.
-- name: check_ahead
SELECT json_build_array(json_build_array(count(*), min(hex_of(s.id)))) FROM schedules AS s
WHERE (s.next_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.partition_id = partition_of(s.next_id) AND t.id = s.next_id AND t.run_at = s.next_at
    ))
    OR (s.next_id IS NOT NULL AND (s.next_due_at IS NULL OR s.look_at IS NULL OR s.paused))
    OR (s.buffered_id IS NOT NULL AND s.holder_id IS NULL);

-- Who stands in a line is there and has not ended, who waits there is blocked, and somebody is in the way.
-- name: check_lines
SELECT json_build_array(json_build_array(count(*), min(hex_of(l.task_id))))
FROM line_fires AS l LEFT JOIN tasks AS t ON t.partition_id = l.partition_id AND t.id = l.task_id
WHERE t.id IS NULL OR t.state >= 10 OR (l.waits AND t.state <> 1)
    OR (l.waits AND NOT EXISTS (
        SELECT 1 FROM line_fires AS g WHERE g.tenant = l.tenant AND g.line = l.line AND NOT g.waits
    ));

-- What a schedule sends is there, once.
-- name: check_templates
SELECT json_build_array(json_build_array(count(*), min(hex_of(s.id)))) FROM schedules AS s
WHERE (
        SELECT count(*) FROM payloads AS p
        WHERE p.partition_id = s.partition_id AND p.task_id = s.id AND p.template = 1
    ) <> 1
    OR NOT EXISTS (
        SELECT 1 FROM payloads AS p
        WHERE p.partition_id = s.partition_id AND p.task_id = s.id AND p.version = s.payload_version
    );

-- name: check_calendars
SELECT json_build_array(json_build_array(count(*), min(hex_of(s.id)))) FROM schedules AS s
WHERE s.calendars <> '[]' AND EXISTS (
    SELECT 1 FROM json_array_elements(s.calendars::json) AS used
    WHERE NOT EXISTS (
        SELECT 1 FROM calendars AS c WHERE c.tenant = s.tenant AND c.name = used->>'name'
    )
);

-- A schedule stands no earlier than the last time in its ledger, and a time that ran has, or had, its task.
-- name: check_ledger
SELECT json_build_array(json_build_array(count(*), min(hex_of(f.schedule_id))))
FROM fires AS f JOIN schedules AS s ON s.partition_id = f.partition_id AND s.id = f.schedule_id
WHERE f.nominal_at > s.cursor_at OR (f.outcome = 'run' AND f.task_id IS NULL);

-- What did not run has no task that is still to come.
-- name: check_idle
SELECT json_build_array(json_build_array(count(*), min(hex_of(f.schedule_id))))
FROM fires AS f JOIN tasks AS t ON t.partition_id = partition_of(f.task_id) AND t.id = f.task_id
WHERE f.outcome <> 'run' AND t.state < 10;

-- What a schedule counts is in its ledger, or was.
-- name: check_fire_counts
SELECT json_build_array(json_build_array(count(*), min(hex_of(s.id))))
FROM schedules AS s LEFT JOIN (
    SELECT
        partition_id, schedule_id, sum(times) FILTER (WHERE outcome = 'run') AS fired,
        sum(times) FILTER (WHERE outcome = 'skipped') AS skipped,
        sum(times) FILTER (WHERE outcome = 'missed') AS missed, count(*) FILTER (WHERE failed) AS failed
    FROM fires GROUP BY partition_id, schedule_id
) AS f ON f.partition_id = s.partition_id AND f.schedule_id = s.id
WHERE s.fired <> s.gone_fired + coalesce(f.fired, 0) OR s.skipped <> s.gone_skipped + coalesce(f.skipped, 0)
    OR s.missed <> s.gone_missed + coalesce(f.missed, 0) OR s.failed <> s.gone_failed + coalesce(f.failed, 0);
