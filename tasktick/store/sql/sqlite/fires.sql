-- The ledger: what became of each nominal time of a schedule, one row for each, or for a stretch of them.

-- fragment: row
    'schedule_id', f.schedule_id, 'nominal_at', f.nominal_at, 'outcome', f.outcome, 'reason', f.reason,
    'task_id', f.task_id, 'local_ms', f.local_ms, 'schedule_version', f.schedule_version,
    'collapsed', f.collapsed, 'missed', f.missed, 'until_at', f.until_at, 'times', f.times, 'node', f.node,
    'epoch', f.epoch, 'tzdata', f.tzdata, 'decided_at', f.decided_at, 'failed', f.failed, 'was', json(f.was)

-- Rows of new fires go in as other tasks do, but for the payload: theirs is their schedule's. Rows: `LEDGER_COLUMNS` of
-- store/fires.py in their order.
-- name: ledger_insert
INSERT INTO fires (
    schedule_id, nominal_at, outcome, reason, task_id, local_ms, schedule_version, collapsed, missed, until_at,
    times, node, epoch, tzdata, decided_at, failed, was
)
SELECT
    value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9,
    value->>10, value->>11, value->>12, value->>13, value->>14, value->>15, value->>16
FROM jsonb_each(:rows) WHERE true;

-- name: ledger_amend
UPDATE fires SET outcome = row.value->>'outcome', reason = row.value->>'reason'
FROM jsonb_each(:rows) AS row
WHERE fires.schedule_id = row.value->>'schedule_id' AND fires.nominal_at = row.value->>'nominal_at';

-- Rows as a whole, in place of those of the same time.
-- name: ledger_rewrite
UPDATE fires SET
    outcome = row.value->>'outcome', reason = row.value->>'reason', task_id = row.value->>'task_id',
    local_ms = row.value->>'local_ms', schedule_version = row.value->>'schedule_version',
    collapsed = row.value->>'collapsed', missed = row.value->>'missed', until_at = row.value->>'until_at',
    times = row.value->>'times', node = row.value->>'node', epoch = row.value->>'epoch',
    tzdata = row.value->>'tzdata', decided_at = row.value->>'decided_at', was = row.value->>'was',
    failed = row.value->>'failed'
FROM jsonb_each(:rows) AS row
WHERE fires.schedule_id = row.value->>'schedule_id' AND fires.nominal_at = row.value->>'nominal_at';

-- A page of the ledger, the latest times first, with the state that the task is in now. A reason may have a name
-- behind a colon; `backfill` finds all that a backfill let run.
-- name: ledger_page
SELECT json_group_array(json_object('row', json_object(
    -- include: row
), 'state', t.state, 'due_at', t.due_at, 'started_at', t.started_at, 'completed_at', t.completed_at))
FROM (
    SELECT * FROM fires
    WHERE schedule_id = :schedule_id
        AND nominal_at < :beyond
        AND (:outcomes IS NULL OR outcome IN (SELECT value FROM json_each(:outcomes)))
        AND (
            :reason IS NULL OR reason = :reason OR substr(reason, 1, length(:reason) + 1) = :reason || ':'
            OR (:reason = 'backfill' AND reason IN ('cancelled:backfill', 'expired:backfill'))
        )
        AND (:from_at IS NULL OR coalesce(until_at, nominal_at) >= :from_at)
        AND (:to_at IS NULL OR nominal_at < :to_at)
    ORDER BY nominal_at DESC LIMIT :limit
) AS f LEFT JOIN tasks AS t ON t.id = f.task_id;

-- Every row that has to do with a stretch of time, among them one that began before it.
-- name: ledger_between
SELECT json_group_array(json_object(
    -- include: row
))
FROM (
    SELECT * FROM fires WHERE schedule_id = :schedule_id AND nominal_at BETWEEN :from_at AND :to_at
    UNION ALL
    SELECT * FROM (
        SELECT * FROM fires WHERE schedule_id = :schedule_id AND nominal_at < :from_at
        ORDER BY nominal_at DESC LIMIT 1
    )
    WHERE until_at >= :from_at
    ORDER BY nominal_at
) AS f;

