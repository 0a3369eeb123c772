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

-- Some of those that wait are cancelled: the next one meets the one that they waited for.
-- name: waiters_leave
UPDATE schedules SET
    last_id = CASE WHEN last_id = buffered_id THEN holder_id ELSE last_id END, buffered_id = NULL, holder_id = NULL
WHERE id IN (SELECT template_id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)))
    AND buffered_id IN (SELECT value FROM json_each(:ids));

-- name: waiters_leave_ahead
UPDATE tasks SET after_id = s.last_id
FROM schedules AS s
WHERE s.id IN (SELECT template_id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)))
    AND tasks.id = s.next_id AND tasks.after_id IN (SELECT value FROM json_each(:ids));

-- name: waiters_line_free
UPDATE schedules SET buffered_id = NULL, holder_id = NULL
WHERE holder_id IN (SELECT value FROM json_each(:ids));
