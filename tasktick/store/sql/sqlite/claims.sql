-- The life of an attempt: claim, end, rescue. States: 2 scheduled, 4 running, 5 retrying.

-- What an attempt needs to be made and to be ended (model/task.py, Claimed).
-- fragment: claimed
    t.id, t.tenant, t.queue, t.host, t.attempt, t.fence, t.claim_id, t.payload_version, t.run_at, t.due_at,
    t.wake_at, t.lease_until, t.timeout_ms, t.max_attempts, t.series, t.series_base, t.uncounted,
    t.interruptions, t.claimed_from, t.at_most_once, t.keyed, d.sla_ms, t.started_at, t.expires_at,
    t.picked_at, t.epoch, t.priority, d.schedule_id

-- A claim needs the live lease of the task's partition, the state before, and the due time (RULES: a task
-- that was moved must not be claimed at its old time). The fence grows for ever.
-- name: task_claim
UPDATE tasks SET
    claimed_from = state, state = 4, version = version + 1, updated_at = :now,
    attempt = attempt + 1, fence = max(fence + 1, :now), claim_id = :claim_id,
    node = :node, incarnation = :incarnation, epoch = lease.epoch,
    lease_until = :now + :start_delay_ms + timeout_ms + :margin_ms,
    picked_at = :now, cancel_requested = 0
FROM json_each(:rows) AS row
JOIN leases AS lease
    ON lease.partition_id = row.value->>1 AND lease.epoch = row.value->>2 AND lease.incarnation = :incarnation
WHERE tasks.id = row.value->>0
    AND tasks.state IN (2, 5)
    AND tasks.wake_at <= :now + :early_ms
    AND (tasks.expires_at IS NULL OR tasks.expires_at > :now);

-- name: task_claimed
SELECT json_group_array(json_array(
    -- include: claimed
))
FROM tasks AS t JOIN task_details AS d ON d.id = t.id
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND t.state = 4 AND t.claim_id = :claim_id;

-- Which of these attempts, by their place in the list, may not simply end: their guard fails, or they were
-- asked to cancel. By place, since a stale end and the live one of the same task may stand in one list.
-- name: task_end_check
SELECT json_group_array(json_array(place, live, cancel)) FROM (
    SELECT
        row.key AS place,
        t.id IS NOT NULL AS live,
        coalesce(t.cancel_requested, 0) AS cancel
    FROM json_each(:rows) AS row
    LEFT JOIN tasks AS t
        ON t.id = row.value->>'id' AND t.state = 4
        AND t.fence = row.value->>'fence' AND t.claim_id = row.value->>'claim_id'
        AND (
            row.value->>'expired_by' IS NULL
            OR t.lease_until <= row.value->>'expired_by'
            OR EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = t.incarnation AND n.dead_at IS NOT NULL)
        )
)
WHERE NOT live OR cancel;

-- name: task_end
UPDATE tasks SET
    state = row.value->>'state', version = tasks.version + 1, updated_at = row.value->>'now',
    attempt = row.value->>'attempt',
    due_at = coalesce(row.value->>'due_at', tasks.due_at),
    wake_at = coalesce(row.value->>'due_at', tasks.wake_at),
    fence = coalesce(row.value->>'new_fence', tasks.fence),
    interruptions = row.value->>'interruptions', uncounted = row.value->>'uncounted',
    started_at = row.value->>'started_at', sla_met = row.value->>'sla_met',
    completed_at = row.value->>'completed_at', reason = row.value->>'reason',
    lease_until = NULL, cancel_requested = 0
FROM json_each(:rows) AS row
WHERE tasks.id = row.value->>'id' AND tasks.state = 4
    AND tasks.fence = row.value->>'fence' AND tasks.claim_id = row.value->>'claim_id';

-- name: attempt_insert
INSERT INTO attempts (
    task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
    error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
)
SELECT
    value->>'task_id', value->>'attempt', value->>'series', value->>'fence', value->>'state',
    value->>'picked_at', value->>'started_at', value->>'completed_at', value->>'node', value->>'epoch',
    value->>'status', value->>'error_class', value->>'error_code', value->>'error_detail',
    value->>'response_headers', value->>'response_body', value->>'response_encoding', value->>'truncated'
FROM json_each(:rows) WHERE true;

-- Attempts whose lease has passed; never those in the asker's own hands, which its own deadline ends.
-- name: task_expired_leases
SELECT json_group_array(json_array(
    -- include: claimed
))
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND lease_until <= :now
        AND id NOT IN (SELECT value FROM json_each(:own))
    ORDER BY lease_until, id LIMIT :limit
) AS t JOIN task_details AS d ON d.id = t.id;

-- Attempts of processes that are proven dead: nobody is sending them, so nobody needs to wait for their lease.
-- name: task_orphans
SELECT json_group_array(json_array(
    -- include: claimed
))
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NOT NULL)
    ORDER BY lease_until, id LIMIT :limit
) AS t JOIN task_details AS d ON d.id = t.id;
