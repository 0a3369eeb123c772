-- The steps that a store has taken.

-- name: migration_is_there
SELECT json_build_array(to_regclass('schema_history') IS NOT NULL);

-- name: migration_history
CREATE TABLE IF NOT EXISTS schema_history (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    min_reader integer NOT NULL
);
-- What is done of a migration that is under way.
CREATE TABLE IF NOT EXISTS schema_steps (
    version integer NOT NULL,
    back boolean NOT NULL,
    step integer NOT NULL,
    checksum text NOT NULL,
    PRIMARY KEY (version, back, step)
);

-- name: migration_applied
SELECT json_agg(json_build_object(
    'version', version, 'name', name, 'checksum', checksum, 'min_reader', min_reader
) ORDER BY version) FROM schema_history;

-- name: migration_note
INSERT INTO schema_history (version, name, checksum, min_reader)
VALUES (:version::integer, :name::text, :checksum::text, :min_reader::integer);

-- name: migration_forget
DELETE FROM schema_history WHERE version = :version::integer;

-- The steps that are done of this very text: of another nothing counts.
-- name: migration_steps_done
SELECT json_agg(step ORDER BY step) FROM schema_steps
WHERE version = :version::integer AND back = :back::boolean AND checksum = :checksum::text;

-- name: migration_step_note
INSERT INTO schema_steps (version, back, step, checksum)
VALUES (:version::integer, :back::boolean, :step::integer, :checksum::text)
ON CONFLICT (version, back, step) DO UPDATE SET checksum = excluded.checksum;

-- name: migration_steps_forget
DELETE FROM schema_steps WHERE version = :version::integer;

-- Nodes whose term is not over.
-- name: migration_running
SELECT json_agg(name ORDER BY name) FROM nodes
WHERE dead_at IS NULL AND expires_at > extract(epoch FROM clock_timestamp()) * 1000;
