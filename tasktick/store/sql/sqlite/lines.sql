-- Lines: fires that may not be under way together. States: 1 blocked, 2 scheduled, 4 running, 5 retrying, 7 awaiting.

-- One connection writes: the line is held by whoever is in a transaction.
-- name: lines_hold
UPDATE line_fires SET waits = waits WHERE :lines IS NULL AND :tasks IS NULL AND :schedules IS NULL;

-- fragment: row
    l.task_id, l.line, l.tenant, l.schedule_id, l.due_at, json(iif(l.waits, 'true', 'false'))

-- name: lines_read
SELECT json_group_array(json_array(
    -- include: row
)) FROM (
    SELECT * FROM line_fires
    WHERE (tenant, line) IN (SELECT value->>0, value->>1 FROM json_each(:lines))
        OR schedule_id IN (SELECT value FROM json_each(:schedules))
    ORDER BY due_at, task_id, line
) AS l;

-- Rows: as model/line.py, LineFire.
-- name: lines_join
INSERT INTO line_fires (task_id, line, tenant, schedule_id, due_at, waits)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5 FROM jsonb_each(:rows) WHERE true;

-- name: lines_of
SELECT json_group_array(json_array(
    -- include: row
))
FROM line_fires AS l WHERE l.task_id IN (SELECT value FROM json_each(:ids));

-- Whether something hangs on the ends of these fires: who stands in their lines or waits for them, or a count of fires
-- that gave up.
-- fragment: any_bound
    EXISTS (SELECT 1 FROM line_fires WHERE task_id IN (SELECT value FROM json_each(:tasks)))
    OR EXISTS (SELECT 1 FROM schedules WHERE holder_id IN (SELECT value FROM json_each(:tasks)))
    OR EXISTS (
        SELECT 1 FROM json_each(:schedules) AS given
        CROSS JOIN schedules AS s ON s.id = given.value WHERE s.consecutive_failures > 0
    )

-- name: lines_any_bound
SELECT json_array(json(iif(
    -- include: any_bound
    , 'true', 'false'
)));

-- name: lines_leave
DELETE FROM line_fires WHERE task_id IN (SELECT value FROM json_each(:ids));

-- Who has ended in line does not hide those before it from a schedule that has left the line since: the last of its
-- fires that stand there is the one that the next must not overlap.
-- name: lines_step_out
UPDATE tasks SET after_id = heirs.heir, version = tasks.version + 1
FROM (
    SELECT s.next_id, s.last_id, (
        SELECT l.task_id FROM line_fires AS l WHERE l.schedule_id = s.id ORDER BY l.due_at DESC, l.task_id DESC LIMIT 1
    ) AS heir
    FROM schedules AS s
    WHERE s.id IN (SELECT value FROM json_each(:schedules)) AND s.last_id IN (SELECT value FROM json_each(:ids))
) AS heirs
WHERE tasks.id = heirs.next_id AND tasks.after_id = heirs.last_id AND heirs.heir IS NOT NULL;
UPDATE schedules SET last_id = coalesce((
    SELECT l.task_id FROM line_fires AS l
    WHERE l.schedule_id = schedules.id ORDER BY l.due_at DESC, l.task_id DESC LIMIT 1
), last_id)
WHERE id IN (SELECT value FROM json_each(:schedules)) AND last_id IN (SELECT value FROM json_each(:ids));

-- Who is first in each of these lines, where nobody is at work any more. Whoever is to go no later than that one is in
-- its way also where a clock that was set back says that neither is due.
-- name: lines_freed
SELECT json_group_array(json_array(
    named.line, json_array(t.id, t.tenant, t.queue, t.host, t.priority, t.due_at, :now)
))
FROM (SELECT value->>0 AS tenant, value->>1 AS line FROM json_each(:lines)) AS named
JOIN tasks AS t ON t.id = (
    SELECT w.task_id FROM line_fires AS w JOIN tasks AS first ON first.id = w.task_id
    WHERE w.tenant = named.tenant AND w.line = named.line AND w.waits AND first.state = 1
    ORDER BY w.due_at, w.task_id LIMIT 1
)
WHERE NOT EXISTS (
    SELECT 1 FROM line_fires AS g JOIN tasks AS at_work ON at_work.id = g.task_id
    WHERE g.tenant = named.tenant AND g.line = named.line AND NOT g.waits
        AND (at_work.state IN (1, 4, 5, 7) OR (at_work.state = 2 AND at_work.due_at <= max(:now, t.due_at)))
);

-- name: lines_go
UPDATE line_fires SET waits = 0 WHERE task_id IN (SELECT value FROM json_each(:ids));

-- Fires that were let run, and ended before they began: schedule, task, nominal time, reason. That a backfill had let
-- one run stands behind the reason (model/schedule.py, BY_BACKFILL).
-- name: ledger_unstarted
UPDATE schedules SET fired = fired - counted.times, skipped = skipped + counted.times
FROM (
    SELECT f.schedule_id, count(*) AS times
    FROM jsonb_each(:rows) AS row
    JOIN fires AS f ON f.schedule_id = row.value->>0 AND f.nominal_at = row.value->>2
    WHERE f.task_id = row.value->>1 AND f.outcome = 'run'
    GROUP BY f.schedule_id
) AS counted
WHERE schedules.id = counted.schedule_id;
UPDATE fires SET outcome = 'skipped', reason = row.value->>3 || iif(fires.reason = 'backfill', ':backfill', '')
FROM jsonb_each(:rows) AS row
WHERE fires.schedule_id = row.value->>0 AND fires.nominal_at = row.value->>2
    AND fires.task_id = row.value->>1 AND fires.outcome = 'run';
