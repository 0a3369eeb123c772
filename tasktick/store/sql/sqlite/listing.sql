-- What clients see of tasks: the slim row, its details, its payload and its last attempt, joined.

-- name: task_views
SELECT json_group_array(json_object(
    'state', json_object(
        'id', t.id, 'tenant', t.tenant, 'state', t.state, 'queue', t.queue, 'host', t.host,
        'priority', t.priority, 'run_at', t.run_at, 'due_at', t.due_at, 'wake_at', t.wake_at,
        'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'updated_at', t.updated_at,
        'at_most_once', t.at_most_once, 'keyed', t.keyed, 'expires_at', t.expires_at, 'attempt', t.attempt,
        'series', t.series, 'series_base', t.series_base, 'uncounted', t.uncounted,
        'interruptions', t.interruptions, 'fence', t.fence, 'claim_id', t.claim_id,
        'claimed_from', t.claimed_from, 'node', t.node, 'epoch', t.epoch, 'incarnation', t.incarnation,
        'lease_until', t.lease_until, 'cancel_requested', t.cancel_requested,
        'payload_version', t.payload_version, 'version', t.version, 'picked_at', t.picked_at,
        'started_at', t.started_at, 'completed_at', t.completed_at, 'sla_met', t.sla_met, 'reason', t.reason,
        'template_id', t.template_id, 'decide_by', t.decide_by, 'after_id', t.after_id
    ),
    'detail', json_object(
        'id', d.id, 'tenant', d.tenant, 'created_at', d.created_at, 'key', d.key, 'name', d.name,
        'type', d.type, 'tags', json(d.tags), 'sla_ms', d.sla_ms, 'expires_in_ms', d.expires_in_ms,
        'schedule_id', d.schedule_id, 'workflow_id', d.workflow_id, 'step', d.step
    ),
    'payload', json(CASE WHEN :bodies THEN
    -- include: tasks.payload
    ELSE json_remove(
    -- include: tasks.payload
    , '$.target.body') END)
))
FROM json_each(:ids) AS wanted
CROSS JOIN tasks AS t ON t.id = wanted.value
CROSS JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
LEFT JOIN payloads AS p ON
    -- include: tasks.is_its_payload
WHERE t.tenant = :tenant AND (p.payload IS NOT NULL OR t.payload_version = 1 AND d.payload IS NOT NULL);

-- fragment: task_filter
        AND (
            :states IS NULL
            OR CASE WHEN t.state IN (2, 5) AND t.due_at <= :now THEN 3 ELSE t.state END
                IN (SELECT value FROM json_each(:states))
        )
        AND (:queue IS NULL OR t.queue = :queue)
        AND (:type IS NULL OR d.type = :type)
        AND (:name IS NULL OR d.name = :name)
        AND (:tag_name IS NULL OR EXISTS (
            SELECT 1 FROM json_each(d.tags) AS tag WHERE tag.key = :tag_name AND tag.value = :tag_value
        ))
        AND (:schedule_id IS NULL OR d.schedule_id = :schedule_id)
        AND (:workflow_id IS NULL OR d.workflow_id = :workflow_id)
        AND (:run_after IS NULL OR t.run_at > :run_after)
        AND (:run_before IS NULL OR t.run_at < :run_before)
        AND (:created_after IS NULL OR d.created_at > :created_after)
        AND (:created_before IS NULL OR d.created_at < :created_before)
        AND (:sla_met IS NULL OR t.sla_met = :sla_met)
        AND (
            :text IS NULL
            OR instr(lower(coalesce(d.name, '')), lower(:text))
            OR instr(lower(coalesce(d.key, '')), lower(:text))
            OR t.payload_version = 1 AND instr(lower(d.payload->>'$.target.url'), lower(:text))
            OR EXISTS (
                SELECT 1 FROM payloads AS p
                WHERE
    -- include: tasks.is_its_payload
                    AND instr(lower(p.payload->>'$.target.url'), lower(:text))
            )
            OR EXISTS (
                SELECT 1 FROM attempts AS a WHERE a.task_id = t.id
                    AND instr(lower(coalesce(a.error_detail, '') || ' ' || coalesce(a.error_code, '')), lower(:text))
            )
        )

-- name: task_ids_newest_first
SELECT json_group_array(id) FROM (
    SELECT d.id FROM task_details AS d JOIN tasks AS t ON t.id = d.id
    WHERE d.tenant = :tenant AND d.id < :beyond
    -- include: task_filter
    ORDER BY d.id DESC LIMIT :limit
);

-- name: task_ids_oldest_first
SELECT json_group_array(id) FROM (
    SELECT d.id FROM task_details AS d JOIN tasks AS t ON t.id = d.id
    WHERE d.tenant = :tenant AND d.id > :beyond
    -- include: task_filter
    ORDER BY d.id LIMIT :limit
);

-- CROSS keeps the order of the join: else every task of the tenant is looked at, in the order that is asked for.
-- name: task_ids_matching
SELECT json_group_array(id) FROM (
    SELECT d.id FROM json_each(:ids) AS wanted
    CROSS JOIN task_details AS d ON d.tenant = :tenant AND d.id = wanted.value
    CROSS JOIN tasks AS t ON t.id = d.id
    WHERE true
    -- include: task_filter
    ORDER BY d.id DESC
);
