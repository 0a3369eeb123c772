-- Check-ins of jobs that run elsewhere.

-- fragment: check
    'id', c.id, 'tenant', c.tenant, 'version', c.version, 'created_at', c.created_at, 'updated_at', c.updated_at,
    'key', c.key, 'name', c.name, 'note', c.note, 'tags', c.tags::json, 'rule', c.rule::json,
    'period_ms', c.period_ms, 'grace_ms', c.grace_ms, 'max_runtime_ms', c.max_runtime_ms, 'ping_hash', c.ping_hash,
    'ping_sealed', c.ping_sealed, 'paused', c.paused, 'status', c.status, 'status_at', c.status_at,
    'reason', c.reason, 'anchor_at', c.anchor_at, 'expected_at', c.expected_at, 'runs', c.runs::json,
    'failures', c.failures, 'pings', c.pings, 'last_ping_at', c.last_ping_at, 'last_ping_kind', c.last_ping_kind,
    'last_success_at', c.last_success_at, 'last_duration_ms', c.last_duration_ms, 'next_at', c.next_at

-- name: check_insert
INSERT INTO checks (
    id, tenant, version, created_at, updated_at, key, name, note, tags, rule, period_ms, grace_ms, max_runtime_ms,
    ping_hash, ping_sealed, paused, status, status_at, reason, anchor_at, expected_at, next_at
)
SELECT
    id, tenant, version, created_at, updated_at, key, name, note, tags, rule, period_ms, grace_ms, max_runtime_ms,
    ping_hash, ping_sealed, paused, status, status_at, reason, anchor_at, expected_at, next_at
FROM json_to_recordset(:rows::text::json) AS given (
    id text, tenant text, version integer, created_at bigint, updated_at bigint, key text, name text, note text,
    tags text, rule text, period_ms bigint, grace_ms bigint, max_runtime_ms bigint, ping_hash text, ping_sealed text,
    paused boolean, status text, status_at bigint, reason text, anchor_at bigint, expected_at bigint, next_at bigint
);

-- What a client says about it; where it stands is written apart.
-- name: check_define
UPDATE checks SET
    version = given.version, name = given.name, note = given.note, tags = given.tags, rule = given.rule,
    period_ms = given.period_ms, grace_ms = given.grace_ms, max_runtime_ms = given.max_runtime_ms,
    ping_hash = given.ping_hash, ping_sealed = given.ping_sealed, paused = given.paused
FROM json_to_recordset(:rows::text::json) AS given (
    id text, version integer, name text, note text, tags text, rule text, period_ms bigint, grace_ms bigint,
    max_runtime_ms bigint, ping_hash text, ping_sealed text, paused boolean
)
WHERE checks.id = given.id;

-- Rows: in the order of store/checkins.py, STANDING.
-- name: check_stand
UPDATE checks SET
    updated_at = (row->>1)::bigint, status = row->>2, status_at = (row->>3)::bigint, reason = row->>4,
    anchor_at = (row->>5)::bigint, expected_at = (row->>6)::bigint, runs = row->>7, failures = (row->>8)::bigint,
    pings = (row->>9)::bigint, last_ping_at = (row->>10)::bigint, last_ping_kind = row->>11,
    last_success_at = (row->>12)::bigint, last_duration_ms = (row->>13)::bigint, next_at = (row->>14)::bigint
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE checks.id = row->>0;

-- name: checks_read
SELECT json_agg(json_build_object(
    -- include: check
) ORDER BY c.id)
FROM checks AS c
WHERE c.id IN (SELECT value FROM json_array_elements_text(:ids::text::json))
    AND (:tenant::text IS NULL OR c.tenant = :tenant::text);

-- The same, to be written in this transaction: the rows are locked, in order.
-- name: checks_held
SELECT json_agg(json_build_object(
    -- include: check
) ORDER BY c.id)
FROM (
    SELECT * FROM checks WHERE id IN (SELECT value FROM json_array_elements_text(:ids::text::json))
    ORDER BY id
    FOR NO KEY UPDATE
) AS c;

