-- min_reader: 8
-- Which store this is, and whether it is elsewhere now. An older program would serve one that has moved, or that is
-- still being filled, so it does not read such a store.

CREATE TABLE whereabouts (
    only_one smallint PRIMARY KEY CHECK (only_one = 1),
    -- Drawn once; a copy of the database has it too.
    store_id text COLLATE "C" NOT NULL,
    -- Where it is now, and which store that is: this one is not served any more.
    moved_to text COLLATE "C",
    moved_to_id text COLLATE "C",
    moved_at bigint,
    -- From where it is being filled, by which run, and how far that is: this one is not served yet.
    filled_from text COLLATE "C",
    filled_from_id text COLLATE "C",
    filled_by text COLLATE "C",
    filled_upto text COLLATE "C",
    -- Which store it once was.
    came_from_id text COLLATE "C"
);
INSERT INTO whereabouts (only_one, store_id) VALUES (1, replace(gen_random_uuid()::text, '-', ''));

-- While a store moves, no node writes to it, not even one that slept and knows nothing of the move: each transaction
-- of a node sets a mark, and there this says no. To a node it is a server that takes no writes now.
CREATE FUNCTION store_is_shut() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this store is being moved, or has moved' USING ERRCODE = '25006';
END
$$;
