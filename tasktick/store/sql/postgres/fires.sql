-- The ledger: what became of each nominal time of a schedule, one row for each, or for a stretch of them.

-- fragment: row
    'schedule_id', hex_of(f.schedule_id), 'nominal_at', f.nominal_at, 'outcome', f.outcome, 'reason', f.reason,
    'task_id', hex_of(f.task_id), 'local_ms', f.local_ms, 'schedule_version', f.schedule_version,
    'collapsed', f.collapsed, 'missed', f.missed, 'until_at', f.until_at, 'times', f.times, 'node', f.node,
    'epoch', f.epoch, 'tzdata', f.tzdata, 'decided_at', f.decided_at, 'failed', f.failed, 'was', f.was::json

-- Rows of new fires go in as other tasks do, but for the payload: theirs is their schedule's. Rows: `LEDGER_COLUMNS` of
-- store/fires.py in their order; by position and as jsonb, as those of tasks.
-- name: ledger_insert
INSERT INTO fires (
    partition_id, schedule_id, nominal_at, outcome, reason, task_id, local_ms, schedule_version, collapsed, missed,
    until_at, times, node, epoch, tzdata, decided_at, failed, was
)
SELECT
    partition_of((row->>0)::uuid), (row->>0)::uuid, (row->>1)::bigint, row->>2, row->>3, (row->>4)::uuid,
    (row->>5)::bigint, (row->>6)::integer, (row->>7)::integer, (row->>8)::bigint, (row->>9)::bigint,
    (row->>10)::bigint, row->>11, (row->>12)::bigint, row->>13, (row->>14)::bigint, (row->>15)::boolean,
    row->>16
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row);

-- name: ledger_amend
UPDATE fires SET outcome = given.outcome, reason = given.reason
FROM json_to_recordset(:rows::text::json) AS given (schedule_id uuid, nominal_at bigint, outcome text, reason text)
WHERE fires.partition_id = partition_of(given.schedule_id) AND fires.schedule_id = given.schedule_id
    AND fires.nominal_at = given.nominal_at;

-- Rows as a whole, in place of those of the same time.
-- name: ledger_rewrite
UPDATE fires SET
    outcome = given.outcome, reason = given.reason, task_id = given.task_id, local_ms = given.local_ms,
    schedule_version = given.schedule_version, collapsed = given.collapsed, missed = given.missed,
    until_at = given.until_at, times = given.times, node = given.node, epoch = given.epoch, tzdata = given.tzdata,
    decided_at = given.decided_at, was = given.was, failed = given.failed
FROM json_to_recordset(:rows::text::json) AS given (
    schedule_id uuid, nominal_at bigint, outcome text, reason text, task_id uuid, local_ms bigint,
    schedule_version integer, collapsed integer, missed bigint, until_at bigint, times bigint, node text,
    epoch bigint, tzdata text, decided_at bigint, was text, failed boolean
)
WHERE fires.partition_id = partition_of(given.schedule_id) AND fires.schedule_id = given.schedule_id
    AND fires.nominal_at = given.nominal_at;

-- A page of the ledger, the latest times first, with the state that the task is in now. A reason may have a name
-- behind a colon; `backfill` finds all that a backfill let run.
-- name: ledger_page
SELECT json_agg(json_build_object('row', json_build_object(
    -- include: row
), 'state', t.state, 'due_at', t.due_at, 'started_at', t.started_at, 'completed_at', t.completed_at)
ORDER BY f.nominal_at DESC)
FROM (
    SELECT * FROM fires
    WHERE partition_id = partition_of(:schedule_id::text::uuid) AND schedule_id = :schedule_id::text::uuid
        AND nominal_at < :beyond::bigint
        AND (
            :outcomes::text IS NULL
            OR outcome IN (SELECT value FROM json_array_elements_text(:outcomes::text::json))
        )
        AND (
            :reason::text IS NULL OR reason = :reason::text
            OR left(reason, length(:reason::text) + 1) = :reason::text || ':'
            OR (:reason::text = 'backfill' AND reason IN ('cancelled:backfill', 'expired:backfill'))
        )
        AND (:from_at::bigint IS NULL OR coalesce(until_at, nominal_at) >= :from_at::bigint)
        AND (:to_at::bigint IS NULL OR nominal_at < :to_at::bigint)
    ORDER BY nominal_at DESC LIMIT :limit::bigint
) AS f LEFT JOIN LATERAL (
    SELECT * FROM all_tasks
    WHERE partition_id = partition_of(f.task_id) AND id = f.task_id
        AND ended_at >= id_at(f.task_id) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    OFFSET 0
) AS t ON true;

-- Every row that has to do with a stretch of time, among them one that began before it.
-- name: ledger_between
SELECT json_agg(json_build_object(
    -- include: row
) ORDER BY f.nominal_at)
FROM (
    SELECT * FROM fires
    WHERE partition_id = partition_of(:schedule_id::text::uuid) AND schedule_id = :schedule_id::text::uuid
        AND nominal_at BETWEEN :from_at::bigint AND :to_at::bigint
    UNION ALL
    SELECT * FROM (
        SELECT * FROM fires
        WHERE partition_id = partition_of(:schedule_id::text::uuid) AND schedule_id = :schedule_id::text::uuid
            AND nominal_at < :from_at::bigint
        ORDER BY nominal_at DESC LIMIT 1
    ) AS before
    WHERE until_at >= :from_at::bigint
) AS f;

