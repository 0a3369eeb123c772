-- min_reader: 15
-- Events are written with every claim and every end, some hundreds of tasks in one text. Where the server can, they are
-- compressed by lz4, which takes less than half of the time. What is there stays as it is: each value says how it was
-- compressed.
DO $$
BEGIN
    ALTER TABLE event_inbox ALTER COLUMN items SET COMPRESSION lz4;
    ALTER TABLE events ALTER COLUMN items SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
