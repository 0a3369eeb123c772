-- The life of an attempt: claim, end, rescue. States: 2 scheduled, 4 running, 5 retrying.

-- What an attempt needs to be made and to be ended (model/task.py, Claimed).
-- fragment: claimed
    t.id, t.tenant, t.queue, t.host, t.attempt, t.fence, t.claim_id, t.payload_version, t.run_at, t.due_at,
    t.wake_at, coalesce(t.lease_until, 0), t.timeout_ms, t.max_attempts, t.series, t.series_base, t.uncounted,
    t.interruptions, t.claimed_from, t.at_most_once, t.keyed, d.sla_ms, t.started_at, t.expires_at,
    coalesce(t.picked_at, 0), t.epoch, t.priority, d.schedule_id, t.template_id, t.late_at

-- fragment: owned
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))

-- What is claimed, or will be, with what is to be sent, unless that is more than so many characters. Put together as
-- text: the payloads would only be parsed to be written again.
-- fragment: with_payload
    '[' || json_array(
    -- include: claimed
) || ',' || CASE WHEN length(
    -- include: tasks.payload
    ) <= :chars_max THEN
    -- include: tasks.payload
    ELSE 'null' END || ']'

-- fragment: and_payload
CROSS JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
LEFT JOIN payloads AS p ON
    -- include: tasks.is_its_payload

-- fragment: taken
    '[' || group_concat(
    -- include: with_payload
    ) || ']'
FROM tasks AS t
    -- include: and_payload

-- Whether the row is as it was when it was read ahead: nothing of it is read again then.
-- fragment: is_foreseen
    t.version = row.value->>4 + 1 AND t.wake_at = row.value->>5 AND t.late_at IS row.value->>6

-- What will be claimed soon, as a claim brings it; the row's version and state before that.
-- name: task_foreseen
SELECT '[' || group_concat('["' || t.id || '",' || t.version || ',' || t.state || ',' || t.wake_at || ',' || coalesce(t.late_at, 'null') || ',' ||
    -- include: with_payload
    || ']') || ']'
FROM tasks AS t
    -- include: and_payload
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND t.state IN (2, 5);

-- A claim needs the live lease of the task's partition, the state before, and the due time (RULES: a task
-- that was moved must not be claimed at its old time). The fence grows for ever. A fire that its schedule has not
-- decided about goes only while there is nothing to decide: it is not late, and the one before it is not on its way.
-- What was due before the clock was set back is judged by when it was due: a clock that shows an earlier time decides
-- nothing.
-- A claim that is given back leaves that as it was. What comes back: when, the ids of those that are as they were read
-- ahead, and the others whole: what is written of the first, `Foreseen.claimed` (model/task.py) says again. Rows: id,
-- partition, epoch, when it was due; of one that was read ahead, version, wake_at, late_at.
-- fragment: claim
UPDATE tasks SET
    claimed_from = state, state = 4, version = version + 1, updated_at = :now,
    attempt = attempt + 1, fence = max(fence + 1, :now), claim_id = :claim_id,
    node = :node, incarnation = :incarnation, epoch = lease.epoch,
    lease_until = :now + :start_delay_ms + timeout_ms + :margin_ms,
    picked_at = :now, cancel_requested = 0
FROM jsonb_each(:rows) AS row
JOIN leases AS lease
    ON lease.partition_id = row.value->>1 AND lease.epoch = row.value->>2 AND lease.incarnation = :incarnation
WHERE tasks.id = row.value->>0
    AND EXISTS (
        SELECT 1 FROM nodes AS n WHERE n.incarnation = :incarnation AND n.beat >= :beat AND n.dead_at IS NULL
    )
    AND tasks.state IN (2, 5)
    AND (tasks.wake_at <= :now + :early_ms OR tasks.wake_at = row.value->>3)
    AND (tasks.expires_at IS NULL OR tasks.expires_at > :now)
    AND (tasks.decide_by IS NULL OR tasks.decide_by > max(:now, coalesce(row.value->>3, 0)) OR tasks.attempt > 0 OR NOT EXISTS (
        SELECT 1 FROM task_details AS d JOIN schedules AS s ON s.id = d.schedule_id
        WHERE d.tenant = tasks.tenant AND d.id = tasks.id AND s.next_id = tasks.id
    ))
    AND (tasks.after_id IS NULL OR tasks.attempt > 0 OR NOT EXISTS (
        SELECT 1 FROM tasks AS earlier
        WHERE earlier.id = tasks.after_id
            AND (
                earlier.state IN (1, 4, 5, 7)
                OR (earlier.state = 2 AND earlier.due_at <= max(:now + :early_ms, coalesce(row.value->>3, 0)))
            )
    ));

-- What was claimed: when, the ids of those that are as they were read ahead, and the others whole. Details and payloads
-- are looked up of these alone.
-- fragment: claim_answer
SELECT
    '[[' || :now || ',"' || coalesce(group_concat(CASE WHEN
    -- include: is_foreseen
    THEN t.id END, ''), '') || '",[' || coalesce(group_concat(CASE WHEN d.id IS NOT NULL THEN
    -- include: with_payload
    END), '') || ']]]'
