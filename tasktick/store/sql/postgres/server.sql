-- The server itself: how it is set, who else is on this database, and where its history stands.

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

-- One daemon has a database (and schema) for itself: this lock is held as long as its transaction is open.
-- name: server_lock
SELECT json_build_array(pg_try_advisory_xact_lock(1952544619, hashtext(current_schema())));

-- The same for a migration, which waits for another.
-- name: server_migration_lock
SELECT json_build_array(pg_advisory_xact_lock(1952544620, hashtext(current_schema()))::text);

-- Who has the lock.
-- name: server_lock_holder
SELECT json_agg(concat_ws(' ', a.application_name, 'at', coalesce(host(a.client_addr), 'this machine')))
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 1952544619
    AND l.objid = (hashtext(current_schema())::bigint & 4294967295)::oid AND l.objsubid = 2
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- The timeline, and how much of its history is on the disk. Either goes back only if the database is another one.
-- name: server_history
SELECT json_build_array(json_build_array(
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), pg_current_wal_flush_lsn() - '0/0'::pg_lsn
));
