-- Fires that give up one after the other. Only those of the ledger count: written down there, or ahead of their schedule.
-- Rows: schedule, task, nominal time. The schedules are locked by task_end_check.

-- fragment: of_ledger
    (
        s.next_id = (row->>1)::uuid OR EXISTS (
            SELECT 1 FROM fires AS f
            WHERE f.partition_id = s.partition_id AND f.schedule_id = s.id AND f.nominal_at = (row->>2)::bigint
                AND f.task_id = (row->>1)::uuid
        )
    )

-- name: failures_over
UPDATE schedules AS s SET consecutive_failures = 0
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE s.partition_id = partition_of((row->>0)::uuid) AND s.id = (row->>0)::uuid AND s.consecutive_failures > 0 AND
    -- include: of_ledger
;

-- name: failures_add
UPDATE schedules SET consecutive_failures = consecutive_failures + counted.failures
FROM (
    SELECT s.partition_id, s.id, count(*) AS failures
    FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
    JOIN schedules AS s ON s.partition_id = partition_of((row->>0)::uuid) AND s.id = (row->>0)::uuid
    WHERE
        -- include: of_ledger
    GROUP BY s.partition_id, s.id
) AS counted
WHERE schedules.partition_id = counted.partition_id AND schedules.id = counted.id;

-- name: failures_enough
SELECT json_agg(hex_of(id) ORDER BY id) FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
) AND NOT paused AND consecutive_failures >= pause_on_failures;

-- name: failures_read
SELECT json_agg(json_build_array(hex_of(id), consecutive_failures)) FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
) AND consecutive_failures > 0;
