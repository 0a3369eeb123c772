-- Check-ins of jobs that run elsewhere.

-- fragment: check
    'id', c.id, 'tenant', c.tenant, 'version', c.version, 'created_at', c.created_at, 'updated_at', c.updated_at,
    'key', c.key, 'name', c.name, 'note', c.note, 'tags', json(c.tags), 'rule', json(c.rule),
    'period_ms', c.period_ms, 'grace_ms', c.grace_ms, 'max_runtime_ms', c.max_runtime_ms, 'ping_hash', c.ping_hash,
    'ping_sealed', c.ping_sealed, 'paused', c.paused, 'status', c.status, 'status_at', c.status_at,
    'reason', c.reason, 'anchor_at', c.anchor_at, 'expected_at', c.expected_at, 'runs', json(c.runs),
    'failures', c.failures, 'pings', c.pings, 'last_ping_at', c.last_ping_at, 'last_ping_kind', c.last_ping_kind,
    'last_success_at', c.last_success_at, 'last_duration_ms', c.last_duration_ms, 'next_at', c.next_at

-- name: check_insert
INSERT INTO checks (
    id, tenant, version, created_at, updated_at, key, name, note, tags, rule, period_ms, grace_ms, max_runtime_ms,
    ping_hash, ping_sealed, paused, status, status_at, reason, anchor_at, expected_at, next_at
)
SELECT
    value->>'id', value->>'tenant', value->>'version', value->>'created_at', value->>'updated_at', value->>'key',
    value->>'name', value->>'note', value->>'tags', value->>'rule', value->>'period_ms', value->>'grace_ms',
    value->>'max_runtime_ms', value->>'ping_hash', value->>'ping_sealed', value->>'paused', value->>'status',
    value->>'status_at', value->>'reason', value->>'anchor_at', value->>'expected_at', value->>'next_at'
FROM jsonb_each(:rows) WHERE true;

-- What a client says about it; where it stands is written apart.
-- name: check_define
UPDATE checks SET
    version = row.value->>'version', name = row.value->>'name', note = row.value->>'note', tags = row.value->>'tags',
    rule = row.value->>'rule', period_ms = row.value->>'period_ms', grace_ms = row.value->>'grace_ms',
    max_runtime_ms = row.value->>'max_runtime_ms', ping_hash = row.value->>'ping_hash',
    ping_sealed = row.value->>'ping_sealed', paused = row.value->>'paused'
FROM jsonb_each(:rows) AS row
WHERE checks.id = row.value->>'id';

-- Rows: in the order of store/checkins.py, STANDING.
-- name: check_stand
UPDATE checks SET
    updated_at = row.value->>1, status = row.value->>2, status_at = row.value->>3, reason = row.value->>4,
    anchor_at = row.value->>5, expected_at = row.value->>6, runs = row.value->>7, failures = row.value->>8,
    pings = row.value->>9, last_ping_at = row.value->>10, last_ping_kind = row.value->>11,
    last_success_at = row.value->>12, last_duration_ms = row.value->>13, next_at = row.value->>14
FROM jsonb_each(:rows) AS row
WHERE checks.id = row.value->>0;

-- name: checks_read
SELECT json_group_array(json_object(
    -- include: check
))
FROM (SELECT * FROM checks WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id) AS c
WHERE :tenant IS NULL OR c.tenant = :tenant;

-- The same, to be written in this transaction.
-- name: checks_held
SELECT json_group_array(json_object(
    -- include: check
))
FROM (SELECT * FROM checks WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id) AS c;

-- name: checks_held_by_ping
SELECT json_group_array(json_object(
    -- include: check
))
FROM (SELECT * FROM checks WHERE ping_hash IN (SELECT value FROM json_each(:hashes)) ORDER BY id) AS c;

-- name: check_known
SELECT json_group_array(id) FROM (SELECT id FROM checks WHERE ping_hash = :ping_hash);

-- fragment: check_filter
        AND (:status IS NULL OR c.status = :status)
        AND (:paused IS NULL OR c.paused = :paused)
        AND (:tag_name IS NULL OR EXISTS (
            SELECT 1 FROM json_each(c.tags) AS tag WHERE tag.key = :tag_name AND tag.value = :tag_value
        ))
        AND (
            :text IS NULL
            OR instr(lower(coalesce(c.name, '')), lower(:text))
            OR instr(lower(coalesce(c.key, '')), lower(:text))
        )

-- name: check_ids_page
SELECT json_group_array(id) FROM (
    SELECT c.id FROM checks AS c
    WHERE c.tenant = :tenant AND c.id < :beyond
    -- include: check_filter
    ORDER BY c.id DESC LIMIT :limit
);

-- name: checks_count
SELECT json_array(count(*)) FROM (SELECT 1 FROM checks WHERE tenant = :tenant LIMIT :limit);

-- name: checks_due
SELECT json_group_array(id) FROM (
    SELECT id FROM checks
    WHERE next_at IS NOT NULL AND next_at <= :now
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))
    ORDER BY next_at, id LIMIT :limit
);

-- name: check_delete
DELETE FROM pings WHERE check_id = :id;
DELETE FROM checks WHERE id = :id;

-- name: check_watch_read
SELECT json_group_array(json_array(seen_at, away_from, away_until)) FROM check_watch;

-- Somebody is there. Who was there too long ago says that nobody was.
-- name: check_watch_seen
UPDATE check_watch SET
    away_from = CASE WHEN :now - seen_at > :away_after_ms THEN seen_at ELSE away_from END,
    away_until = CASE WHEN :now - seen_at > :away_after_ms THEN :now ELSE away_until END,
    seen_at = :now
WHERE EXISTS (SELECT 1 FROM checks);

-- The first check of all: nobody has missed anything before it.
-- name: check_watch_begin
UPDATE check_watch SET seen_at = :now WHERE NOT EXISTS (SELECT 1 FROM checks);

-- name: pings_insert
INSERT INTO pings (
    check_id, number, at, kind, exit_code, run, duration_ms, method, source, agent, body, body_bytes
)
SELECT
    value->>'check_id', value->>'number', value->>'at', value->>'kind', value->>'exit_code', value->>'run',
    value->>'duration_ms', value->>'method', value->>'source', value->>'agent', value->>'body', value->>'body_bytes'
FROM jsonb_each(:rows) WHERE true;

-- Rows: check, the last number that goes.
-- name: pings_trim
DELETE FROM pings WHERE (check_id, number) IN (
    SELECT p.check_id, p.number FROM jsonb_each(:rows) AS row
    JOIN pings AS p ON p.check_id = row.value->>0 AND p.number <= row.value->>1
);

-- name: pings_page
SELECT json_group_array(json_object(
    'check_id', p.check_id, 'number', p.number, 'at', p.at, 'kind', p.kind, 'exit_code', p.exit_code, 'run', p.run,
    'duration_ms', p.duration_ms, 'method', p.method, 'source', p.source, 'agent', p.agent, 'body', p.body,
    'body_bytes', p.body_bytes
))
FROM (
    SELECT * FROM pings
    WHERE check_id = :check_id AND number < :beyond AND (:kind IS NULL OR kind = :kind)
    ORDER BY number DESC LIMIT :limit
) AS p;

-- name: pings_purge
DELETE FROM pings WHERE (check_id, number) IN (
    SELECT check_id, number FROM pings WHERE at <= :before ORDER BY at LIMIT :limit
);
