-- Fires that have not begun in time. States: 1 blocked, 2 scheduled, 6 paused.
-- `state + 0` and `id = ANY (ARRAY[one])` where rows are looked up by their ids: as in claims.sql.

-- fragment: owned
        AND (:partitions::text IS NULL OR partition_id IN (
            SELECT ('x' || value)::bit(8)::integer FROM json_array_elements_text(:partitions::text::json)
        ))

-- name: fires_late
SELECT json_agg(hex_of(id)) FROM (
    SELECT id FROM tasks
    WHERE late_at IS NOT NULL AND attempt = 0 AND state IN (1, 2, 6) AND late_at <= :clock::bigint
    -- include: owned
    ORDER BY late_at, id LIMIT :limit::bigint
) AS late;

-- Those of these that are late still, to be told of in this transaction: the rows are locked first, in order.
-- name: fires_late_held
SELECT 1 FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS given
JOIN tasks AS t ON t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
ORDER BY partition_of(given.id), given.id
FOR NO KEY UPDATE OF t;
SELECT json_agg(json_build_array(
    hex_of(t.id), t.tenant, d.schedule_id, t.state, t.run_at, t.due_at, t.late_at, d.sla_ms, t.queue, t.host
) ORDER BY t.id)
FROM (SELECT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS wanted
CROSS JOIN LATERAL (
    SELECT * FROM tasks
    WHERE partition_id = partition_of(wanted.id) AND id = wanted.id
        AND late_at IS NOT NULL AND attempt = 0 AND state + 0 IN (1, 2, 6) AND late_at + 0 <= :now::bigint
    OFFSET 0
) AS t
CROSS JOIN LATERAL (
    SELECT * FROM task_details
    WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
    OFFSET 0
) AS d;

-- Rows: id, when it will be late, or NULL if that has been told.
-- name: fires_told
UPDATE tasks SET late_at = (row->>1)::bigint
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE tasks.id = ANY (ARRAY[(row->>0)::uuid]) AND tasks.partition_id = partition_of((row->>0)::uuid);

-- They have just been taken up again, and are due.
-- name: fires_asked
UPDATE tasks SET late_at = tasks.due_at + wanted.sla_ms
FROM (
    SELECT t.id, d.sla_ms FROM (SELECT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS wanted
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(wanted.id) AND id = wanted.id
        OFFSET 0
    ) AS t
    CROSS JOIN LATERAL (
        SELECT * FROM task_details
        WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
        OFFSET 0
    ) AS d
    OFFSET 0
) AS wanted
WHERE tasks.id = ANY (ARRAY[wanted.id]) AND tasks.partition_id = partition_of(wanted.id);
