-- What the loader reads: waiting tasks by the time at which they want to be looked at.
-- `state + 0` and `id = ANY (ARRAY[one])` where rows are looked up by their ids: as in claims.sql.

-- fragment: owned
        AND (:partitions::text IS NULL OR partition_id IN (
            SELECT ('x' || value)::bit(8)::integer FROM json_array_elements_text(:partitions::text::json)
        ))

-- A page of what waits from `since` up to `until`, in the order of its index: by slots of 1,024 ms, in a slot by id. It
-- begins beyond the row (after, after_id).
-- fragment: waiting
    WHERE state IN (2, 5) AND (wake_at >> 10, id) > (:after::bigint >> 10, edge_of(:after_id::text))
        AND wake_at >> 10 <= :until::bigint >> 10 AND wake_at >= :since::bigint AND wake_at <= :until::bigint

-- What comes in its order, from a subquery that has one, is put together as it comes: to sort it once more would take as
-- long as the rest.
-- name: due_between
SELECT json_agg(json_build_array(hex_of(id), tenant, queue, host, priority, due_at, wake_at, template_id IS NOT NULL))
FROM (
    SELECT id, tenant, queue, host, priority, due_at, wake_at, template_id, wake_at >> 10 AS slot FROM tasks
    -- include: waiting
    ORDER BY slot, id LIMIT :limit::bigint
) AS due;

-- The same of some partitions. What others own is read over in the index, so many entries at most and no row of it: an
-- index by partition would cost a task that is made more than that, and tasks that are made together would not lie
-- together where they are claimed. It is read as far as it takes.
-- fragment: own
WITH page AS MATERIALIZED (
    SELECT id, wake_at, wake_at >> 10 AS slot FROM tasks
    -- include: waiting
    ORDER BY slot, id LIMIT :entries::bigint
), own AS MATERIALIZED (
    SELECT id, wake_at FROM page
    WHERE get_bit((
        SELECT bit_or(B'1'::bit(256) >> ('x' || value)::bit(8)::integer)
        FROM json_array_elements_text(:partitions::text::json)
    ), partition_of(id)) = 1
    LIMIT :limit::bigint
)

-- Where it is to be read on, if it ended before there were enough.
-- fragment: beyond
CASE WHEN (SELECT count(*) FROM own) < :limit::bigint THEN (
    SELECT json_build_array(wake_at, hex_of(id)) FROM page OFFSET :entries::bigint - 1 LIMIT 1
) END

-- name: due_in
    -- include: own
SELECT json_build_array(json_build_array(
    -- include: beyond
    , coalesce(json_agg(json_build_array(
        hex_of(t.id), t.tenant, t.queue, t.host, t.priority, t.due_at, t.wake_at, t.template_id IS NOT NULL
    )), '[]')
))
FROM own CROSS JOIN LATERAL (
    SELECT * FROM tasks WHERE partition_id = partition_of(own.id) AND id = own.id
    OFFSET 0
) AS t;

-- name: due_by_ids
SELECT json_agg(json_build_array(
    hex_of(t.id), t.tenant, t.queue, t.host, t.priority, t.due_at, t.wake_at, t.template_id IS NOT NULL
))
FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS wanted
JOIN tasks AS t ON t.id = ANY (ARRAY[wanted.id]) AND t.partition_id = partition_of(wanted.id)
WHERE t.state + 0 IN (2, 5);

-- Times, and ids in one piece, put together as text: there may be a million of them.
-- fragment: timers
'[[' || coalesce(string_agg(wake_at::text, ','), '') || '],"'
    || coalesce(encode(string_agg(uuid_send(id), ''), 'hex'), '') || '"]'

-- name: timers_between
SELECT concat('[',
    -- include: timers
, ']') FROM (
    SELECT wake_at, id, wake_at >> 10 AS slot FROM tasks
    -- include: waiting
    ORDER BY slot, id LIMIT :limit::bigint
) AS due;

-- name: timers_in
    -- include: own
SELECT json_build_array(json_build_array(
    -- include: beyond
    , (
    -- include: timers
    )::json
))
FROM own;

-- Parked: may not go now, and is looked at again later. Its order (due_at) stays.
-- name: task_park
WITH locked AS MATERIALIZED (
    SELECT t.partition_id, t.id, given.wake_at
    FROM json_to_recordset(:rows::text::json) AS given (id uuid, wake_at bigint)
    JOIN tasks AS t ON t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
    WHERE t.state + 0 IN (2, 5) AND t.wake_at <= given.wake_at
    ORDER BY partition_of(given.id), given.id
    FOR NO KEY UPDATE OF t
)
UPDATE tasks SET wake_at = locked.wake_at
FROM locked
WHERE tasks.id = ANY (ARRAY[locked.id]) AND tasks.partition_id = locked.partition_id
    AND tasks.state + 0 IN (2, 5) AND tasks.wake_at <= locked.wake_at;

-- name: task_expired
SELECT json_agg(hex_of(id)) FROM (
    (
        SELECT id FROM tasks
        WHERE expires_at IS NOT NULL AND state IN (2, 5) AND expires_at <= :clock::bigint
            AND expires_at > :since::bigint
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit::bigint
    )
    UNION ALL
    (
        SELECT id FROM tasks
        WHERE expires_at IS NOT NULL AND state = 1 AND expires_at <= :clock::bigint
            AND expires_at > :since::bigint
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit::bigint
    )
    LIMIT :limit::bigint
) AS expired;
