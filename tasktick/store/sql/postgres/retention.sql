-- What is old enough to go, in small batches.

-- name: finished_before
SELECT json_agg(json_build_array(hex_of(id), tenant, state)) FROM (
    SELECT id, tenant, state FROM tasks
    -- A fire that was cancelled ahead of its time is there when its schedule comes to it.
    WHERE state >= 10 AND completed_at <= :before::bigint AND (decide_by IS NULL OR decide_by <= :before::bigint)
    ORDER BY completed_at, id LIMIT :limit::bigint
    FOR UPDATE
) AS finished;

-- Days before an instant on which tasks ended that are not in history.
-- name: archive_days
SELECT json_agg(day ORDER BY day) FROM (
    SELECT DISTINCT completed_at - completed_at % 86400000 AS day FROM tasks
    WHERE state >= 10 AND completed_at < :before::bigint
) AS days;

-- name: archive_page
SELECT json_agg(json_build_array(completed_at, hex_of(id), tenant) ORDER BY completed_at, id) FROM (
    SELECT completed_at, id, tenant FROM tasks
    WHERE state >= 10 AND completed_at >= :from_at::bigint AND completed_at < :until::bigint
        AND (completed_at, id) > (:after::bigint, edge_of(:after_id::text))
    ORDER BY completed_at, id LIMIT :limit::bigint
) AS page;
