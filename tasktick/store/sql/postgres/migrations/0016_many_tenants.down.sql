-- Nothing is lost: an index.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS secrets_by_tenant;
