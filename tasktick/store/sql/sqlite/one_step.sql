-- What the hot path writes, with all that follows from it, as one step: see store/one_step.py. Where that cannot be, it
-- raises its name.

-- A claim with what is told of it; nothing, if a fire among them is late, of which more is to be told.
-- name: task_claim_told
    -- include: claims.claim
INSERT INTO events (at, upto, items)
SELECT
    CASE WHEN late THEN RAISE(ABORT, 'task_claim_told') ELSE :now END,
    coalesce((SELECT upto FROM events ORDER BY sequence DESC LIMIT 1), 0) + tasks,
    '{' || items || '}'
FROM (
    SELECT max(late) AS late, sum(tasks) AS tasks, group_concat(json_quote(tenant) || ':[' || items || ']') AS items
    FROM (
        SELECT
            tenant, max(late) AS late, sum(tasks) AS tasks,
            group_concat(json_array(ids, claimed_from, 4, :now, attempt)) AS items
        FROM (
            SELECT
                t.tenant, t.claimed_from, t.attempt, group_concat(t.id, '') AS ids, count(*) AS tasks,
                max(t.attempt = 1 AND t.late_at <= :now) AS late
            FROM jsonb_each(:rows) AS row CROSS JOIN tasks AS t ON t.id = row.value->>0
            WHERE t.state = 4 AND t.claim_id = :claim_id
            GROUP BY t.tenant, t.claimed_from, t.attempt
        )
        GROUP BY tenant
    )
)
WHERE tasks > 0 AND changes() > 0;
    -- include: claims.claim_answer
;

-- Successes with what follows from them; nothing, if one of them is stale, or something hangs on the end of a fire among
-- them.
-- name: task_succeed_told
SELECT RAISE(ABORT, 'task_succeed_told')
WHERE
    -- include: lines.any_bound
;
    -- include: claims.success
SELECT RAISE(ABORT, 'task_succeed_told') WHERE changes() <> :count;
    -- include: claims.success_attempts
DELETE FROM names WHERE kind = 'task' AND object_id IN (SELECT value FROM json_each(:freed));
    -- include: tasks.told
