-- min_reader: 1
-- What happened, for GET /v1/events. An older program writes none: what happened under it is not told.

-- One row for each batch, in the order of commits, since one connection writes. The newest is never removed: the next
-- one's sequence and `upto` follow from it, so that no number is given twice.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY NOT NULL,
    at INTEGER NOT NULL,
    -- How many events there have ever been, those of this row included.
    upto INTEGER NOT NULL,
    -- By tenant, what happened to its own: {"default": [["<task id>", before, after, at, attempt], ...]}.
    items TEXT NOT NULL
);
