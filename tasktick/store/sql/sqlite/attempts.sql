-- Attempts: append-only, one row for each that has ended.

-- fragment: attempt
    'task_id', task_id, 'attempt', attempt, 'series', series, 'fence', fence, 'state', state,
    'picked_at', picked_at, 'started_at', started_at, 'completed_at', completed_at, 'node', node,
    'epoch', epoch, 'status', status, 'error_class', error_class, 'error_code', error_code,
    'error_detail', error_detail, 'response_headers', json(response_headers),
    'response_encoding', response_encoding, 'truncated', truncated

-- name: attempts_of
SELECT json_group_array(json_object(
    'response_body', response_body,
    -- include: attempt
))
FROM (SELECT * FROM attempts WHERE task_id = :task_id AND attempt > :after ORDER BY attempt LIMIT :limit);

-- The last attempt that ended, of each task.
-- name: attempts_last
SELECT json_group_array(json_object(
    'response_body', CASE WHEN :bodies THEN response_body END,
    -- include: attempt
))
FROM json_each(:ids) AS wanted
JOIN attempts AS a ON a.task_id = wanted.value
    AND a.attempt = (SELECT max(attempt) FROM attempts WHERE task_id = wanted.value);

-- name: attempts_count
SELECT json_group_array(n) FROM (SELECT count(*) AS n FROM attempts WHERE task_id = :task_id);

-- name: attempts_of_tasks
SELECT json_group_array(json_object(
    'response_body', response_body,
    -- include: attempt
))
FROM (
    SELECT * FROM attempts WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY task_id, attempt
);
