-- loses: nodes that are drained by name: SELECT count(*) FROM drained_nodes
-- Who owns what for how long is of running nodes alone, and none runs now.
ALTER TABLE leases DROP COLUMN free_since;
ALTER TABLE leases DROP COLUMN wanted_by;
DROP TABLE drained_nodes;
ALTER TABLE nodes DROP COLUMN tzdata;
ALTER TABLE nodes DROP COLUMN version;
ALTER TABLE nodes DROP COLUMN address;
ALTER TABLE nodes DROP COLUMN leaving;
ALTER TABLE nodes DROP COLUMN beat;
ALTER TABLE nodes DROP COLUMN expires_at;
