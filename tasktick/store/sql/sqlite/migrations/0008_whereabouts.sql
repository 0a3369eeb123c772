-- min_reader: 8
-- Which store this is, and whether it is elsewhere now. An older program would serve one that has moved, or that is
-- still being filled, so it does not read such a store.

CREATE TABLE whereabouts (
    only_one INTEGER PRIMARY KEY NOT NULL CHECK (only_one = 1),
    -- Drawn once; a copy of the file has it too.
    store_id TEXT NOT NULL,
    -- Where it is now, and which store that is: this one is not served any more.
    moved_to TEXT,
    moved_to_id TEXT,
    moved_at INTEGER,
    -- From where it is being filled, by which run, and how far that is: this one is not served yet.
    filled_from TEXT,
    filled_from_id TEXT,
    filled_by TEXT,
    filled_upto TEXT,
    -- Which store it once was.
    came_from_id TEXT
) WITHOUT ROWID;
INSERT INTO whereabouts (only_one, store_id) VALUES (1, lower(hex(randomblob(16))));

-- What was locked while this node lived; '' is this file. The lock on it proves nothing of nodes of other places.
ALTER TABLE nodes ADD COLUMN home TEXT NOT NULL DEFAULT '';
