-- What clients see of tasks: the slim row, its details, its payload and its last attempt, joined; in the hot tables or
-- in history. A task ends no sooner than its id was made, and what has not moved ends last of all: so the days that
-- can hold a row are few, and known before any of them is looked into. `OFFSET 0` keeps a look-up what it is: one by
-- its key for each row before it, whatever the statistics of a day that has only begun make the planner believe.

-- A body that is not wanted is cut out by name, so that the rest stays as it was written.
-- name: task_views
SELECT json_agg(json_build_object(
    'state', json_build_object(
        'id', hex_of(t.id), 'tenant', t.tenant, 'state', t.state, 'queue', t.queue, 'host', t.host,
        'priority', t.priority, 'run_at', t.run_at, 'due_at', t.due_at, 'wake_at', t.wake_at,
        'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'updated_at', t.updated_at,
        'at_most_once', t.at_most_once, 'keyed', t.keyed, 'expires_at', t.expires_at, 'attempt', t.attempt,
        'series', t.series, 'series_base', t.series_base, 'uncounted', t.uncounted,
        'interruptions', t.interruptions, 'fence', t.fence, 'claim_id', t.claim_id,
        'claimed_from', t.claimed_from, 'node', t.node, 'epoch', t.epoch, 'incarnation', t.incarnation,
        'lease_until', t.lease_until, 'cancel_requested', t.cancel_requested,
        'payload_version', t.payload_version, 'version', t.version, 'picked_at', t.picked_at,
        'started_at', t.started_at, 'completed_at', t.completed_at, 'sla_met', t.sla_met, 'reason', t.reason,
        'template_id', hex_of(t.template_id), 'decide_by', t.decide_by, 'after_id', hex_of(t.after_id)
    ),
    'detail', json_build_object(
        'id', hex_of(d.id), 'tenant', d.tenant, 'created_at', d.created_at, 'key', d.key, 'name', d.name,
        'type', d.type, 'tags', d.tags::json, 'sla_ms', d.sla_ms, 'expires_in_ms', d.expires_in_ms,
        'schedule_id', d.schedule_id, 'workflow_id', d.workflow_id, 'step', d.step
    ),
    'payload', CASE WHEN :bodies::boolean THEN p.payload::json ELSE (
        SELECT json_object_agg(part.key, CASE
            WHEN part.key <> 'target' THEN part.value
            ELSE (SELECT json_object_agg(one.key, one.value) FROM json_each(part.value) AS one WHERE one.key <> 'body')
        END)
        FROM json_each(p.payload::json) AS part
    ) END
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM all_tasks
    WHERE partition_id = partition_of(wanted.id::uuid) AND id = wanted.id::uuid
        AND ended_at >= id_at(wanted.id::uuid) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
        AND tenant = :tenant::text
    OFFSET 0
) AS t
CROSS JOIN LATERAL (
    SELECT * FROM all_details
    WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id AND ended_at = t.ended_at
    OFFSET 0
) AS d
CROSS JOIN LATERAL (
    SELECT d.payload
    -- include: is_its_own
    UNION ALL
    SELECT payload FROM payloads
    -- include: is_elsewhere
    OFFSET 0
) AS p;

-- What a task sends lies with its details, where that is what it was made with or it is in history; else in a row of its
-- own, or of its schedule.
-- fragment: is_its_own
    WHERE d.payload IS NOT NULL AND (t.payload_version = 1 OR t.ended_at < 9223372036854775807)

-- fragment: is_elsewhere
    WHERE (d.payload IS NULL OR t.payload_version > 1) AND (
            t.template_id IS NOT NULL OR t.ended_at = 9223372036854775807
        )
        AND partition_id = partition_of(coalesce(t.template_id, t.id)) AND task_id = coalesce(t.template_id, t.id)
        AND version = t.payload_version

-- fragment: where_it_may_be
        -- Who asks for unfinished ones alone needs no history.
        AND d.ended_at >= CASE
            WHEN :states::text IS NULL OR EXISTS (
                SELECT 1 FROM json_array_elements_text(:states::text::json) WHERE value::smallint >= 10
            ) THEN (SELECT gone_before FROM history WHERE only_one)
            ELSE 9223372036854775807
        END

-- fragment: task_filter
        AND (
            :states::text IS NULL
            OR CASE WHEN t.state IN (2, 5) AND t.due_at <= :now::bigint THEN 3 ELSE t.state END
                IN (SELECT value::smallint FROM json_array_elements_text(:states::text::json))
        )
        AND (:queue::text IS NULL OR t.queue = :queue::text)
        AND (:type::text IS NULL OR d.type = :type::text)
        AND (:name::text IS NULL OR d.name = :name::text)
        AND (:tag_name::text IS NULL OR d.tags::json->>:tag_name::text = :tag_value::text)
        AND (:schedule_id::text IS NULL OR d.schedule_id = :schedule_id::text)
        AND (:workflow_id::text IS NULL OR d.workflow_id = :workflow_id::text)
        AND (:run_after::bigint IS NULL OR t.run_at > :run_after::bigint)
        AND (:run_before::bigint IS NULL OR t.run_at < :run_before::bigint)
        AND (:created_after::bigint IS NULL OR d.created_at > :created_after::bigint)
        AND (:created_before::bigint IS NULL OR d.created_at < :created_before::bigint)
        AND (:sla_met::boolean IS NULL OR t.sla_met = :sla_met::boolean)
        AND (
            :text::text IS NULL
            OR strpos(lower(coalesce(d.name, '')), lower(:text::text COLLATE "C")) > 0
            OR strpos(lower(coalesce(d.key, '')), lower(:text::text COLLATE "C")) > 0
            OR EXISTS (
                SELECT 1 FROM (
                    SELECT d.payload
    -- include: is_its_own
                    UNION ALL
                    SELECT payload FROM payloads
    -- include: is_elsewhere
                ) AS p
                WHERE strpos(
                    lower((p.payload::json->'target'->'url')#>>'{}' COLLATE "C"), lower(:text::text COLLATE "C")
                ) > 0
            )
            OR EXISTS (
                SELECT 1 FROM all_attempts AS a
                WHERE a.partition_id = t.partition_id AND a.task_id = t.id AND a.ended_at = t.ended_at
                    AND strpos(
                        lower(coalesce(a.error_detail, '') || ' ' || coalesce(a.error_code, '')),
                        lower(:text::text COLLATE "C")
                    ) > 0
            )
        )

-- name: task_ids_newest_first
SELECT json_agg(hex_of(id) ORDER BY id DESC) FROM (
    SELECT d.id FROM all_details AS d
    CROSS JOIN LATERAL (
        SELECT 1 FROM all_tasks AS t
        WHERE t.partition_id = partition_of(d.id) AND t.id = d.id AND t.ended_at = d.ended_at
        -- include: task_filter
        OFFSET 0
    ) AS matching
    WHERE d.tenant = :tenant::text AND d.id < edge_of(:beyond::text)
    -- include: where_it_may_be
    ORDER BY d.id DESC LIMIT :limit::bigint
) AS page;

-- name: task_ids_oldest_first
SELECT json_agg(hex_of(id) ORDER BY id) FROM (
    SELECT d.id FROM all_details AS d
    CROSS JOIN LATERAL (
        SELECT 1 FROM all_tasks AS t
        WHERE t.partition_id = partition_of(d.id) AND t.id = d.id AND t.ended_at = d.ended_at
        -- include: task_filter
        OFFSET 0
    ) AS matching
    WHERE d.tenant = :tenant::text AND d.id > edge_of(:beyond::text) AND d.ended_at >= id_at(edge_of(:beyond::text))
    -- include: where_it_may_be
    ORDER BY d.id LIMIT :limit::bigint
) AS page;

-- name: task_ids_matching
SELECT json_agg(hex_of(d.id) ORDER BY d.id DESC)
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM all_details AS d
    WHERE d.partition_id = partition_of(wanted.id::uuid) AND d.id = wanted.id::uuid
        AND d.ended_at >= id_at(wanted.id::uuid) AND d.tenant = :tenant::text
    -- include: where_it_may_be
    OFFSET 0
) AS d
CROSS JOIN LATERAL (
    SELECT 1 FROM all_tasks AS t
    WHERE t.partition_id = d.partition_id AND t.id = d.id AND t.ended_at = d.ended_at
    -- include: task_filter
    OFFSET 0
) AS matching
;
