-- Dead letters: what gave up, and what was done about it.

-- name: dead_letter_insert
INSERT INTO dead_letters (
    id, tenant, task_id, class, reason, error_code, error_detail, attempts, died_at
)
SELECT
    value->>'id', value->>'tenant', value->>'task_id', value->>'class', value->>'reason',
    value->>'error_code', value->>'error_detail', value->>'attempts', value->>'died_at'
FROM json_each(:rows) WHERE true;

-- fragment: dead_letter
    'id', l.id, 'tenant', l.tenant, 'task_id', l.task_id, 'class', l.class, 'reason', l.reason,
    'error_code', l.error_code, 'error_detail', l.error_detail, 'attempts', l.attempts, 'died_at', l.died_at,
    'resolution', l.resolution, 'resolved_at', l.resolved_at

-- fragment: dead_letter_filter
        AND (:unresolved IS NULL OR (l.resolution IS NULL) = :unresolved)
        AND (:class IS NULL OR l.class = :class)
        AND (:reason IS NULL OR l.reason = :reason)
        AND (:queue IS NULL OR t.queue = :queue)
        AND (:type IS NULL OR d.type = :type)
        AND (:name IS NULL OR d.name = :name)
        AND (:tag_name IS NULL OR EXISTS (
            SELECT 1 FROM json_each(d.tags) AS tag WHERE tag.key = :tag_name AND tag.value = :tag_value
        ))
        AND (:schedule_id IS NULL OR d.schedule_id = :schedule_id)
        AND (:workflow_id IS NULL OR d.workflow_id = :workflow_id)
        AND (:sla_met IS NULL OR t.sla_met = :sla_met)
        AND (
            :text IS NULL
            OR instr(lower(coalesce(d.name, '')), lower(:text))
            OR instr(lower(coalesce(d.key, '')), lower(:text))
            OR instr(lower(coalesce(l.error_detail, '') || ' ' || coalesce(l.error_code, '')), lower(:text))
            OR t.payload_version = 1 AND instr(lower(d.payload->>'$.target.url'), lower(:text))
            OR EXISTS (
                SELECT 1 FROM payloads AS p WHERE
    -- include: tasks.is_its_payload
                    AND instr(lower(p.payload->>'$.target.url'), lower(:text))
            )
        )
        AND (:run_after IS NULL OR t.run_at > :run_after)
        AND (:run_before IS NULL OR t.run_at < :run_before)
        AND (:created_after IS NULL OR d.created_at > :created_after)
        AND (:created_before IS NULL OR d.created_at < :created_before)

-- name: dead_letters_newest_first
SELECT json_group_array(json_object(
    -- include: dead_letter
))
FROM (
    SELECT l.* FROM dead_letters AS l
    JOIN task_details AS d ON d.tenant = l.tenant AND d.id = l.task_id
    JOIN tasks AS t ON t.id = l.task_id
    WHERE l.tenant = :tenant AND l.id < :beyond
    -- include: dead_letter_filter
    ORDER BY l.id DESC LIMIT :limit
) AS l;

-- name: dead_letters_oldest_first
SELECT json_group_array(json_object(
    -- include: dead_letter
))
FROM (
    SELECT l.* FROM dead_letters AS l
    JOIN task_details AS d ON d.tenant = l.tenant AND d.id = l.task_id
    JOIN tasks AS t ON t.id = l.task_id
    WHERE l.tenant = :tenant AND l.id > :beyond
    -- include: dead_letter_filter
    ORDER BY l.id LIMIT :limit
) AS l;

-- CROSS keeps the order of the join: else every dead letter of the tenant is looked at.
-- name: dead_letters_matching
SELECT json_group_array(json_object(
    -- include: dead_letter
))
FROM (
    SELECT l.* FROM json_each(:ids) AS wanted
    CROSS JOIN dead_letters AS l ON l.id = wanted.value
    CROSS JOIN task_details AS d ON d.tenant = l.tenant AND d.id = l.task_id
    CROSS JOIN tasks AS t ON t.id = l.task_id
    WHERE l.tenant = :tenant
    -- include: dead_letter_filter
    ORDER BY l.id DESC
) AS l;

-- name: dead_letters_by_ids
SELECT json_group_array(json_object(
    -- include: dead_letter
))
FROM dead_letters AS l WHERE l.tenant = :tenant AND l.id IN (SELECT value FROM json_each(:ids));

-- name: dead_letters_of_tasks
SELECT json_group_array(json_object(
    -- include: dead_letter
))
FROM (SELECT * FROM dead_letters WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY id) AS l;

-- name: dead_letter_resolve
UPDATE dead_letters SET resolution = :resolution, resolved_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND resolution IS NULL;

-- name: dead_letter_resolve_task
UPDATE dead_letters SET resolution = :resolution, resolved_at = :now
WHERE task_id IN (SELECT value FROM json_each(:ids)) AND resolution IS NULL;

-- name: dead_letter_delete
DELETE FROM dead_letters WHERE id IN (SELECT value FROM json_each(:ids));
