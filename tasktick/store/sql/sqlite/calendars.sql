-- Calendars: times in which schedules that name them do not fire.

-- Rows: tenant, name.
-- name: calendars_read
SELECT json_group_array(json_object(
    'tenant', c.tenant, 'name', c.name, 'version', c.version, 'created_at', c.created_at,
    'updated_at', c.updated_at, 'content', json(c.content)
))
FROM jsonb_each(:rows) AS row JOIN calendars AS c ON c.tenant = row.value->>0 AND c.name = row.value->>1;

-- name: calendars_lock
SELECT json_group_array(name) FROM calendars
WHERE tenant = :tenant AND name IN (SELECT value FROM json_each(:names));

-- name: calendars_count
SELECT json_array(count(*)) FROM calendars WHERE tenant = :tenant;

-- name: calendars_page
SELECT json_group_array(json_object(
    'tenant', c.tenant, 'name', c.name, 'version', c.version, 'created_at', c.created_at,
    'updated_at', c.updated_at, 'content', json(c.content)
))
FROM (SELECT * FROM calendars WHERE tenant = :tenant AND name > :beyond ORDER BY name LIMIT :limit) AS c;

-- name: calendar_put
INSERT INTO calendars (tenant, name, version, created_at, updated_at, content)
VALUES (:tenant, :name, :version, :created_at, :updated_at, :content)
ON CONFLICT (tenant, name) DO UPDATE SET
    version = excluded.version, updated_at = excluded.updated_at, content = excluded.content;

-- name: calendar_delete
DELETE FROM calendars WHERE tenant = :tenant AND name = :name;

-- name: calendar_users
SELECT json_group_array(id) FROM (
    SELECT id FROM schedules
    WHERE tenant = :tenant AND calendars <> '[]'
        AND EXISTS (SELECT 1 FROM json_each(calendars) AS used WHERE used.value->>'name' = :name)
    ORDER BY id LIMIT :limit
);
