-- min_reader: 3
-- Many nodes on one store: whose term lasts until when, and how partitions move.

-- A node without an end holds the lock on the store: it lives as long as its process.
ALTER TABLE nodes ADD COLUMN expires_at bigint;
-- Counts its renewals; one that does not show the last beat is not the one that was seen.
ALTER TABLE nodes ADD COLUMN beat bigint NOT NULL DEFAULT 0;
-- It is about to end and takes nothing more.
ALTER TABLE nodes ADD COLUMN leaving boolean NOT NULL DEFAULT false;
ALTER TABLE nodes ADD COLUMN address text COLLATE "C";
ALTER TABLE nodes ADD COLUMN version text COLLATE "C";
ALTER TABLE nodes ADD COLUMN tzdata text COLLATE "C";
-- Nodes that are to own nothing, by name: it outlives a restart.
CREATE TABLE drained_nodes (
    name text COLLATE "C" PRIMARY KEY,
    since bigint NOT NULL
);

-- Who has asked for it, and since when it is free.
ALTER TABLE leases ADD COLUMN wanted_by text COLLATE "C";
ALTER TABLE leases ADD COLUMN free_since bigint;
