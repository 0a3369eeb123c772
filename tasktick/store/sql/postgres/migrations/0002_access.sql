-- min_reader: 1
-- Who may ask, and for how much. An older program reads what it knows: it notes no use of keys, lets a secret
-- whose end is set sign on, and holds nobody to a quota.

-- When a key was last used, to about a minute.
ALTER TABLE keys ADD COLUMN last_used_at bigint;
CREATE INDEX keys_by_tenant ON keys (tenant, id);

-- When a secret that still signs will stop to.
ALTER TABLE secrets ADD COLUMN retires_at bigint;

-- What a tenant may have; one that is not here has no limits.
CREATE TABLE tenants (
    name text COLLATE "C" PRIMARY KEY,
    max_pending bigint,
    create_rate text COLLATE "C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
