-- Nodes and leases: who is running, and who owns which partition under which term. `:clock` is the server's own time.

-- To the part of a millisecond: who is told whole ones is half of one behind on average, and so are his tasks.
-- name: clock_read
SELECT json_build_array(:moment::double precision);

-- The timeline of the history that is being written here.
-- name: history_read
SELECT json_build_array(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8));

-- The lock on a data folder is proof that every incarnation which had it before is dead. Of those of other folders
-- there is none: their partitions are theirs until their term has ended.
-- name: nodes_prove_dead
UPDATE nodes SET dead_at = :clock::bigint
WHERE dead_at IS NULL AND incarnation <> :incarnation::text AND home = :home::text;

-- name: node_insert
INSERT INTO nodes (incarnation, name, home, started_at, expires_at, address, version, tzdata)
VALUES (
    :incarnation::text, :name::text, :home::text, :clock::bigint, :clock::bigint + :ttl_ms::bigint, :address::text,
    :version::text, :tzdata::text
);

-- A compare-and-set on the last beat that was seen to commit. The one after it may have committed unseen: the same
-- statement again says the same.
-- name: node_renew
UPDATE nodes SET expires_at = :clock::bigint + :ttl_ms::bigint, beat = :beat::bigint + 1,
    clock_offset_ms = :clock_offset_ms::bigint, history_regressed = :history_regressed::integer
WHERE incarnation = :incarnation::text AND beat IN (:beat::bigint, :beat::bigint + 1) AND dead_at IS NULL;

-- name: node_leave
UPDATE nodes SET leaving = true WHERE incarnation = :incarnation::text;

-- name: node_end
UPDATE nodes SET dead_at = :clock::bigint WHERE incarnation = :incarnation::text AND dead_at IS NULL;

-- name: nodes_forget
DELETE FROM nodes WHERE (dead_at < :before::bigint OR expires_at < :before::bigint)
    AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.state = 4 AND t.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM drained_nodes AS d WHERE d.name = nodes.name);

-- Those that live, those that still stand in a lease, and the last start of each that is drained.
-- name: nodes_read
SELECT json_agg(json_build_object(
    'incarnation', n.incarnation, 'name', n.name, 'expires_at', coalesce(n.expires_at, 4611686018427387904),
    'drained', n.leaving OR EXISTS (SELECT 1 FROM drained_nodes AS d WHERE d.name = n.name),
    'started_at', n.started_at, 'address', n.address, 'version', n.version, 'tzdata', n.tzdata,
    'dead_at', n.dead_at, 'leaving', n.leaving, 'clock_offset_ms', n.clock_offset_ms,
    'history_regressed', n.history_regressed
))
FROM nodes AS n
WHERE (n.dead_at IS NULL AND (n.expires_at IS NULL OR n.expires_at > :clock::bigint))
    OR EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = n.incarnation)
    OR n.incarnation IN (
        SELECT DISTINCT ON (name) incarnation FROM nodes WHERE name IN (SELECT name FROM drained_nodes)
        ORDER BY name, started_at DESC, incarnation DESC
    );

-- Two that are drained at once would each count on the other: who drains waits for who does.
-- name: drain_turn
SELECT json_build_array(pg_advisory_xact_lock(1952544622, hashtext(current_schema()))::text = '');

-- name: node_drain
INSERT INTO drained_nodes (name, since) VALUES (:name::text, :clock::bigint) ON CONFLICT (name) DO NOTHING;

-- name: node_undrain
DELETE FROM drained_nodes WHERE name = :name::text;

-- Acquire: the epoch grows with each acquisition; only what is free, or whose holder is dead or past its term, and
-- only for one that lives and stays. One that a claim holds is passed over, and asked for again after it: who waited
-- here would hold what it has taken already without being able to use it.
-- name: leases_acquire
WITH living AS MATERIALIZED (
    SELECT incarnation, leaving FROM nodes
    WHERE dead_at IS NULL AND (expires_at IS NULL OR expires_at > :clock::bigint)
), free AS MATERIALIZED (
    SELECT partition_id FROM leases
    WHERE partition_id IN (SELECT value::smallint FROM json_array_elements_text(:partitions::text::json))
        AND (incarnation IS NULL OR NOT EXISTS (SELECT 1 FROM living WHERE living.incarnation = leases.incarnation))
        AND EXISTS (SELECT 1 FROM living WHERE living.incarnation = :incarnation::text AND NOT living.leaving)
    ORDER BY partition_id
    FOR UPDATE SKIP LOCKED
)
UPDATE leases SET
    epoch = leases.epoch + 1, incarnation = :incarnation::text, free_since = NULL,
    wanted_by = CASE WHEN leases.wanted_by = :incarnation::text THEN NULL ELSE leases.wanted_by END
FROM free WHERE leases.partition_id = free.partition_id;

-- Rows are locked in order of partition, as everywhere: a claim that has one of two, and a release that has the other,
-- would wait for each other.
-- name: leases_release
WITH held AS MATERIALIZED (
    SELECT partition_id FROM leases
    WHERE incarnation = :incarnation::text AND (
        :partitions::text IS NULL
        OR partition_id IN (SELECT value::smallint FROM json_array_elements_text(:partitions::text::json))
    )
    ORDER BY partition_id
    FOR UPDATE
)
UPDATE leases SET incarnation = NULL, free_since = :clock::bigint
FROM held WHERE leases.partition_id = held.partition_id AND leases.incarnation = :incarnation::text;

-- Who should own it asks for it; a request of one that lives no more is overwritten.
-- name: leases_request
WITH wanted AS MATERIALIZED (
    SELECT partition_id FROM leases
    WHERE partition_id IN (SELECT value::smallint FROM json_array_elements_text(:partitions::text::json))
    ORDER BY partition_id
    FOR NO KEY UPDATE
)
UPDATE leases SET wanted_by = :incarnation::text
FROM wanted WHERE leases.partition_id = wanted.partition_id;

-- name: leases_withdraw
WITH wanted AS MATERIALIZED (
    SELECT partition_id FROM leases
    WHERE partition_id IN (SELECT value::smallint FROM json_array_elements_text(:partitions::text::json))
        AND wanted_by = :incarnation::text
    ORDER BY partition_id
    FOR NO KEY UPDATE
)
UPDATE leases SET wanted_by = NULL
FROM wanted WHERE leases.partition_id = wanted.partition_id AND leases.wanted_by = :incarnation::text;

-- Ours, or that of one who has let it pass. The row is held until the commit.
-- name: singleton_take
UPDATE singletons SET incarnation = :incarnation::text, expires_at = :clock::bigint + :held_ms::bigint
WHERE name = :name::text AND (incarnation = :incarnation::text OR expires_at <= :clock::bigint);

-- name: leases_read
SELECT json_agg(
    json_build_object(
        'partition', partition_id, 'epoch', epoch, 'incarnation', incarnation, 'wanted_by', wanted_by,
        'free_since', free_since
    ) ORDER BY partition_id
)
FROM leases;