-- name: checks_held_by_ping
SELECT json_agg(json_build_object(
    -- include: check
) ORDER BY c.id)
FROM (
    SELECT * FROM checks WHERE ping_hash IN (SELECT value FROM json_array_elements_text(:hashes::text::json))
    ORDER BY id
    FOR NO KEY UPDATE
) AS c;

-- name: check_known
SELECT json_agg(id) FROM checks WHERE ping_hash = :ping_hash::text;

-- fragment: check_filter
        AND (:status::text IS NULL OR c.status = :status::text)
        AND (:paused::boolean IS NULL OR c.paused = :paused::boolean)
        AND (:tag_name::text IS NULL OR c.tags::json->>:tag_name::text = :tag_value::text)
        AND (
            :text::text IS NULL
            OR strpos(lower(coalesce(c.name, '')), lower(:text::text)) > 0
            OR strpos(lower(coalesce(c.key, '')), lower(:text::text)) > 0
        )

-- name: check_ids_page
SELECT json_agg(id) FROM (
    SELECT c.id FROM checks AS c
    WHERE c.tenant = :tenant::text AND c.id < :beyond::text
    -- include: check_filter
    ORDER BY c.id DESC LIMIT :limit::bigint
) AS page;

-- name: checks_count
SELECT json_build_array(count(*)) FROM (
    SELECT 1 FROM checks WHERE tenant = :tenant::text LIMIT :limit::bigint
) AS counted;

-- name: checks_due
SELECT json_agg(id) FROM (
    SELECT id FROM checks
    WHERE next_at IS NOT NULL AND next_at <= :now::bigint
        AND (:partitions::text IS NULL OR right(id, 2) IN (
            SELECT value FROM json_array_elements_text(:partitions::text::json)
        ))
    ORDER BY next_at, id LIMIT :limit::bigint
) AS due;

-- name: check_delete
DELETE FROM pings WHERE check_id = :id::text;
DELETE FROM checks WHERE id = :id::text;

-- name: check_watch_read
SELECT json_agg(json_build_array(seen_at, away_from, away_until)) FROM check_watch;

-- Somebody is there. Who was there too long ago says that nobody was.
-- name: check_watch_seen
UPDATE check_watch SET
    away_from = CASE WHEN :now::bigint - seen_at > :away_after_ms::bigint THEN seen_at ELSE away_from END,
    away_until = CASE WHEN :now::bigint - seen_at > :away_after_ms::bigint THEN :now::bigint ELSE away_until END,
    seen_at = :now::bigint
WHERE EXISTS (SELECT 1 FROM checks);

-- The first check of all: nobody has missed anything before it.
-- name: check_watch_begin
UPDATE check_watch SET seen_at = :now::bigint WHERE NOT EXISTS (SELECT 1 FROM checks);

-- name: pings_insert
INSERT INTO pings (
    check_id, number, at, kind, exit_code, run, duration_ms, method, source, agent, body, body_bytes
)
SELECT check_id, number, at, kind, exit_code, run, duration_ms, method, source, agent, body, body_bytes
FROM json_to_recordset(:rows::text::json) AS given (
    check_id text, number bigint, at bigint, kind text, exit_code bigint, run text, duration_ms bigint, method text,
    source text, agent text, body text, body_bytes bigint
);

-- Rows: check, the last number that goes.
-- name: pings_trim
DELETE FROM pings USING jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE pings.check_id = row->>0 AND pings.number <= (row->>1)::bigint;

-- name: pings_page
SELECT json_agg(json_build_object(
    'check_id', p.check_id, 'number', p.number, 'at', p.at, 'kind', p.kind, 'exit_code', p.exit_code, 'run', p.run,
    'duration_ms', p.duration_ms, 'method', p.method, 'source', p.source, 'agent', p.agent, 'body', p.body,
    'body_bytes', p.body_bytes
) ORDER BY p.number DESC)
FROM (
    SELECT * FROM pings
    WHERE check_id = :check_id::text AND number < :beyond::bigint AND (:kind::text IS NULL OR kind = :kind::text)
    ORDER BY number DESC LIMIT :limit::bigint
) AS p;

-- name: pings_purge
DELETE FROM pings WHERE (check_id, number) IN (
    SELECT check_id, number FROM pings WHERE at <= :before::bigint ORDER BY at LIMIT :limit::bigint
);
