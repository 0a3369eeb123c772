-- Schedules: the rule, where it stands, and the one fire that is made ahead.

-- fragment: schedule
    'id', s.id, 'tenant', s.tenant, 'version', s.version, 'created_at', s.created_at, 'updated_at', s.updated_at,
    'key', s.key, 'name', s.name, 'note', s.note, 'tags', json(s.tags), 'rule', json(s.rule),
    'start_at', s.start_at, 'end_at', s.end_at, 'max_fires', s.max_fires, 'jitter_ms', s.jitter_ms,
    'calendars', json(s.calendars), 'skips', json(s.skips),
    'overlap', s.overlap, 'catch_up', json(s.catch_up), 'template', json(s.template),
    'payload_version', s.payload_version, 'paused', s.paused, 'paused_until', s.paused_until,
    'cursor_at', s.cursor_at, 'cursor_local_ms', s.cursor_local_ms, 'next_id', s.next_id, 'next_at', s.next_at,
    'next_local_ms', s.next_local_ms, 'next_due_at', s.next_due_at, 'next_collapsed', s.next_collapsed,
    'tzdata', s.tzdata, 'look_at', s.look_at, 'last_id', s.last_id, 'buffered_id', s.buffered_id,
    'holder_id', s.holder_id, 'last_fire_at', s.last_fire_at, 'fired', s.fired, 'skipped', s.skipped,
    'missed', s.missed, 'failed', s.failed,
    'overlap_key', s.overlap_key, 'pause_on_failures', s.pause_on_failures,
    'consecutive_failures', s.consecutive_failures, 'pause_reason', s.pause_reason,
    'gone_from', s.gone_from, 'gone_until', s.gone_until

-- fragment: owned
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))

-- name: schedule_insert
INSERT INTO schedules (
    id, tenant, version, created_at, updated_at, key, name, note, tags, rule, start_at, end_at, max_fires,
    jitter_ms, calendars, overlap, catch_up, template, payload_version, paused, paused_until, cursor_at,
    cursor_local_ms, overlap_key, pause_on_failures, pause_reason
)
SELECT
    value->>'id', value->>'tenant', value->>'version', value->>'created_at', value->>'updated_at', value->>'key',
    value->>'name', value->>'note', value->>'tags', value->>'rule', value->>'start_at', value->>'end_at',
    value->>'max_fires', value->>'jitter_ms', value->>'calendars', value->>'overlap', value->>'catch_up', value->>'template',
    value->>'payload_version', value->>'paused', value->>'paused_until', value->>'cursor_at',
    value->>'cursor_local_ms', value->>'overlap_key', value->>'pause_on_failures', value->>'pause_reason'
FROM jsonb_each(:rows) WHERE true;

-- What a client says about it; where it stands is written with every plan.
-- name: schedule_define
UPDATE schedules SET
    key = row.value->>'key', name = row.value->>'name', note = row.value->>'note', tags = row.value->>'tags',
    rule = row.value->>'rule', start_at = row.value->>'start_at', end_at = row.value->>'end_at',
    max_fires = row.value->>'max_fires', jitter_ms = row.value->>'jitter_ms',
    calendars = row.value->>'calendars', overlap = row.value->>'overlap',
    catch_up = row.value->>'catch_up', template = row.value->>'template',
    payload_version = row.value->>'payload_version', overlap_key = row.value->>'overlap_key',
    pause_on_failures = row.value->>'pause_on_failures'
FROM jsonb_each(:rows) AS row
WHERE schedules.id = row.value->>'id';

-- What moves when a fire ran and the next is made. Rows: in the order of store/standing.py, MOVING.
-- name: schedule_step
UPDATE schedules SET
    cursor_at = row.value->>1, cursor_local_ms = row.value->>2, next_id = row.value->>3,
    next_at = row.value->>4, next_local_ms = row.value->>5, next_due_at = row.value->>6,
    next_collapsed = row.value->>7, look_at = row.value->>8, last_id = row.value->>9,
    last_fire_at = row.value->>10, fired = row.value->>11
