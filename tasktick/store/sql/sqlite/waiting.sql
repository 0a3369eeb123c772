-- Fires that wait until the one before them has ended. States: 1 blocked.

-- name: waiters_of
SELECT json_group_array(json_array(
    s.holder_id, json_array(t.id, t.tenant, t.queue, t.host, t.priority, t.due_at, :now)
))
FROM schedules AS s JOIN tasks AS t ON t.id = s.buffered_id
WHERE s.holder_id IN (SELECT value FROM json_each(:ids)) AND t.state = 1;

-- name: waiters_go
UPDATE tasks SET state = :state, wake_at = :now, updated_at = :now, version = version + 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 1;

-- name: waiters_line_free
UPDATE schedules SET buffered_id = NULL, holder_id = NULL
WHERE holder_id IN (SELECT value FROM json_each(:ids));

-- Who has ended in line is as if it had never stood there: the fire ahead waits for the one before it.
-- name: waiters_step_out
UPDATE tasks SET after_id = s.holder_id, version = tasks.version + 1
FROM json_each(:ids) AS ended
JOIN tasks AS t ON t.id = ended.value
JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
JOIN schedules AS s ON s.id = d.schedule_id AND s.buffered_id = d.id
WHERE tasks.id = s.next_id AND tasks.after_id = s.buffered_id;
UPDATE schedules SET last_id = iif(last_id = buffered_id, holder_id, last_id), buffered_id = NULL, holder_id = NULL
WHERE id IN (
    SELECT d.schedule_id FROM json_each(:ids) AS ended
    CROSS JOIN tasks AS t ON t.id = ended.value
    CROSS JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
)
    AND buffered_id IN (SELECT value FROM json_each(:ids));
