-- What is old enough to go, in small batches.

-- name: finished_before
SELECT json_group_array(json_array(id, tenant, state)) FROM (
    SELECT id, tenant, state FROM tasks
    -- A fire that was cancelled ahead of its time is there when its schedule comes to it.
    WHERE state >= 10 AND completed_at <= :before AND (decide_by IS NULL OR decide_by <= :before) ORDER BY completed_at, id LIMIT :limit
);

-- Days before an instant on which tasks ended.
-- name: archive_days
SELECT json_group_array(day) FROM (
    SELECT DISTINCT completed_at - completed_at % 86400000 AS day FROM tasks
    WHERE state >= 10 AND completed_at < :before
    ORDER BY day
);

-- name: archive_page
SELECT json_group_array(json_array(completed_at, id, tenant)) FROM (
    SELECT completed_at, id, tenant FROM tasks
    WHERE state >= 10 AND completed_at >= :from_at AND completed_at < :until
        AND (completed_at, id) > (:after, :after_id)
    ORDER BY completed_at, id LIMIT :limit
);
