-- Signing secrets (sealed) and API keys (hashed).

-- name: secret_insert
INSERT INTO secrets (id, tenant, kind, sealed, created_at) VALUES (:id, :tenant, :kind, :sealed, :now);

-- name: secrets_read
SELECT json_group_array(json_object(
    'id', id, 'tenant', tenant, 'kind', kind, 'sealed', sealed, 'created_at', created_at, 'retired_at', retired_at
))
FROM (
    SELECT * FROM secrets
    WHERE (:tenant IS NULL OR tenant = :tenant) AND (:kind IS NULL OR kind = :kind)
    ORDER BY created_at DESC, id DESC
);

-- name: key_insert
INSERT INTO keys (id, prefix, hash, tenant, role, name, created_at, expires_at)
VALUES (:id, :prefix, :hash, :tenant, :role, :name, :now, :expires_at)
ON CONFLICT (prefix) DO NOTHING;

-- name: keys_read
SELECT json_group_array(json_object(
    'id', id, 'prefix', prefix, 'hash', hash, 'tenant', tenant, 'role', role, 'name', name,
    'created_at', created_at, 'expires_at', expires_at, 'revoked_at', revoked_at
))
FROM (SELECT * FROM keys WHERE :prefix IS NULL OR prefix = :prefix ORDER BY id);
