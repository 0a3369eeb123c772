-- Nothing is lost: an index.
DROP INDEX secrets_by_tenant;
