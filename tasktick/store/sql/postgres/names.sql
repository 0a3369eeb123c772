-- Keys that must be unique: of unfinished tasks (kind 'task'), and idempotency keys (kind 'idempotency').

-- Rows: tenant, kind, name, object_id, created_at, expires_at, fingerprint, status, headers, body.
-- name: names_insert
INSERT INTO names (tenant, kind, name, object_id, created_at, expires_at, fingerprint, status, headers, body)
SELECT
    row->>0, row->>1, row->>2, row->>3, (row->>4)::bigint, (row->>5)::bigint, row->>6, (row->>7)::integer, row->>8,
    row->>9
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
ON CONFLICT (tenant, kind, name) DO NOTHING;

-- name: names_read
SELECT json_agg(json_build_object(
    'tenant', n.tenant, 'kind', n.kind, 'name', n.name, 'object_id', n.object_id, 'created_at', n.created_at,
    'expires_at', n.expires_at, 'fingerprint', n.fingerprint, 'status', n.status, 'headers', n.headers::json,
    'body', n.body
))
FROM json_to_recordset(:rows::text::json) AS given (tenant text, kind text, name text)
JOIN names AS n ON n.tenant = given.tenant AND n.kind = given.kind AND n.name = given.name;

-- name: names_expire_now
DELETE FROM names
WHERE tenant = :tenant::text AND kind = :kind::text AND name = :name::text
    AND expires_at IS NOT NULL AND expires_at <= :now::bigint;

-- name: names_answer
UPDATE names SET status = :status::integer, headers = :headers::text, body = :body::text
WHERE tenant = :tenant::text AND kind = :kind::text AND name = :name::text AND fingerprint = :fingerprint::text;

-- name: names_free
DELETE FROM names
WHERE kind = :kind::text AND object_id IN (SELECT value FROM json_array_elements_text(:ids::text::json));

-- name: names_purge
DELETE FROM names WHERE (tenant, kind, name) IN (
    SELECT tenant, kind, name FROM names
    WHERE expires_at IS NOT NULL AND expires_at <= :now::bigint
    ORDER BY expires_at LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
);

-- The keys of finished tasks that are taken up again; a key that another has by now stays with it.
-- name: names_take_again
INSERT INTO names (tenant, kind, name, object_id, created_at)
SELECT d.tenant, :kind::text, d.key, hex_of(d.id), d.created_at
FROM (
    SELECT d.tenant, d.key, d.id, d.created_at
    FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(wanted.id::uuid) AND id = wanted.id::uuid
        OFFSET 0
    ) AS t
    CROSS JOIN LATERAL (
        SELECT * FROM task_details
        WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
        OFFSET 0
    ) AS d
    OFFSET 0
) AS d
WHERE d.key IS NOT NULL
ORDER BY d.tenant, d.key
ON CONFLICT (tenant, kind, name) DO NOTHING;

-- name: names_held
SELECT json_agg(object_id) FROM names
WHERE kind = :kind::text AND object_id IN (SELECT value FROM json_array_elements_text(:ids::text::json));
