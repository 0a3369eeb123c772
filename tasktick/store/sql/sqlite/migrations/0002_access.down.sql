-- loses: tenants with limits: SELECT count(*) FROM tenants
-- loses: secrets that are to stop on their own: SELECT count(*) FROM secrets WHERE retires_at IS NOT NULL
-- When keys were last used is forgotten too, and noted anew.
DROP TABLE tenants;
ALTER TABLE secrets DROP COLUMN retires_at;
DROP INDEX keys_by_tenant;
ALTER TABLE keys DROP COLUMN last_used_at;