FROM jsonb_each(:rows) AS row
WHERE schedules.id = row.value->>0;

-- Rows: in the order of store/standing.py, STANDING; and whether failures are counted anew.
-- name: schedule_stand
UPDATE schedules SET
    cursor_at = row.value->>1, cursor_local_ms = row.value->>2, next_id = row.value->>3,
    next_at = row.value->>4, next_local_ms = row.value->>5, next_due_at = row.value->>6,
    next_collapsed = row.value->>7, look_at = row.value->>8, last_id = row.value->>9,
    last_fire_at = row.value->>10, fired = row.value->>11, version = row.value->>12,
    updated_at = row.value->>13, note = row.value->>14, paused = row.value->>15, paused_until = row.value->>16,
    tzdata = row.value->>17, buffered_id = row.value->>18, holder_id = row.value->>19, skipped = row.value->>20,
    missed = row.value->>21, pause_reason = row.value->>22, skips = row.value->>23,
    consecutive_failures = iif(row.value->>24, 0, consecutive_failures)
FROM jsonb_each(:rows) AS row
WHERE schedules.id = row.value->>0;

-- Which of these plans, by their place, were made from a schedule that has changed since, or from a task that has.
-- Schedules: place, id, version, cursor_at, next_id, buffered_id, fired, skipped, missed. Tasks: place, id, version.
-- name: schedule_stale
SELECT json_group_array(place) FROM (
    SELECT row.value->>0 AS place
    FROM jsonb_each(:schedules) AS row
    LEFT JOIN schedules AS s
        ON s.id = row.value->>1 AND s.version = row.value->>2 AND s.cursor_at = row.value->>3
        AND s.next_id IS row.value->>4 AND s.buffered_id IS row.value->>5
        AND s.fired = row.value->>6 AND s.skipped = row.value->>7 AND s.missed = row.value->>8
    WHERE s.id IS NULL
    UNION
    SELECT row.value->>0 AS place
    FROM jsonb_each(:tasks) AS row
    LEFT JOIN tasks AS t ON t.id = row.value->>1 AND t.version = row.value->>2
    WHERE t.id IS NULL
);

-- Whose partition is not owned under this term (RULES: a materialisation needs the lease). Rows: place, partition, epoch.
-- name: schedule_foreign
SELECT json_group_array(place) FROM (
    SELECT row.value->>0 AS place
    FROM jsonb_each(:rows) AS row
    LEFT JOIN leases AS lease
        ON lease.partition_id = row.value->>1 AND lease.epoch = row.value->>2 AND lease.incarnation = :incarnation
        AND EXISTS (
            SELECT 1 FROM nodes AS n WHERE n.incarnation = :incarnation AND n.beat >= :beat AND n.dead_at IS NULL
        )
    WHERE lease.partition_id IS NULL
);

-- name: schedules_read
SELECT json_group_array(json_object(
    -- include: schedule
))
FROM json_each(:ids) AS wanted JOIN schedules AS s ON s.id = wanted.value
WHERE :tenant IS NULL OR s.tenant = :tenant;

-- name: schedules_due
SELECT json_group_array(json_object(
    -- include: schedule
))
FROM (SELECT * FROM schedules WHERE look_at <= :now ORDER BY look_at, id LIMIT :limit) AS s;

-- The same of some partitions. A file is one node's, which owns them all: there is no more of one than of the others.
-- name: schedules_due_in
SELECT json_group_array(json_object(
    -- include: schedule
))
FROM (
    SELECT * FROM schedules WHERE look_at <= :now AND :each > 0
    -- include: owned
    ORDER BY look_at, id LIMIT :limit
) AS s;

-- name: schedules_next_look
SELECT json_array((SELECT look_at FROM schedules WHERE look_at > :now ORDER BY look_at LIMIT 1));