FROM jsonb_each(:rows) AS row
CROSS JOIN tasks AS t ON t.id = row.value->>0
LEFT JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id AND (
    -- include: is_foreseen
) IS NOT TRUE
LEFT JOIN payloads AS p ON
    -- include: tasks.is_its_payload
    AND d.id IS NOT NULL
WHERE t.state = 4 AND t.claim_id = :claim_id

-- name: task_claim
    -- include: claim
SELECT CASE WHEN changes() > 0 THEN (
    -- include: claim_answer
) END;

-- What was claimed by an earlier try of this very claim. One that is named twice is one.
-- name: task_claimed
SELECT
    -- include: taken
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND t.state = 4 AND t.claim_id = :claim_id;

-- Which of these attempts, by their place in the list, may not simply end: their guard fails, or they were
-- asked to cancel. By place, since a stale end and the live one of the same task may stand in one list.
-- Rows: id, fence, claim_id, expired_by, schedule_id.
-- name: task_end_check
SELECT json_group_array(json_array(place, live, cancel, reason)) FROM (
    SELECT
        row.key AS place,
        t.id IS NOT NULL AS live,
        coalesce(t.cancel_requested, 0) AS cancel,
        t.reason
    FROM jsonb_each(:rows) AS row
    LEFT JOIN tasks AS t
        ON t.id = row.value->>0 AND t.state = 4
        AND t.fence = row.value->>1 AND t.claim_id = row.value->>2
        AND (
            row.value->>3 IS NULL
            OR t.lease_until <= row.value->>3
            OR EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = t.incarnation AND n.dead_at IS NOT NULL)
        )
)
WHERE NOT live OR cancel;

-- With the rows of their attempts. Rows: id, fence, claim_id, now, started_at, sla_met; of the attempt: attempt,
-- series, picked_at, started_at, node, epoch, status, response_headers, response_body, response_encoding, truncated.
-- Who runs it undoes it where it does not change every row.
-- fragment: success
UPDATE tasks SET
    state = 10, version = tasks.version + 1, updated_at = row.value->>3, interruptions = 0, started_at = row.value->>4,
    sla_met = coalesce(tasks.sla_met, row.value->>5), completed_at = row.value->>3, reason = NULL,
    lease_until = NULL, cancel_requested = 0
FROM jsonb_each(:rows) AS row
WHERE tasks.id = row.value->>0 AND tasks.state = 4
    AND tasks.fence = row.value->>1 AND tasks.claim_id = row.value->>2;

-- fragment: success_attempts
INSERT INTO attempts (
    task_id, fence, completed_at, state, attempt, series, picked_at, started_at, node, epoch, status, response_headers,
    response_body, response_encoding, truncated
)
SELECT
    value->>0, value->>1, value->>3, 'succeeded', value->>6, value->>7, value->>8, value->>9, value->>10, value->>11,
    value->>12, value->>13, value->>14, value->>15, value->>16
FROM jsonb_each(:rows) WHERE changes() = :count;

-- name: task_succeed
    -- include: success
    -- include: success_attempts

-- Rows: id, fence, claim_id, state, now, attempt, due_at, new_fence, interruptions, uncounted, started_at,
-- sla_met, completed_at, reason.
-- name: task_end
UPDATE tasks SET
    state = row.value->>3, version = tasks.version + 1, updated_at = row.value->>4, attempt = row.value->>5,
    due_at = coalesce(row.value->>6, tasks.due_at),
    wake_at = coalesce(row.value->>6, tasks.wake_at),
    fence = coalesce(row.value->>7, tasks.fence),
    interruptions = row.value->>8, uncounted = row.value->>9, started_at = row.value->>10,
    sla_met = coalesce(tasks.sla_met, row.value->>11), completed_at = row.value->>12, reason = row.value->>13,
    lease_until = NULL, cancel_requested = 0
FROM jsonb_each(:rows) AS row
WHERE tasks.id = row.value->>0 AND tasks.state = 4
    AND tasks.fence = row.value->>1 AND tasks.claim_id = row.value->>2;

-- Rows: the fields of model/attempt.py, AttemptRow, in their order.
-- name: attempt_insert
INSERT INTO attempts (
    task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
    error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
)
SELECT
    value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8,
    value->>9, value->>10, value->>11, value->>12, value->>13, value->>14, value->>15, value->>16, value->>17
FROM jsonb_each(:rows) WHERE true;

-- Attempts whose lease has passed; never those in the asker's own hands, which its own deadline ends.
-- name: task_expired_leases
SELECT json_group_array(json_array(
    -- include: claimed
))
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND lease_until <= :now
        AND lease_until > :since
        AND id NOT IN (SELECT value FROM json_each(:own))
    -- include: owned
    ORDER BY lease_until, id LIMIT :limit
) AS t JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id;

-- Attempts of processes that are proven dead: nobody is sending them, so nobody needs to wait for their lease.
-- name: task_orphans
SELECT json_group_array(json_array(
    -- include: claimed
))
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NOT NULL)
    -- include: owned
    ORDER BY lease_until, id LIMIT :limit
) AS t JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id;
