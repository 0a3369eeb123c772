-- Tenants: what they may have (rows of their own), and what they have (counts). States 1 to 9 are unfinished.

-- Of these tenants, those with a quota.
-- name: tenants_limited
SELECT json_agg(name ORDER BY name) FROM tenants
WHERE max_pending IS NOT NULL AND name IN (SELECT value FROM json_array_elements_text(:tenants::text::json));

-- Of these tenants, those with a quota: how many unfinished tasks each may have, and has. Who asks holds their rows
-- until the commit, so that no two fill the same room.
-- name: tenants_room
SELECT 1 FROM tenants
WHERE max_pending IS NOT NULL AND name IN (SELECT value FROM json_array_elements_text(:tenants::text::json))
ORDER BY name
FOR NO KEY UPDATE;
SELECT json_agg(json_build_array(
    t.name, t.max_pending,
    coalesce((SELECT sum(c.tasks) FROM pending_counts AS c WHERE c.tenant = t.name), 0)
))
FROM json_array_elements_text(:tenants::text::json) AS wanted (name) JOIN tenants AS t ON t.name = wanted.name
WHERE t.max_pending IS NOT NULL;

-- A tenant is known by its limits, by a key that is not revoked, or by an unfinished task.
-- name: tenants_read
SELECT json_agg(json_build_object(
    'name', name, 'max_pending', max_pending, 'create_rate', create_rate,
    'created_at', created_at, 'updated_at', updated_at, 'pending', pending, 'running', running
) ORDER BY name)
FROM (
    SELECT
        known.name, t.max_pending, t.create_rate, t.created_at, t.updated_at,
        coalesce((SELECT sum(c.tasks) FROM pending_counts AS c WHERE c.tenant = known.name), 0) AS pending,
        coalesce(under_way.tasks, 0) AS running
    FROM (
        SELECT :always::text COLLATE "C" AS name
        UNION SELECT name FROM tenants
        UNION SELECT tenant FROM keys WHERE revoked_at IS NULL
        UNION SELECT tenant FROM pending_counts GROUP BY tenant HAVING sum(tasks) > 0
    ) AS known
    LEFT JOIN tenants AS t ON t.name = known.name
    LEFT JOIN (
        SELECT tenant, count(*) AS tasks FROM tasks WHERE state = 4 GROUP BY tenant
    ) AS under_way ON under_way.tenant = known.name
    WHERE (:name::text IS NULL OR known.name = :name::text) AND (:beyond::text IS NULL OR known.name > :beyond::text)
    ORDER BY known.name LIMIT :limit::bigint
) AS page;

-- name: tenant_create_rate
SELECT json_agg(create_rate) FROM tenants WHERE name = :name::text AND create_rate IS NOT NULL;

-- name: tenant_put
INSERT INTO tenants (name, max_pending, create_rate, created_at, updated_at)
VALUES (:name::text, :max_pending::bigint, :create_rate::text, :now::bigint, :now::bigint)
ON CONFLICT (name) DO UPDATE SET
    max_pending = excluded.max_pending, create_rate = excluded.create_rate, updated_at = excluded.updated_at;

-- name: tenant_delete
DELETE FROM tenants WHERE name = :name::text;
