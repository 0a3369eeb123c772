-- Dead letters: what gave up, and what was done about it.

-- name: dead_letter_insert
INSERT INTO dead_letters (
    partition_id, id, tenant, task_id, class, reason, error_code, error_detail, attempts, died_at
)
SELECT partition_of(id), id, tenant, task_id, class, reason, error_code, error_detail, attempts, died_at
FROM json_to_recordset(:rows::text::json) AS given (
    id uuid, tenant text, task_id uuid, class text, reason text, error_code text, error_detail text,
    attempts integer, died_at bigint
);

-- fragment: dead_letter
    'id', hex_of(l.id), 'tenant', l.tenant, 'task_id', hex_of(l.task_id), 'class', l.class, 'reason', l.reason,
    'error_code', l.error_code, 'error_detail', l.error_detail, 'attempts', l.attempts, 'died_at', l.died_at,
    'resolution', l.resolution, 'resolved_at', l.resolved_at

-- fragment: dead_letter_filter
        AND (:unresolved::boolean IS NULL OR (l.resolution IS NULL) = :unresolved::boolean)
        AND (:class::text IS NULL OR l.class = :class::text)
        AND (:reason::text IS NULL OR l.reason = :reason::text)
        AND (:queue::text IS NULL OR t.queue = :queue::text)
        AND (:type::text IS NULL OR d.type = :type::text)
        AND (:name::text IS NULL OR d.name = :name::text)
        AND (:tag_name::text IS NULL OR d.tags::json->>:tag_name::text = :tag_value::text)
        AND (:schedule_id::text IS NULL OR d.schedule_id = :schedule_id::text)
        AND (:workflow_id::text IS NULL OR d.workflow_id = :workflow_id::text)
        AND (:sla_met::boolean IS NULL OR t.sla_met = :sla_met::boolean)
        AND (
            :text::text IS NULL
            OR strpos(lower(coalesce(d.name, '')), lower(:text::text COLLATE "C")) > 0
            OR strpos(lower(coalesce(d.key, '')), lower(:text::text COLLATE "C")) > 0
            OR strpos(
                lower(coalesce(l.error_detail, '') || ' ' || coalesce(l.error_code, '')), lower(:text::text COLLATE "C")
            ) > 0
            OR t.payload_version = 1 AND strpos(
                lower((d.payload::json->'target'->'url')#>>'{}' COLLATE "C"), lower(:text::text COLLATE "C")
            ) > 0
            OR EXISTS (
                SELECT 1 FROM payloads AS p
                WHERE (t.payload_version > 1 OR d.payload IS NULL) AND p.version = t.payload_version
                    AND p.partition_id = partition_of(coalesce(t.template_id, t.id))
                    AND p.task_id = coalesce(t.template_id, t.id)
                    AND strpos(
                        lower((p.payload::json->'target'->'url')#>>'{}' COLLATE "C"), lower(:text::text COLLATE "C")
                    ) > 0
            )
        )
        AND (:run_after::bigint IS NULL OR t.run_at > :run_after::bigint)
        AND (:run_before::bigint IS NULL OR t.run_at < :run_before::bigint)
        AND (:created_after::bigint IS NULL OR d.created_at > :created_after::bigint)
        AND (:created_before::bigint IS NULL OR d.created_at < :created_before::bigint)

-- name: dead_letters_newest_first
SELECT json_agg(json_build_object(
    -- include: dead_letter
) ORDER BY l.id DESC)
FROM (
    SELECT l.* FROM dead_letters AS l
    JOIN task_details AS d
        ON d.tenant = l.tenant AND d.id = l.task_id AND d.partition_id = partition_of(l.task_id)
    JOIN tasks AS t ON t.partition_id = partition_of(l.task_id) AND t.id = l.task_id
    WHERE l.tenant = :tenant::text AND l.id < edge_of(:beyond::text)
    -- include: dead_letter_filter
    ORDER BY l.id DESC LIMIT :limit::bigint
) AS l;

-- name: dead_letters_oldest_first
SELECT json_agg(json_build_object(
    -- include: dead_letter
) ORDER BY l.id)
FROM (
    SELECT l.* FROM dead_letters AS l
    JOIN task_details AS d
        ON d.tenant = l.tenant AND d.id = l.task_id AND d.partition_id = partition_of(l.task_id)
    JOIN tasks AS t ON t.partition_id = partition_of(l.task_id) AND t.id = l.task_id
    WHERE l.tenant = :tenant::text AND l.id > edge_of(:beyond::text)
    -- include: dead_letter_filter
    ORDER BY l.id LIMIT :limit::bigint
) AS l;

-- name: dead_letters_matching
SELECT json_agg(json_build_object(
    -- include: dead_letter
) ORDER BY l.id DESC)
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
JOIN dead_letters AS l ON l.partition_id = partition_of(wanted.id::uuid) AND l.id = wanted.id::uuid
JOIN task_details AS d
    ON d.tenant = l.tenant AND d.id = l.task_id AND d.partition_id = partition_of(l.task_id)
JOIN tasks AS t ON t.partition_id = partition_of(l.task_id) AND t.id = l.task_id
WHERE l.tenant = :tenant::text
    -- include: dead_letter_filter
;

-- name: dead_letters_by_ids
SELECT json_agg(json_build_object(
    -- include: dead_letter
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
JOIN dead_letters AS l ON l.partition_id = partition_of(wanted.id::uuid) AND l.id = wanted.id::uuid
WHERE l.tenant = :tenant::text;

-- name: dead_letter_resolve
UPDATE dead_letters SET resolution = :resolution::text, resolved_at = :now::bigint
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
) AND resolution IS NULL;

-- name: dead_letter_resolve_task
UPDATE dead_letters SET resolution = :resolution::text, resolved_at = :now::bigint
WHERE task_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json)) AND resolution IS NULL;

-- name: dead_letter_delete
DELETE FROM dead_letters WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
);

-- name: dead_letters_of_tasks
SELECT json_agg(json_build_object(
    -- include: dead_letter
) ORDER BY l.id)
FROM dead_letters AS l
WHERE l.task_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json));
