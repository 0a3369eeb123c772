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

-- name: migration_applied
SELECT json_agg(json_build_object(
    'version', version, 'name', name, 'checksum', checksum, 'min_reader', min_reader
) ORDER BY version) FROM schema_history;

-- name: migration_note
INSERT INTO schema_history (version, name, checksum, min_reader)
VALUES (:version::integer, :name::text, :checksum::text, :min_reader::integer);
