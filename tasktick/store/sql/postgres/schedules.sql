-- Schedules: the rule, where it stands, and the one fire that is made ahead.

-- fragment: schedule
    'id', hex_of(s.id), 'tenant', s.tenant, 'version', s.version, 'created_at', s.created_at,
    'updated_at', s.updated_at, 'key', s.key, 'name', s.name, 'note', s.note, 'tags', s.tags::json,
    'rule', s.rule::json, 'start_at', s.start_at, 'end_at', s.end_at, 'max_fires', s.max_fires,
    'jitter_ms', s.jitter_ms, 'calendars', s.calendars::json, 'skips', s.skips::json, 'overlap', s.overlap, 'catch_up', s.catch_up::json, 'template', s.template::json,
    'payload_version', s.payload_version, 'paused', s.paused, 'paused_until', s.paused_until,
    'cursor_at', s.cursor_at, 'cursor_local_ms', s.cursor_local_ms, 'next_id', hex_of(s.next_id),
    'next_at', s.next_at, 'next_local_ms', s.next_local_ms, 'next_due_at', s.next_due_at,
    'next_collapsed', s.next_collapsed, 'tzdata', s.tzdata, 'look_at', s.look_at, 'last_id', hex_of(s.last_id),
    'buffered_id', hex_of(s.buffered_id), 'holder_id', hex_of(s.holder_id), 'last_fire_at', s.last_fire_at,
    'fired', s.fired, 'skipped', s.skipped, 'missed', s.missed, 'failed', s.failed,
    'overlap_key', s.overlap_key, 'pause_on_failures', s.pause_on_failures,
    'consecutive_failures', s.consecutive_failures, 'pause_reason', s.pause_reason,
    'gone_from', s.gone_from, 'gone_until', s.gone_until

-- name: schedule_insert
INSERT INTO schedules (
    partition_id, id, tenant, version, created_at, updated_at, key, name, note, tags, rule, start_at, end_at,
    max_fires, jitter_ms, calendars, overlap, catch_up, template, payload_version, paused, paused_until, cursor_at,
    cursor_local_ms, overlap_key, pause_on_failures, pause_reason
)
SELECT
    partition_of(id), id, tenant, version, created_at, updated_at, key, name, note, tags, rule, start_at, end_at,
    max_fires, jitter_ms, calendars, overlap, catch_up, template, payload_version, paused, paused_until, cursor_at,
    cursor_local_ms, overlap_key, pause_on_failures, pause_reason
FROM json_to_recordset(:rows::text::json) AS given (
    id uuid, tenant text, version integer, created_at bigint, updated_at bigint, key text, name text, note text,
    tags text, rule text, start_at bigint, end_at bigint, max_fires bigint, jitter_ms bigint, calendars text,
    overlap text, catch_up text, template text, payload_version integer, paused boolean, paused_until bigint, cursor_at bigint,
    cursor_local_ms bigint, overlap_key text, pause_on_failures bigint, pause_reason text
);

-- What a client says about it; where it stands is written with every plan.
-- name: schedule_define
UPDATE schedules SET
    key = given.key, name = given.name, note = given.note, tags = given.tags, rule = given.rule,
    start_at = given.start_at, end_at = given.end_at, max_fires = given.max_fires, jitter_ms = given.jitter_ms,
    calendars = given.calendars, overlap = given.overlap, catch_up = given.catch_up, template = given.template,
    payload_version = given.payload_version, overlap_key = given.overlap_key,
    pause_on_failures = given.pause_on_failures
FROM json_to_recordset(:rows::text::json) AS given (
    id uuid, key text, name text, note text, tags text, rule text, start_at bigint, end_at bigint,
    max_fires bigint, jitter_ms bigint, calendars text, overlap text, catch_up text, template text, payload_version integer,
    overlap_key text, pause_on_failures bigint
)
WHERE schedules.partition_id = partition_of(given.id) AND schedules.id = given.id;

