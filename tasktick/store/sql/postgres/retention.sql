-- What is old enough to go, in small batches.

-- name: finished_before
SELECT json_agg(json_build_array(hex_of(id), tenant, state)) FROM (
    SELECT id, tenant, state FROM tasks
    WHERE state >= 10 AND completed_at <= :before::bigint ORDER BY completed_at, id LIMIT :limit::bigint
    FOR UPDATE
) AS finished;
