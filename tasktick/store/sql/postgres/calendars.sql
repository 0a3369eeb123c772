-- Calendars: times in which schedules that name them do not fire.

-- Rows: tenant, name.
-- name: calendars_read
SELECT json_agg(json_build_object(
    'tenant', c.tenant, 'name', c.name, 'version', c.version, 'created_at', c.created_at,
    'updated_at', c.updated_at, 'content', c.content::json
))
FROM json_array_elements(:rows::text::json) AS given (row)
JOIN calendars AS c ON c.tenant = row->>0 AND c.name = row->>1;

-- A schedule that begins to name one keeps it from going until the commit.
-- name: calendars_lock
SELECT json_agg(name) FROM (
    SELECT name FROM calendars
    WHERE tenant = :tenant::text AND name IN (SELECT value FROM json_array_elements_text(:names::text::json))
    ORDER BY name
    FOR KEY SHARE
) AS held;

-- name: calendars_count
SELECT json_build_array(count(*)) FROM calendars WHERE tenant = :tenant::text;

-- name: calendars_page
SELECT json_agg(json_build_object(
    'tenant', c.tenant, 'name', c.name, 'version', c.version, 'created_at', c.created_at,
    'updated_at', c.updated_at, 'content', c.content::json
) ORDER BY c.name)
FROM (
    SELECT * FROM calendars WHERE tenant = :tenant::text AND name > :beyond::text ORDER BY name LIMIT :limit::bigint
) AS c;

-- name: calendar_put
INSERT INTO calendars (tenant, name, version, created_at, updated_at, content)
VALUES (
    :tenant::text, :name::text, :version::integer, :created_at::bigint, :updated_at::bigint, :content::text
)
ON CONFLICT (tenant, name) DO UPDATE SET
    version = excluded.version, updated_at = excluded.updated_at, content = excluded.content;

-- name: calendar_delete
DELETE FROM calendars WHERE tenant = :tenant::text AND name = :name::text;

-- name: calendar_users
SELECT json_agg(hex_of(id)) FROM (
    SELECT id FROM schedules
    WHERE tenant = :tenant::text AND calendars <> '[]'
        AND EXISTS (SELECT 1 FROM json_array_elements(calendars::json) AS used WHERE used->>'name' = :name::text)
    ORDER BY id LIMIT :limit::bigint
) AS found;