-- How many times stand in stretches, which have no tasks.
-- name: ledger_condensed
SELECT json_array(coalesce(sum(times), 0)) FROM fires
WHERE schedule_id = :schedule_id AND task_id IS NULL AND until_at IS NOT NULL
    AND outcome IN (SELECT value FROM json_each(:outcomes))
    AND (:from_at IS NULL OR until_at >= :from_at) AND (:to_at IS NULL OR nominal_at < :to_at);

-- The rows of these tasks, as far as they say that they did not run.
-- name: ledger_idle
SELECT json_group_array(json_object(
    -- include: row
))
FROM json_each(:ids) AS wanted
CROSS JOIN tasks AS t ON t.id = wanted.value
CROSS JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
JOIN fires AS f ON f.schedule_id = d.schedule_id AND f.nominal_at = t.run_at AND f.task_id = t.id
WHERE f.outcome <> 'run';

-- Rows: schedule, how many more ran, were skipped, were missed, and the last of those times.
-- name: schedule_recount
UPDATE schedules SET
    fired = fired + row.value->>1, skipped = skipped + row.value->>2, missed = missed + row.value->>3,
    last_fire_at = max(coalesce(last_fire_at, row.value->>4), row.value->>4)
FROM jsonb_each(:rows) AS row
WHERE schedules.id = row.value->>0;

-- Of these schedules, those that have run as often as they may: what is ahead of them does not start, and goes.
-- name: schedule_exhausted
UPDATE tasks SET decide_by = 0, version = version + 1
WHERE state = 2 AND attempt = 0 AND id IN (
    SELECT next_id FROM schedules
    WHERE id IN (SELECT value FROM json_each(:ids)) AND fired >= max_fires AND next_id IS NOT NULL
);
UPDATE schedules SET look_at = min(look_at, :now)
WHERE id IN (SELECT value FROM json_each(:ids)) AND fired >= max_fires AND next_id IS NOT NULL;

-- Which of these have given up for the first time. Rows: place, schedule, nominal time, task.
-- name: ledger_unfailed
SELECT json_group_array(row.value->>0)
FROM jsonb_each(:rows) AS row
JOIN fires AS f
    ON f.schedule_id = row.value->>1 AND f.nominal_at = row.value->>2 AND f.task_id = row.value->>3
WHERE NOT f.failed;

-- Rows: schedule, nominal time.
-- name: ledger_fail
UPDATE fires SET failed = 1
FROM jsonb_each(:rows) AS row
WHERE fires.schedule_id = row.value->>0 AND fires.nominal_at = row.value->>1;

-- name: schedule_failed
UPDATE schedules SET failed = failed + row.value->>1 FROM jsonb_each(:rows) AS row WHERE schedules.id = row.value->>0;

-- Some of what is old, and has no task any more.
-- name: ledger_old
SELECT json_group_array(json_array(schedule_id, nominal_at, outcome, times, coalesce(until_at, nominal_at), failed))
FROM (
    SELECT f.* FROM fires AS f
    WHERE f.decided_at <= :before AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = f.task_id)
    ORDER BY f.decided_at LIMIT :limit
);

-- What is known of what goes. Rows: schedule, how many ran, were skipped, were missed, failed, the first, the last.
-- name: schedule_forget
UPDATE schedules SET
    gone_fired = gone_fired + row.value->>1, gone_skipped = gone_skipped + row.value->>2,
    gone_missed = gone_missed + row.value->>3, gone_failed = gone_failed + row.value->>4,
    gone_from = min(coalesce(gone_from, row.value->>5), row.value->>5),
    gone_until = max(coalesce(gone_until, row.value->>6), row.value->>6)
FROM jsonb_each(:rows) AS row
WHERE schedules.id = row.value->>0;

-- Rows: schedule, nominal time, outcome, times, last time, failed. What has changed since it was read stays.
-- name: ledger_remove
DELETE FROM fires WHERE (schedule_id, nominal_at, outcome, times) IN (
    SELECT value->>0, value->>1, value->>2, value->>3 FROM jsonb_each(:rows)
);
