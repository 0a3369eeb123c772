-- Attempts: append-only, one row for each that has ended; those of tasks that have moved are in history.

-- fragment: attempt
    'task_id', hex_of(a.task_id), 'attempt', a.attempt, 'series', a.series, 'fence', a.fence, 'state', a.state,
    'picked_at', a.picked_at, 'started_at', a.started_at, 'completed_at', a.completed_at, 'node', a.node,
    'epoch', a.epoch, 'status', a.status, 'error_class', a.error_class, 'error_code', a.error_code,
    'error_detail', a.error_detail, 'response_headers', a.response_headers::json,
    'response_encoding', a.response_encoding, 'truncated', a.truncated

-- name: attempts_of
SELECT json_agg(json_build_object(
    'response_body', a.response_body,
    -- include: attempt
))
FROM (
    SELECT * FROM all_attempts
    WHERE partition_id = partition_of(:task_id::text::uuid) AND task_id = :task_id::text::uuid
        AND ended_at >= id_at(:task_id::text::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
        AND attempt > :after::bigint
    ORDER BY attempt LIMIT :limit::bigint
) AS a;

-- The last attempt that ended, of each task.
-- name: attempts_last
SELECT json_agg(json_build_object(
    'response_body', CASE WHEN :bodies::boolean THEN a.response_body END,
    -- include: attempt
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM all_attempts
    WHERE partition_id = partition_of(wanted.id::uuid) AND task_id = wanted.id::uuid
        AND ended_at >= id_at(wanted.id::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    ORDER BY attempt DESC LIMIT 1
) AS a;

-- name: attempts_count
SELECT json_build_array(count(*)) FROM all_attempts
WHERE partition_id = partition_of(:task_id::text::uuid) AND task_id = :task_id::text::uuid
    AND ended_at >= id_at(:task_id::text::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one);

-- name: attempts_of_tasks
SELECT json_agg(json_build_object(
    'response_body', a.response_body,
    -- include: attempt
) ORDER BY a.task_id, a.attempt)
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM all_attempts
    WHERE partition_id = partition_of(wanted.id::uuid) AND task_id = wanted.id::uuid
        AND ended_at >= id_at(wanted.id::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    OFFSET 0
) AS a;
