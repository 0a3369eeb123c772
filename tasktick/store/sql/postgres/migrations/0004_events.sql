-- min_reader: 1
-- What happened, for GET /v1/events. An older program writes none: what happened under it is not told.

-- One row for each batch, in the order of commits. The newest is never removed.
CREATE TABLE events (
    sequence bigint PRIMARY KEY,
    at bigint NOT NULL,
    -- How many events there have ever been, those of this row included.
    upto bigint NOT NULL,
    -- By tenant, what happened to its own: {"default": [["<task id>", before, after, at, attempt], ...]}.
    items text COLLATE "C" NOT NULL
);

-- The last number that was given, and how many events there were up to it. Whoever takes the next one holds this row
-- until its commit: so rows become readable in the order of their numbers, which the numbers of a sequence would not.
CREATE TABLE event_head (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    sequence bigint NOT NULL,
    upto bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
INSERT INTO event_head (sequence, upto) VALUES (0, 0);
