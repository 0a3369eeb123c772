-- min_reader: 15
-- The secrets of a batch's tenants are found without reading those of all others.
CREATE INDEX secrets_by_tenant ON secrets (tenant, kind, created_at);
