-- Keys that must be unique: of unfinished tasks (kind 'task'), and idempotency keys (kind 'idempotency').

-- Rows: tenant, kind, name, object_id, created_at, expires_at, fingerprint, status, headers, body.
-- name: names_insert
INSERT INTO names (tenant, kind, name, object_id, created_at, expires_at, fingerprint, status, headers, body)
SELECT
    value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9
FROM jsonb_each(:rows) WHERE true
ON CONFLICT (tenant, kind, name) DO NOTHING;

-- name: names_read
SELECT json_group_array(json_object(
    'tenant', n.tenant, 'kind', n.kind, 'name', n.name, 'object_id', n.object_id, 'created_at', n.created_at,
    'expires_at', n.expires_at, 'fingerprint', n.fingerprint, 'status', n.status, 'headers', json(n.headers),
    'body', n.body
))
FROM jsonb_each(:rows) AS row
JOIN names AS n
    ON n.tenant = row.value->>'tenant' AND n.kind = row.value->>'kind' AND n.name = row.value->>'name';

-- name: names_expire_now
DELETE FROM names
WHERE tenant = :tenant AND kind = :kind AND name = :name AND expires_at IS NOT NULL AND expires_at <= :now;

-- name: names_answer
UPDATE names SET status = :status, headers = :headers, body = :body
WHERE tenant = :tenant AND kind = :kind AND name = :name AND fingerprint = :fingerprint;

-- name: names_free
DELETE FROM names WHERE kind = :kind AND object_id IN (SELECT value FROM json_each(:ids));

-- name: names_purge
DELETE FROM names WHERE (tenant, kind, name) IN (
    SELECT tenant, kind, name FROM names WHERE expires_at IS NOT NULL AND expires_at <= :now LIMIT :limit
);

-- The keys of finished tasks that are taken up again; a key that another has by now stays with it.
-- name: names_take_again
INSERT INTO names (tenant, kind, name, object_id, created_at)
SELECT d.tenant, :kind, d.key, d.id, d.created_at
FROM json_each(:ids) AS wanted
CROSS JOIN tasks AS t ON t.id = wanted.value
CROSS JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
WHERE d.key IS NOT NULL
ON CONFLICT (tenant, kind, name) DO NOTHING;

-- name: names_held
SELECT json_group_array(object_id) FROM (
    SELECT object_id FROM names WHERE kind = :kind AND object_id IN (SELECT value FROM json_each(:ids))
);
