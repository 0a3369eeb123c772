-- min_reader: 3
-- Many nodes on one store: whose term lasts until when, and how partitions move.

-- A node without an end holds the lock on the store: it lives as long as its process.
ALTER TABLE nodes ADD COLUMN expires_at INTEGER;
-- Counts its renewals; one that does not show the last beat is not the one that was seen.
ALTER TABLE nodes ADD COLUMN beat INTEGER NOT NULL DEFAULT 0;
-- It is about to end and takes nothing more.
ALTER TABLE nodes ADD COLUMN leaving INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN address TEXT;
ALTER TABLE nodes ADD COLUMN version TEXT;
ALTER TABLE nodes ADD COLUMN tzdata TEXT;
-- Nodes that are to own nothing, by name: it outlives a restart.
CREATE TABLE drained_nodes (
    name TEXT PRIMARY KEY NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;

-- Who has asked for it, and since when it is free.
ALTER TABLE leases ADD COLUMN wanted_by TEXT;
ALTER TABLE leases ADD COLUMN free_since INTEGER;