-- What moves when a fire ran and the next is made. Rows: in the order of store/standing.py, MOVING.
-- name: schedule_step
UPDATE schedules SET
    cursor_at = (row->>1)::bigint, cursor_local_ms = (row->>2)::bigint, next_id = (row->>3)::uuid,
    next_at = (row->>4)::bigint, next_local_ms = (row->>5)::bigint, next_due_at = (row->>6)::bigint,
    next_collapsed = (row->>7)::integer, look_at = (row->>8)::bigint, last_id = (row->>9)::uuid,
    last_fire_at = (row->>10)::bigint, fired = (row->>11)::bigint
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE schedules.partition_id = partition_of((row->>0)::uuid) AND schedules.id = (row->>0)::uuid;

-- Rows: in the order of store/standing.py, STANDING; and whether failures are counted anew.
-- name: schedule_stand
UPDATE schedules SET
    cursor_at = (row->>1)::bigint, cursor_local_ms = (row->>2)::bigint, next_id = (row->>3)::uuid,
    next_at = (row->>4)::bigint, next_local_ms = (row->>5)::bigint, next_due_at = (row->>6)::bigint,
    next_collapsed = (row->>7)::integer, look_at = (row->>8)::bigint, last_id = (row->>9)::uuid,
    last_fire_at = (row->>10)::bigint, fired = (row->>11)::bigint, version = (row->>12)::integer,
    updated_at = (row->>13)::bigint, note = row->>14, paused = (row->>15)::boolean,
    paused_until = (row->>16)::bigint, tzdata = row->>17, buffered_id = (row->>18)::uuid,
    holder_id = (row->>19)::uuid, skipped = (row->>20)::bigint, missed = (row->>21)::bigint,
    pause_reason = row->>22, skips = row->>23,
    consecutive_failures = CASE WHEN (row->>24)::boolean THEN 0 ELSE consecutive_failures END
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE schedules.partition_id = partition_of((row->>0)::uuid) AND schedules.id = (row->>0)::uuid;

-- Which of these plans, by their place, were made from a schedule that has changed since, or from a task that has.
-- Schedules: place, id, version, cursor_at, next_id, buffered_id, fired, skipped, missed. Tasks: place, id, version.
-- What is found holds
-- until the commit: the rows are locked first, in order, those of schedules before those of tasks.
-- name: schedule_stale
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of((row->>1)::uuid), (row->>1)::uuid
    FROM jsonb_array_elements(:schedules::text::jsonb) AS given (row)
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
SELECT 1 FROM (
    SELECT DISTINCT (row->>1)::uuid AS id FROM jsonb_array_elements(:tasks::text::jsonb) AS given (row)
) AS given
JOIN tasks AS t ON t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
ORDER BY partition_of(given.id), given.id
FOR NO KEY UPDATE OF t;
SELECT json_agg(place) FROM (
    SELECT (row->>0)::integer AS place
    FROM jsonb_array_elements(:schedules::text::jsonb) AS given (row)
    LEFT JOIN schedules AS s
        ON s.partition_id = partition_of((row->>1)::uuid) AND s.id = (row->>1)::uuid
        AND s.version = (row->>2)::integer AND s.cursor_at = (row->>3)::bigint
        AND s.next_id IS NOT DISTINCT FROM (row->>4)::uuid AND s.buffered_id IS NOT DISTINCT FROM (row->>5)::uuid
        AND s.fired = (row->>6)::bigint AND s.skipped = (row->>7)::bigint AND s.missed = (row->>8)::bigint
    WHERE s.id IS NULL
    UNION
    SELECT (row->>0)::integer AS place
    FROM jsonb_array_elements(:tasks::text::jsonb) AS given (row)
    LEFT JOIN tasks AS t
        ON t.id = ANY (ARRAY[(row->>1)::uuid]) AND t.partition_id = partition_of((row->>1)::uuid) AND t.version = (row->>2)::integer
    WHERE t.id IS NULL
) AS stale;

