-- What is old enough to go, in small batches.

-- name: finished_before
SELECT json_agg(json_build_array(hex_of(id), tenant, state)) FROM (
    SELECT id, tenant, state FROM tasks
    -- A fire that was cancelled ahead of its time is there when its schedule comes to it.
    WHERE state >= 10 AND completed_at <= :before::bigint AND (decide_by IS NULL OR decide_by <= :before::bigint)
    ORDER BY completed_at, id LIMIT :limit::bigint
    FOR UPDATE
) AS finished;
