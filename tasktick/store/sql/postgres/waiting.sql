-- Fires that wait until the one before them has ended. States: 1 blocked.
-- `state + 0` and `id = ANY (ARRAY[one])` where rows are looked up by their ids: as in claims.sql.

-- The schedule's row is locked first: two that end at once would otherwise both see nobody waiting (RULES).
-- name: waiters_of
SELECT 1 FROM schedules
WHERE holder_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json))
ORDER BY partition_id, id
FOR NO KEY UPDATE;
SELECT json_agg(json_build_array(
    hex_of(s.holder_id),
    json_build_array(hex_of(t.id), t.tenant, t.queue, t.host, t.priority, t.due_at, :now::bigint)
))
FROM schedules AS s JOIN tasks AS t ON t.id = ANY (ARRAY[s.buffered_id]) AND t.partition_id = partition_of(s.buffered_id)
WHERE s.holder_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json)) AND t.state + 0 = 1;

-- name: waiters_go
UPDATE tasks SET state = :state::smallint, wake_at = :now::bigint, updated_at = :now::bigint, version = version + 1
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
WHERE tasks.id = ANY (ARRAY[wanted.id::uuid]) AND tasks.partition_id = partition_of(wanted.id::uuid)
    AND tasks.state + 0 = 1;

-- name: waiters_line_free
UPDATE schedules SET buffered_id = NULL, holder_id = NULL
WHERE holder_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json));

-- Who has ended in line is as if it had never stood there: the fire ahead waits for the one before it.
-- name: waiters_step_out
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(id_of(d.schedule_id)), id_of(d.schedule_id)
    FROM json_array_elements_text(:ids::text::json) AS ended (id)
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(ended.id::uuid) AND id = ended.id::uuid
        OFFSET 0
    ) AS t
    CROSS JOIN LATERAL (
        SELECT * FROM task_details
        WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
        OFFSET 0
    ) AS d
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
UPDATE tasks SET after_id = s.holder_id, version = tasks.version + 1
FROM json_array_elements_text(:ids::text::json) AS ended (id)
CROSS JOIN LATERAL (
    SELECT * FROM tasks WHERE partition_id = partition_of(ended.id::uuid) AND id = ended.id::uuid
    OFFSET 0
) AS t
CROSS JOIN LATERAL (
    SELECT * FROM task_details
    WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
    OFFSET 0
) AS d
JOIN schedules AS s
    ON s.partition_id = partition_of(id_of(d.schedule_id)) AND s.id = id_of(d.schedule_id) AND s.buffered_id = d.id
WHERE tasks.id = ANY (ARRAY[s.next_id]) AND tasks.partition_id = partition_of(s.next_id) AND tasks.after_id = s.buffered_id;
UPDATE schedules SET
    last_id = CASE WHEN last_id = buffered_id THEN holder_id ELSE last_id END, buffered_id = NULL, holder_id = NULL
WHERE (partition_id, id) IN (
    SELECT partition_of(id_of(d.schedule_id)), id_of(d.schedule_id)
    FROM json_array_elements_text(:ids::text::json) AS ended (id)
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(ended.id::uuid) AND id = ended.id::uuid
        OFFSET 0
    ) AS t
    CROSS JOIN LATERAL (
        SELECT * FROM task_details
        WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
        OFFSET 0
    ) AS d
) AND buffered_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json));
