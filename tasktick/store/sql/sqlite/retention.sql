-- What is old enough to go, in small batches.

-- name: finished_before
SELECT json_group_array(json_array(id, tenant, state)) FROM (
    SELECT id, tenant, state FROM tasks
    WHERE state >= 10 AND completed_at <= :before ORDER BY completed_at, id LIMIT :limit
);
