-- Fires that have not begun in time. States: 1 blocked, 2 scheduled, 6 paused.

-- fragment: owned
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))

-- name: fires_late
SELECT json_group_array(id) FROM (
    SELECT id FROM tasks
    WHERE late_at IS NOT NULL AND attempt = 0 AND state IN (1, 2, 6) AND late_at <= :now
    -- include: owned
    ORDER BY late_at, id LIMIT :limit
);

-- Those of these that are late still, to be told of in this transaction.
-- name: fires_late_held
SELECT json_group_array(json_array(
    t.id, t.tenant, d.schedule_id, t.state, t.run_at, t.due_at, t.late_at, d.sla_ms, t.queue, t.host
))
FROM (
    SELECT * FROM tasks
    WHERE id IN (SELECT value FROM json_each(:ids))
        AND late_at IS NOT NULL AND attempt = 0 AND state IN (1, 2, 6) AND late_at <= :now
    ORDER BY id
) AS t JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id;

-- Rows: id, when it will be late, or NULL if that has been told.
-- name: fires_told
UPDATE tasks SET late_at = row.value->>1 FROM jsonb_each(:rows) AS row WHERE tasks.id = row.value->>0;

-- They have just been taken up again, and are due.
-- name: fires_asked
UPDATE tasks SET late_at = tasks.due_at + d.sla_ms
FROM task_details AS d
WHERE tasks.id IN (SELECT value FROM json_each(:ids)) AND d.tenant = tasks.tenant AND d.id = tasks.id;