-- How many times stand in stretches, which have no tasks.
-- name: ledger_condensed
SELECT json_build_array(coalesce(sum(times), 0)) FROM fires
WHERE partition_id = partition_of(:schedule_id::text::uuid) AND schedule_id = :schedule_id::text::uuid
    AND task_id IS NULL AND until_at IS NOT NULL
    AND outcome IN (SELECT value FROM json_array_elements_text(:outcomes::text::json))
    AND (:from_at::bigint IS NULL OR until_at >= :from_at::bigint)
    AND (:to_at::bigint IS NULL OR nominal_at < :to_at::bigint);

-- A task, wherever it is kept, and its schedule.
-- fragment: its_schedule
JOIN LATERAL (
    SELECT tenant, run_at, ended_at FROM all_tasks
    WHERE partition_id = partition_of(wanted.id::uuid) AND id = wanted.id::uuid
        AND ended_at >= id_at(wanted.id::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    OFFSET 0
) AS t ON true
JOIN LATERAL (
    SELECT schedule_id FROM all_details
    WHERE tenant = t.tenant AND partition_id = partition_of(wanted.id::uuid) AND id = wanted.id::uuid
        AND ended_at = t.ended_at
    OFFSET 0
) AS d ON true

-- The rows of these tasks, as far as they say that they did not run. The schedules are locked first (RULES), and
-- wherever the tasks are kept.
-- name: ledger_idle
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(id_of(d.schedule_id)), id_of(d.schedule_id)
    FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    -- include: its_schedule
    WHERE d.schedule_id IS NOT NULL
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
SELECT json_agg(json_build_object(
    -- include: row
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    -- include: its_schedule
JOIN fires AS f
    ON f.partition_id = partition_of(id_of(d.schedule_id)) AND f.schedule_id = id_of(d.schedule_id)
    AND f.nominal_at = t.run_at AND f.task_id = wanted.id::uuid
WHERE f.outcome <> 'run';

-- Rows: schedule, how many more ran, were skipped, were missed, and the last of those times.
-- name: schedule_recount
UPDATE schedules SET
    fired = fired + (row->>1)::bigint, skipped = skipped + (row->>2)::bigint, missed = missed + (row->>3)::bigint,
    last_fire_at = greatest(last_fire_at, (row->>4)::bigint)
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE schedules.partition_id = partition_of((row->>0)::uuid) AND schedules.id = (row->>0)::uuid;

-- Of these schedules, those that have run as often as they may: what is ahead of them does not start, and goes.
-- name: schedule_exhausted
UPDATE tasks SET decide_by = 0, version = version + 1
WHERE state = 2 AND attempt = 0 AND (partition_id, id) IN (
    SELECT partition_of(next_id), next_id FROM schedules
    WHERE (partition_id, id) IN (
        SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
    ) AND fired >= max_fires AND next_id IS NOT NULL
);
UPDATE schedules SET look_at = least(look_at, :now::bigint)
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
) AND fired >= max_fires AND next_id IS NOT NULL;

-- Which of these have given up for the first time. Rows: place, schedule, nominal time, task. The schedules are
-- locked, so that nobody else finds the same.
-- name: ledger_unfailed
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of((row->>1)::uuid), (row->>1)::uuid
    FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
SELECT json_agg((row->>0)::integer)
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
JOIN fires AS f
    ON f.partition_id = partition_of((row->>1)::uuid) AND f.schedule_id = (row->>1)::uuid
    AND f.nominal_at = (row->>2)::bigint AND f.task_id = (row->>3)::uuid
WHERE NOT f.failed;

-- Rows: schedule, nominal time.
-- name: ledger_fail
UPDATE fires SET failed = true
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE fires.partition_id = partition_of((row->>0)::uuid) AND fires.schedule_id = (row->>0)::uuid
    AND fires.nominal_at = (row->>1)::bigint;

-- name: schedule_failed
UPDATE schedules SET failed = failed + (row->>1)::bigint
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE schedules.partition_id = partition_of((row->>0)::uuid) AND schedules.id = (row->>0)::uuid;

-- Some of what is old, and has no task any more.
-- name: ledger_old
SELECT json_agg(json_build_array(
    hex_of(schedule_id), nominal_at, outcome, times, coalesce(until_at, nominal_at), failed
))
FROM (
    SELECT f.* FROM fires AS f
    WHERE f.decided_at <= :before::bigint AND NOT EXISTS (
        SELECT 1 FROM all_tasks AS t
        WHERE t.partition_id = partition_of(f.task_id) AND t.id = f.task_id
            AND t.ended_at >= id_at(f.task_id) AND t.ended_at >= (SELECT gone_before FROM history WHERE only_one)
        OFFSET 0
    )
    ORDER BY f.decided_at LIMIT :limit::bigint
) AS old;

-- What is known of what goes. Rows: schedule, how many ran, were skipped, were missed, failed, the first, the last.
-- name: schedule_forget
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of((row->>0)::uuid), (row->>0)::uuid
    FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
UPDATE schedules SET
    gone_fired = gone_fired + (row->>1)::bigint, gone_skipped = gone_skipped + (row->>2)::bigint,
    gone_missed = gone_missed + (row->>3)::bigint, gone_failed = gone_failed + (row->>4)::bigint,
    gone_from = least(gone_from, (row->>5)::bigint), gone_until = greatest(gone_until, (row->>6)::bigint)
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE schedules.partition_id = partition_of((row->>0)::uuid) AND schedules.id = (row->>0)::uuid;

-- Rows: schedule, nominal time, outcome, times, last time, failed. What has changed since it was read stays.
-- name: ledger_remove
DELETE FROM fires
WHERE (partition_id, schedule_id, nominal_at, outcome, times) IN (
    SELECT partition_of((row->>0)::uuid), (row->>0)::uuid, (row->>1)::bigint, row->>2, (row->>3)::bigint
    FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
);
