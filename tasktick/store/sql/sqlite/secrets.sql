-- Signing secrets (sealed) and API keys (hashed).

-- name: secret_insert
INSERT INTO secrets (id, tenant, kind, sealed, created_at) VALUES (:id, :tenant, :kind, :sealed, :now);

-- name: secret_insert_once
INSERT INTO secrets (id, tenant, kind, sealed, created_at)
VALUES (:id, :tenant, :kind, :sealed, :now)
ON CONFLICT (id) DO NOTHING;

-- `retired_at` may lie ahead: until then the secret signs.
-- name: secrets_read
SELECT json_group_array(json_object(
    'id', id, 'tenant', tenant, 'kind', kind, 'sealed', sealed, 'created_at', created_at,
    'retired_at', coalesce(retired_at, retires_at)
))
FROM (
    SELECT * FROM secrets
    WHERE (:tenant IS NULL OR tenant = :tenant) AND (:kind IS NULL OR kind = :kind)
    ORDER BY created_at DESC, id DESC
);

-- The same of several tenants.
-- name: secrets_of
SELECT json_group_array(json_object(
    'id', id, 'tenant', tenant, 'kind', kind, 'sealed', sealed, 'created_at', created_at,
    'retired_at', coalesce(retired_at, retires_at)
))
FROM (
    SELECT s.* FROM (SELECT DISTINCT value FROM json_each(:tenants)) AS wanted
    CROSS JOIN secrets AS s ON s.tenant = wanted.value AND s.kind = :kind
    ORDER BY s.created_at DESC, s.id DESC
);

-- At once, unless that has happened.
-- name: secrets_retire
UPDATE secrets SET retired_at = :now
WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))
    AND retired_at IS NULL AND (retires_at IS NULL OR retires_at > :now);

-- At a time to come, unless it is to happen before.
-- name: secrets_retire_at
UPDATE secrets SET retires_at = :at
WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))
    AND retired_at IS NULL AND (retires_at IS NULL OR retires_at > :at);

-- Of those that sign no more, the newest stay, to be seen.
-- name: secrets_forget
DELETE FROM secrets
WHERE tenant = :tenant AND kind = :kind AND coalesce(retired_at, retires_at) <= :now
    AND id NOT IN (
        SELECT id FROM secrets
        WHERE tenant = :tenant AND kind = :kind AND coalesce(retired_at, retires_at) <= :now
        ORDER BY created_at DESC, id DESC LIMIT :kept
    );

-- fragment: key
    'id', id, 'prefix', prefix, 'hash', hash, 'tenant', tenant, 'role', role, 'name', name,
    'created_at', created_at, 'expires_at', expires_at, 'revoked_at', revoked_at, 'last_used_at', last_used_at

-- name: key_insert
INSERT INTO keys (id, prefix, hash, tenant, role, name, created_at, expires_at)
VALUES (:id, :prefix, :hash, :tenant, :role, :name, :now, :expires_at)
ON CONFLICT (prefix) DO NOTHING;

-- name: keys_read
SELECT json_group_array(json_object(
    -- include: key
))
FROM (SELECT * FROM keys WHERE :prefix IS NULL OR prefix = :prefix ORDER BY id);

-- name: keys_page
SELECT json_group_array(json_object(
    -- include: key
))
FROM (
    SELECT * FROM keys
    WHERE (:tenant IS NULL OR tenant = :tenant)
        AND role IN (SELECT value FROM json_each(:roles))
        AND (revoked_at IS NOT NULL) = :revoked
        AND (:beyond IS NULL OR id < :beyond)
    ORDER BY id DESC LIMIT :limit
);

-- name: keys_by_id
SELECT json_group_array(json_object(
    -- include: key
))
FROM (SELECT * FROM keys WHERE id = :id AND (:tenant IS NULL OR tenant = :tenant));

-- How many keys work, of a tenant and a role or of all.
-- name: keys_count
SELECT json_group_array(n) FROM (
    SELECT count(*) AS n FROM keys
    WHERE (:tenant IS NULL OR tenant = :tenant) AND (:role IS NULL OR role = :role)
        AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
);

-- name: key_revoke
UPDATE keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: keys_revoke_of
UPDATE keys SET revoked_at = :now WHERE tenant = :tenant AND revoked_at IS NULL;

-- Rows: id, when it was used.
-- name: keys_used
UPDATE keys SET last_used_at = row.value->>1
FROM jsonb_each(:rows) AS row
WHERE keys.id = row.value->>0 AND coalesce(keys.last_used_at, 0) < row.value->>1;
