-- Fires that give up one after the other. Only those of the ledger count: written down there, or ahead of their schedule.
-- Rows: schedule, task, nominal time.

-- fragment: of_ledger
    (
        s.next_id = row.value->>1 OR EXISTS (
            SELECT 1 FROM fires AS f
            WHERE f.schedule_id = s.id AND f.nominal_at = row.value->>2 AND f.task_id = row.value->>1
        )
    )

-- name: failures_over
UPDATE schedules AS s SET consecutive_failures = 0
FROM jsonb_each(:rows) AS row
WHERE s.id = row.value->>0 AND s.consecutive_failures > 0 AND
    -- include: of_ledger
;

-- name: failures_add
UPDATE schedules SET consecutive_failures = consecutive_failures + counted.failures
FROM (
    SELECT s.id, count(*) AS failures
    FROM jsonb_each(:rows) AS row JOIN schedules AS s ON s.id = row.value->>0
    WHERE
        -- include: of_ledger
    GROUP BY s.id
) AS counted
WHERE schedules.id = counted.id;

-- name: failures_enough
SELECT json_group_array(id) FROM (
    SELECT id FROM schedules
    WHERE id IN (SELECT value FROM json_each(:ids)) AND NOT paused AND consecutive_failures >= pause_on_failures
    ORDER BY id
);

-- name: failures_read
SELECT json_group_array(json_array(id, consecutive_failures)) FROM schedules
WHERE id IN (SELECT value FROM json_each(:ids)) AND consecutive_failures > 0;
