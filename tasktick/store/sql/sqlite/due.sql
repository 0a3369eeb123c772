-- What the loader reads: waiting tasks by the time at which they want to be looked at.

-- fragment: owned
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))

-- name: due_between
SELECT json_group_array(json_array(id, tenant, queue, host, priority, due_at, wake_at)) FROM (
    SELECT id, tenant, queue, host, priority, due_at, wake_at FROM tasks
    WHERE state IN (2, 5) AND (wake_at, id) > (:after, :after_id) AND wake_at <= :until
    ORDER BY wake_at, id LIMIT :limit
);

-- The same of some partitions. Nothing is cut off: a file is one node's, which owns them all.
-- name: due_in
SELECT json_array(json_array(json('false'), json_group_array(json_array(id, tenant, queue, host, priority, due_at, wake_at)))) FROM (
    SELECT id, tenant, queue, host, priority, due_at, wake_at FROM tasks
    WHERE state IN (2, 5) AND (wake_at, id) > (:after, :after_id) AND wake_at <= :until
    -- include: owned
    ORDER BY wake_at, id LIMIT :limit
);

-- name: due_by_ids
SELECT json_group_array(json_array(id, tenant, queue, host, priority, due_at, wake_at)) FROM (
    SELECT id, tenant, queue, host, priority, due_at, wake_at FROM tasks
    WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN (2, 5)
);

-- name: timers_between
SELECT json_group_array(json_array(wake_at, id)) FROM (
    SELECT wake_at, id FROM tasks
    WHERE state IN (2, 5) AND (wake_at, id) > (:after, :after_id) AND wake_at <= :until
    ORDER BY wake_at, id LIMIT :limit
);

-- name: timers_in
SELECT json_array(json_array(json('false'), json_group_array(json_array(wake_at, id)))) FROM (
    SELECT wake_at, id FROM tasks
    WHERE state IN (2, 5) AND (wake_at, id) > (:after, :after_id) AND wake_at <= :until
    -- include: owned
    ORDER BY wake_at, id LIMIT :limit
);

-- Parked: may not go now, and is looked at again later. Its order (due_at) stays.
-- name: task_park
UPDATE tasks SET wake_at = row.value->>'wake_at'
FROM jsonb_each(:rows) AS row
WHERE tasks.id = row.value->>'id' AND tasks.state IN (2, 5) AND tasks.wake_at <= row.value->>'wake_at';

-- name: task_expired
SELECT json_group_array(id) FROM (
    SELECT id FROM (
        SELECT id FROM tasks
        WHERE expires_at IS NOT NULL AND state IN (2, 5) AND expires_at <= :now
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit
    )
    UNION ALL
    SELECT id FROM (
        SELECT id FROM tasks
        WHERE expires_at IS NOT NULL AND state = 1 AND expires_at <= :now
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit
    )
    LIMIT :limit
);