-- name: schedules_next_look_in
SELECT json_array((
    SELECT look_at FROM schedules WHERE look_at > :now
    -- include: owned
    ORDER BY look_at LIMIT 1
));

-- name: schedules_oldest_look
SELECT json_array(min(look_at)) FROM schedules WHERE look_at IS NOT NULL;

-- name: schedules_put_off
UPDATE schedules SET look_at = :until
WHERE id IN (SELECT value FROM json_each(:ids)) AND look_at < :until;

-- Whether there is any whose fire ahead was worked out by other zone data: by an index, as mostly there is none.
-- name: schedules_any_outdated
SELECT json_array(
    CASE WHEN EXISTS (
        SELECT 1 FROM schedules INDEXED BY schedules_by_tzdata
        WHERE paused = 0 AND look_at > :now AND tzdata < :tzdata
    ) OR EXISTS (
        SELECT 1 FROM schedules INDEXED BY schedules_by_tzdata
        WHERE paused = 0 AND look_at > :now AND tzdata > :tzdata
    ) THEN json('true') ELSE json('false') END
);

-- name: schedules_outdated
UPDATE schedules SET look_at = :now WHERE id IN (
    SELECT id FROM schedules WHERE look_at > :now AND paused = 0 AND tzdata <> :tzdata
    ORDER BY look_at, id LIMIT :limit
);

-- fragment: schedule_filter
        AND (:name IS NULL OR s.name = :name)
        AND (:paused IS NULL OR s.paused = :paused)
        AND (:tag_name IS NULL OR EXISTS (
            SELECT 1 FROM json_each(s.tags) AS tag WHERE tag.key = :tag_name AND tag.value = :tag_value
        ))
        AND (
            :text IS NULL
            OR instr(lower(coalesce(s.name, '')), lower(:text))
            OR instr(lower(coalesce(s.key, '')), lower(:text))
            OR instr(lower(coalesce(s.rule->>'$.cron', s.rule->>'$.rrule', s.rule->>'$.spec', '')), lower(:text))
            OR EXISTS (
                SELECT 1 FROM payloads AS p WHERE p.task_id = s.id AND p.version = s.payload_version
                    AND instr(lower(p.payload->>'$.target.url'), lower(:text))
            )
        )

-- name: schedule_ids_newest_first
SELECT json_group_array(id) FROM (
    SELECT s.id FROM schedules AS s
    WHERE s.tenant = :tenant AND s.id < :beyond
    -- include: schedule_filter
    ORDER BY s.id DESC LIMIT :limit
);

-- name: schedule_ids_oldest_first
SELECT json_group_array(id) FROM (
    SELECT s.id FROM schedules AS s
    WHERE s.tenant = :tenant AND s.id > :beyond
    -- include: schedule_filter
    ORDER BY s.id LIMIT :limit
);

-- name: schedule_templates
SELECT json_group_array(json_array(
    p.task_id, p.version,
    json(CASE WHEN :bodies THEN p.payload ELSE json_remove(p.payload, '$.target.body') END)
))
FROM json_each(:ids) AS wanted
JOIN schedules AS s ON s.id = wanted.value
JOIN payloads AS p ON p.task_id = s.id AND p.version = s.payload_version;

-- name: schedule_template_insert
INSERT INTO payloads (task_id, version, payload, template) VALUES (:id, :version, :payload, 1);

-- name: schedule_template_retire
UPDATE payloads SET template = 2 WHERE task_id = :id AND template = 1 AND version <> :kept;

-- What schedules sent once, and no task names any more.
-- name: schedule_templates_purge
DELETE FROM payloads WHERE (task_id, version) IN (
    SELECT p.task_id, p.version FROM payloads AS p
    WHERE p.template = 2 AND NOT EXISTS (
        SELECT 1 FROM tasks AS t WHERE t.template_id = p.task_id AND t.payload_version = p.version
    )
    LIMIT :limit
);

-- name: schedule_delete
DELETE FROM schedules WHERE id = :id;
