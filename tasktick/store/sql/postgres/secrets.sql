-- Signing secrets (sealed) and API keys (hashed).

-- name: secret_insert
INSERT INTO secrets (id, tenant, kind, sealed, created_at)
VALUES (:id::text, :tenant::text, :kind::text, :sealed::text, :now::bigint);

-- name: secret_insert_once
INSERT INTO secrets (id, tenant, kind, sealed, created_at)
VALUES (:id::text, :tenant::text, :kind::text, :sealed::text, :now::bigint)
ON CONFLICT (id) DO NOTHING;

-- `retired_at` may lie ahead: until then the secret signs.
-- name: secrets_read
SELECT json_agg(json_build_object(
    'id', id, 'tenant', tenant, 'kind', kind, 'sealed', sealed, 'created_at', created_at,
    'retired_at', coalesce(retired_at, retires_at)
) ORDER BY created_at DESC, id DESC)
FROM secrets
WHERE (:tenant::text IS NULL OR tenant = :tenant::text) AND (:kind::text IS NULL OR kind = :kind::text);

-- The same of several tenants.
-- name: secrets_of
SELECT json_agg(json_build_object(
    'id', id, 'tenant', tenant, 'kind', kind, 'sealed', sealed, 'created_at', created_at,
    'retired_at', coalesce(retired_at, retires_at)
) ORDER BY created_at DESC, id DESC)
FROM secrets
WHERE tenant = ANY (ARRAY(SELECT value FROM json_array_elements_text(:tenants::text::json))) AND kind = :kind::text;

-- At once, unless that has happened.
-- name: secrets_retire
UPDATE secrets SET retired_at = :now::bigint
WHERE tenant = :tenant::text AND id IN (SELECT value FROM json_array_elements_text(:ids::text::json))
    AND retired_at IS NULL AND (retires_at IS NULL OR retires_at > :now::bigint);

-- At a time to come, unless it is to happen before.
-- name: secrets_retire_at
UPDATE secrets SET retires_at = :at::bigint
WHERE tenant = :tenant::text AND id IN (SELECT value FROM json_array_elements_text(:ids::text::json))
    AND retired_at IS NULL AND (retires_at IS NULL OR retires_at > :at::bigint);

-- Of those that sign no more, the newest stay, to be seen.
-- name: secrets_forget
DELETE FROM secrets
WHERE tenant = :tenant::text AND kind = :kind::text AND coalesce(retired_at, retires_at) <= :now::bigint
    AND id NOT IN (
        SELECT id FROM secrets
        WHERE tenant = :tenant::text AND kind = :kind::text AND coalesce(retired_at, retires_at) <= :now::bigint
        ORDER BY created_at DESC, id DESC LIMIT :kept::bigint
    );

-- fragment: key
    'id', id, 'prefix', prefix, 'hash', hash, 'tenant', tenant, 'role', role, 'name', name,
    'created_at', created_at, 'expires_at', expires_at, 'revoked_at', revoked_at, 'last_used_at', last_used_at

-- name: key_insert
INSERT INTO keys (id, prefix, hash, tenant, role, name, created_at, expires_at)
VALUES (
    :id::text, :prefix::text, :hash::text, :tenant::text, :role::text, :name::text, :now::bigint, :expires_at::bigint
)
ON CONFLICT (prefix) DO NOTHING;

-- name: keys_read
SELECT json_agg(json_build_object(
    -- include: key
) ORDER BY id)
FROM keys WHERE :prefix::text IS NULL OR prefix = :prefix::text;

-- name: keys_page
SELECT json_agg(json_build_object(
    -- include: key
) ORDER BY id DESC)
FROM (
    SELECT * FROM keys
    WHERE (:tenant::text IS NULL OR tenant = :tenant::text)
        AND role IN (SELECT value FROM json_array_elements_text(:roles::text::json))
        AND (revoked_at IS NOT NULL) = (:revoked::integer <> 0)
        AND (:beyond::text IS NULL OR id < :beyond::text)
    ORDER BY id DESC LIMIT :limit::bigint
) AS page;

-- name: keys_by_id
SELECT json_agg(json_build_object(
    -- include: key
))
FROM keys WHERE id = :id::text AND (:tenant::text IS NULL OR tenant = :tenant::text);

-- How many keys work, of a tenant and a role or of all.
-- name: keys_count
SELECT json_build_array(count(*)) FROM keys
WHERE (:tenant::text IS NULL OR tenant = :tenant::text) AND (:role::text IS NULL OR role = :role::text)
    AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now::bigint);

-- One after the other: two operators' keys that go at once must not both see the other one there.
-- name: key_revoke
SELECT 1 FROM keys WHERE role = 'operator' AND revoked_at IS NULL ORDER BY id FOR UPDATE;
UPDATE keys SET revoked_at = :now::bigint WHERE id = :id::text AND revoked_at IS NULL;

-- name: keys_revoke_of
UPDATE keys SET revoked_at = :now::bigint WHERE tenant = :tenant::text AND revoked_at IS NULL;

-- Rows: id, when it was used.
-- name: keys_used
UPDATE keys SET last_used_at = (row->>1)::bigint
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE keys.id = row->>0 AND coalesce(keys.last_used_at, 0) < (row->>1)::bigint;