-- Whose partition is not owned under this term (RULES: a materialisation needs the lease). Rows: place, partition, epoch.
-- The lease rows are held until the commit, as by a claim, and the term must be the one that was seen: on a store
-- that has forgotten its last beat, it may have forgotten what was decided under it.
-- name: schedule_foreign
SELECT 1 FROM leases
WHERE incarnation = :incarnation::text
    AND partition_id IN (SELECT (row->>1)::smallint FROM jsonb_array_elements(:rows::text::jsonb) AS given (row))
ORDER BY partition_id
FOR KEY SHARE;
SELECT json_agg((row->>0)::integer)
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
LEFT JOIN leases AS lease
    ON lease.partition_id = (row->>1)::smallint AND lease.epoch = (row->>2)::bigint
    AND lease.incarnation = :incarnation::text
    AND EXISTS (
        SELECT 1 FROM nodes AS n
        WHERE n.incarnation = :incarnation::text AND n.beat >= :beat::bigint AND n.dead_at IS NULL
    )
WHERE lease.partition_id IS NULL;

-- name: schedules_read
SELECT json_agg(json_build_object(
    -- include: schedule
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
JOIN schedules AS s ON s.partition_id = partition_of(wanted.id::uuid) AND s.id = wanted.id::uuid
WHERE :tenant::text IS NULL OR s.tenant = :tenant::text;

-- name: schedules_due
SELECT json_agg(json_build_object(
    -- include: schedule
) ORDER BY s.look_at, s.id)
FROM (SELECT * FROM schedules WHERE look_at <= :now::bigint ORDER BY look_at, id LIMIT :limit::bigint) AS s;

-- The same of some partitions, a stretch of the index for each of them, and from each no more than `each`: what others
-- own is passed over without being read, however much there is of it.
-- name: schedules_due_in
SELECT json_agg(json_build_object(
    -- include: schedule
) ORDER BY s.look_at, s.id)
FROM (
    SELECT due.* FROM json_array_elements_text(:partitions::text::json) AS own (partition)
    CROSS JOIN LATERAL (
        SELECT * FROM schedules
        WHERE partition_id = ('x' || own.partition)::bit(8)::integer AND look_at <= :now::bigint
        ORDER BY look_at, id LIMIT :each::bigint
    ) AS due
    ORDER BY due.look_at, due.id LIMIT :limit::bigint
) AS s;

-- name: schedules_next_look
SELECT json_build_array((SELECT look_at FROM schedules WHERE look_at > :now::bigint ORDER BY look_at LIMIT 1));

-- name: schedules_next_look_in
SELECT json_build_array(min(upcoming.look_at))
FROM json_array_elements_text(:partitions::text::json) AS own (partition)
CROSS JOIN LATERAL (
    SELECT look_at FROM schedules
    WHERE partition_id = ('x' || own.partition)::bit(8)::integer AND look_at > :now::bigint
    ORDER BY look_at LIMIT 1
) AS upcoming;

-- name: schedules_oldest_look
SELECT json_build_array(min(look_at)) FROM schedules WHERE look_at IS NOT NULL;

-- name: schedules_put_off
UPDATE schedules SET look_at = :until::bigint
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:ids::text::json)
) AND look_at < :until::bigint;

-- Whether there is any whose fire ahead was worked out by other zone data: by an index, as mostly there is none.
-- name: schedules_any_outdated
SELECT json_build_array(
    EXISTS (SELECT 1 FROM schedules WHERE look_at > :now::bigint AND NOT paused AND tzdata < :tzdata::text)
    OR EXISTS (SELECT 1 FROM schedules WHERE look_at > :now::bigint AND NOT paused AND tzdata > :tzdata::text)
);

-- name: schedules_outdated
WITH outdated AS MATERIALIZED (
    SELECT partition_id, id FROM schedules
    WHERE look_at > :now::bigint AND NOT paused AND tzdata <> :tzdata::text
    ORDER BY look_at, id LIMIT :limit::bigint
), locked AS MATERIALIZED (
    SELECT s.partition_id, s.id FROM outdated JOIN schedules AS s USING (partition_id, id)
    WHERE s.look_at > :now::bigint
    ORDER BY s.partition_id, s.id
    FOR NO KEY UPDATE OF s
)
UPDATE schedules SET look_at = :now::bigint
FROM locked WHERE schedules.partition_id = locked.partition_id AND schedules.id = locked.id;

