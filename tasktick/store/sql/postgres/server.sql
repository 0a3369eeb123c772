-- The server itself: how it is set.

-- name: server_facts
SELECT json_agg(facts) FROM (
    SELECT
        current_setting('server_version_num')::integer AS version,
        current_setting('server_version') AS version_text,
        current_setting('synchronous_commit') AS synchronous_commit,
        current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        current_setting('server_encoding') AS encoding,
        coalesce(current_schema(), '') AS schema,
        pg_is_in_recovery() AS is_standby
) AS facts;

-- What is asked of every connection before it is used.
-- name: server_link
SELECT json_build_array(json_build_object(
    'is_standby', pg_is_in_recovery(), 'synchronous_commit', current_setting('synchronous_commit')
));

-- Who this session is with the server itself, and what a statement is under that is a transaction by itself.
-- name: server_session
SELECT json_build_array(json_build_object(
    'pid', pg_backend_pid(), 'isolation', current_setting('transaction_isolation')
));

-- What these settings are, here and now.
-- name: server_settings
SELECT json_agg(json_build_array(name, setting)) FROM pg_settings
WHERE name IN (SELECT value FROM json_array_elements_text(:names::text::json));

-- Who migrates holds this until it is done; another tries again.
-- name: server_migration_lock
SELECT json_build_array(pg_try_advisory_xact_lock(1952544620, hashtext(current_schema())));
