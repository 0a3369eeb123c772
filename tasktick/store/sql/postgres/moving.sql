-- What only a PostgreSQL needs when a store moves from it or to it.

-- It waits for every transaction of a node that is under way; after its commit there is none.
-- name: moving_shut
CREATE OR REPLACE TRIGGER shut BEFORE INSERT OR UPDATE ON marks FOR EACH STATEMENT EXECUTE FUNCTION store_is_shut();

-- name: moving_unshut
DROP TRIGGER IF EXISTS shut ON marks;

-- Nodes whose term has not ended, by the database's time.
-- name: moving_living
SELECT json_agg(name ORDER BY name) FROM nodes
WHERE dead_at IS NULL AND expires_at > extract(epoch FROM clock_timestamp()) * 1000;

-- What has no number yet is numbered before it is carried: nobody writes any more, and whoever is at it is waited for.
-- name: moving_event_turn
SELECT 1 FROM event_head FOR UPDATE;

-- The next event follows the last that was carried over.
-- name: moving_event_head
UPDATE event_head SET
    sequence = coalesce((SELECT max(sequence) FROM events), 0),
    upto = coalesce((SELECT upto FROM events ORDER BY sequence DESC LIMIT 1), 0);

-- name: moving_columns
SELECT json_agg(json_build_array(column_name, data_type)) FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = :name::text;

-- What others have in the schema: not what an extension has brought, nor the tables in which migrations are noted.
-- name: moving_foreign
SELECT json_agg(c.relname ORDER BY c.relname) FROM pg_class AS c
WHERE c.relnamespace = current_schema()::regnamespace
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND c.relname NOT IN ('schema_history', 'schema_steps')
    AND NOT EXISTS (
        SELECT 1 FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    );