-- fragment: schedule_filter
        AND (:name::text IS NULL OR s.name = :name::text)
        AND (:paused::boolean IS NULL OR s.paused = :paused::boolean)
        AND (:tag_name::text IS NULL OR s.tags::json->>:tag_name::text = :tag_value::text)
        AND (
            :text::text IS NULL
            OR strpos(lower(coalesce(s.name, '')), lower(:text::text COLLATE "C")) > 0
            OR strpos(lower(coalesce(s.key, '')), lower(:text::text COLLATE "C")) > 0
            OR strpos(
                lower(coalesce(s.rule::json->>'cron', s.rule::json->>'rrule', s.rule::json->>'spec', '') COLLATE "C"),
                lower(:text::text COLLATE "C")
            ) > 0
            OR EXISTS (
                SELECT 1 FROM payloads AS p
                WHERE p.partition_id = s.partition_id AND p.task_id = s.id AND p.version = s.payload_version
                    AND strpos(
                        lower((p.payload::json->'target'->'url')#>>'{}' COLLATE "C"), lower(:text::text COLLATE "C")
                    ) > 0
            )
        )

-- name: schedule_ids_newest_first
SELECT json_agg(hex_of(id) ORDER BY id DESC) FROM (
    SELECT s.id FROM schedules AS s
    WHERE s.tenant = :tenant::text AND s.id < edge_of(:beyond::text)
    -- include: schedule_filter
    ORDER BY s.id DESC LIMIT :limit::bigint
) AS page;

-- name: schedule_ids_oldest_first
SELECT json_agg(hex_of(id) ORDER BY id) FROM (
    SELECT s.id FROM schedules AS s
    WHERE s.tenant = :tenant::text AND s.id > edge_of(:beyond::text)
    -- include: schedule_filter
    ORDER BY s.id LIMIT :limit::bigint
) AS page;

-- name: schedule_templates
SELECT json_agg(json_build_array(
    hex_of(p.task_id), p.version,
    CASE WHEN :bodies::boolean THEN p.payload::json ELSE (
        SELECT json_object_agg(part.key, CASE
            WHEN part.key <> 'target' THEN part.value
            ELSE (SELECT json_object_agg(one.key, one.value) FROM json_each(part.value) AS one WHERE one.key <> 'body')
        END)
        FROM json_each(p.payload::json) AS part
    ) END
))
FROM json_array_elements_text(:ids::text::json) AS wanted (id)
JOIN schedules AS s ON s.partition_id = partition_of(wanted.id::uuid) AND s.id = wanted.id::uuid
JOIN payloads AS p ON p.partition_id = s.partition_id AND p.task_id = s.id AND p.version = s.payload_version;

-- name: schedule_template_insert
INSERT INTO payloads (partition_id, task_id, version, payload, template)
VALUES (partition_of(:id::text::uuid), :id::text::uuid, :version::integer, :payload::text, 1);

-- name: schedule_template_retire
UPDATE payloads SET template = 2
WHERE partition_id = partition_of(:id::text::uuid) AND task_id = :id::text::uuid AND template = 1
    AND version <> :kept::integer;

-- What schedules sent once, and no task names any more.
-- name: schedule_templates_purge
DELETE FROM payloads WHERE (partition_id, task_id, version) IN (
    SELECT p.partition_id, p.task_id, p.version FROM payloads AS p
    WHERE p.template = 2 AND NOT EXISTS (
        SELECT 1 FROM all_tasks AS t
        WHERE t.template_id = p.task_id AND t.payload_version = p.version AND t.ended_at >= (SELECT gone_before FROM history WHERE only_one)
    )
    LIMIT :limit::bigint
);

-- name: schedule_delete
DELETE FROM schedules WHERE partition_id = partition_of(:id::text::uuid) AND id = :id::text::uuid;
