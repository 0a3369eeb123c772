-- min_reader: 15
-- The secrets of a batch's tenants are found without reading those of all others.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS secrets_by_tenant;
CREATE INDEX CONCURRENTLY secrets_by_tenant ON secrets (tenant, kind, created_at);
