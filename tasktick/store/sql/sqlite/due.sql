-- What the loader reads: waiting tasks by the time at which they want to be looked at.

-- fragment: owned
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))

-- A page of what waits from `since` up to `until`, of these partitions (all, if NULL), in the order of its index: by
-- slots of 1,024 ms, in a slot by id. It begins beyond the row (after, after_id) with the rest of its slot; what comes
-- after that is read if there is room. In one piece, as `(slot, id) > (…)`, no index would be used for where it begins.
-- fragment: waiting
    SELECT id, wake_at FROM (
        SELECT id, wake_at FROM tasks
        WHERE state IN (2, 5) AND wake_at >> 10 = :after >> 10 AND id > :after_id
            AND wake_at >= :since AND wake_at <= :until
    -- include: owned
        ORDER BY id LIMIT :limit
    )
    UNION ALL
    SELECT id, wake_at FROM (
        SELECT id, wake_at FROM tasks
        WHERE state IN (2, 5) AND wake_at >> 10 > :after >> 10 AND wake_at >> 10 <= :until >> 10 AND wake_at <= :until
    -- include: owned
        ORDER BY wake_at >> 10, id LIMIT :limit
    )
    LIMIT :limit

-- fragment: due
json_group_array(json_array(t.id, t.tenant, t.queue, t.host, t.priority, t.due_at, t.wake_at, t.template_id IS NOT NULL))

-- name: due_between
SELECT
    -- include: due
FROM (
    -- include: waiting
) AS page CROSS JOIN tasks AS t ON t.id = page.id;

-- The same of some partitions, to the end: a file is one node's, which owns them all.
-- name: due_in
SELECT json_array(json_array(NULL,
    -- include: due
)) FROM (
    -- include: waiting
) AS page CROSS JOIN tasks AS t ON t.id = page.id;

-- name: due_by_ids
SELECT json_group_array(json_array(id, tenant, queue, host, priority, due_at, wake_at, template_id IS NOT NULL)) FROM (
    SELECT id, tenant, queue, host, priority, due_at, wake_at, template_id FROM tasks
    WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN (2, 5)
);

-- Times, and ids in one piece: there may be a million of them.
-- fragment: timers
json_array(json_group_array(wake_at), coalesce(group_concat(id, ''), ''))

-- name: timers_between
SELECT json_array(
    -- include: timers
) FROM (
    -- include: waiting
);

-- name: timers_in
SELECT json_array(json_array(NULL,
    -- include: timers
)) FROM (
    -- include: waiting
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
            AND expires_at > :since
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit
    )
    UNION ALL
    SELECT id FROM (
        SELECT id FROM tasks
        WHERE expires_at IS NOT NULL AND state = 1 AND expires_at <= :now
            AND expires_at > :since
    -- include: owned
        ORDER BY expires_at, id LIMIT :limit
    )
    LIMIT :limit
);
