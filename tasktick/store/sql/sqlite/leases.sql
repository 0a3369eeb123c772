-- Nodes and leases: who is running, and who owns which partition under which term.
-- A node's term ends at `expires_at`; one without an end holds the lock on the store, and lives as long as it does.

-- name: clock_read
SELECT json_array(:now);

-- A file has one history.
-- name: history_read
SELECT json_array('');

-- Opening a SQLite store takes the lock on its file: every other incarnation that had the file is proven dead. Of those
-- that it remembers from elsewhere, where it was before it moved, the end of their leases is waited for.
-- name: nodes_prove_dead
UPDATE nodes SET dead_at = :now WHERE dead_at IS NULL AND incarnation <> :incarnation AND home = '';

-- name: node_insert
INSERT INTO nodes (incarnation, name, started_at, expires_at, address, version, tzdata)
VALUES (:incarnation, :name, :now, :now + :ttl_ms, :address, :version, :tzdata);

-- A compare-and-set on the last beat that was seen to commit. The one after it may have committed unseen: the same
-- statement again says the same.
-- name: node_renew
UPDATE nodes SET expires_at = :now + :ttl_ms, beat = :beat + 1,
    clock_offset_ms = :clock_offset_ms, history_regressed = :history_regressed
WHERE incarnation = :incarnation AND beat IN (:beat, :beat + 1) AND dead_at IS NULL;

-- name: node_leave
UPDATE nodes SET leaving = 1 WHERE incarnation = :incarnation;

-- name: node_end
UPDATE nodes SET dead_at = :now WHERE incarnation = :incarnation AND dead_at IS NULL;

-- name: nodes_forget
DELETE FROM nodes WHERE (dead_at < :before OR expires_at < :before)
    AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.state = 4 AND t.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM drained_nodes AS d WHERE d.name = nodes.name);

-- Those that live, those that still stand in a lease, and the last start of each that is drained.
-- name: nodes_read
SELECT json_group_array(json_object(
    'incarnation', n.incarnation, 'name', n.name, 'expires_at', coalesce(n.expires_at, 4611686018427387904),
    'drained', n.leaving OR EXISTS (SELECT 1 FROM drained_nodes AS d WHERE d.name = n.name), 'started_at', n.started_at,
    'address', n.address, 'version', n.version, 'tzdata', n.tzdata, 'dead_at', n.dead_at,
    'leaving', n.leaving, 'clock_offset_ms', n.clock_offset_ms, 'history_regressed', n.history_regressed
))
FROM nodes AS n
WHERE (n.dead_at IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now))
    OR EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = n.incarnation)
    OR n.incarnation IN (
        SELECT incarnation FROM (
            SELECT incarnation, row_number() OVER (PARTITION BY name ORDER BY started_at DESC, incarnation DESC) AS place
            FROM nodes WHERE name IN (SELECT name FROM drained_nodes)
        ) WHERE place = 1
    );

-- There is one writer.
-- name: drain_turn
SELECT json_array(1);

-- name: node_drain
INSERT INTO drained_nodes (name, since) VALUES (:name, :now) ON CONFLICT (name) DO NOTHING;

-- name: node_undrain
DELETE FROM drained_nodes WHERE name = :name;

-- Acquire: the epoch grows with each acquisition; only what is free, or whose holder is dead or past its term, and
-- only for one that lives and stays.
-- name: leases_acquire
UPDATE leases SET
    epoch = epoch + 1, incarnation = :incarnation, free_since = NULL,
    wanted_by = CASE WHEN wanted_by = :incarnation THEN NULL ELSE wanted_by END
WHERE partition_id IN (SELECT value FROM json_each(:partitions))
    AND (incarnation IS NULL OR incarnation NOT IN (
        SELECT n.incarnation FROM nodes AS n WHERE n.dead_at IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now)
    ))
    AND EXISTS (
        SELECT 1 FROM nodes AS n
        WHERE n.incarnation = :incarnation AND n.dead_at IS NULL AND NOT n.leaving
            AND (n.expires_at IS NULL OR n.expires_at > :now)
    );

-- name: leases_release
UPDATE leases SET incarnation = NULL, free_since = :now
WHERE incarnation = :incarnation AND (:partitions IS NULL OR partition_id IN (SELECT value FROM json_each(:partitions)));

-- Who should own it asks for it; a request of one that lives no more is overwritten.
-- name: leases_request
UPDATE leases SET wanted_by = :incarnation
WHERE partition_id IN (SELECT value FROM json_each(:partitions));

-- name: leases_withdraw
UPDATE leases SET wanted_by = NULL
WHERE partition_id IN (SELECT value FROM json_each(:partitions)) AND wanted_by = :incarnation;

-- Ours, or that of one who has let it pass.
-- name: singleton_take
UPDATE singletons SET incarnation = :incarnation, expires_at = :now + :held_ms
WHERE name = :name AND (incarnation = :incarnation OR expires_at <= :now);

-- name: leases_read
SELECT json_group_array(json_object(
    'partition', partition_id, 'epoch', epoch, 'incarnation', incarnation, 'wanted_by', wanted_by,
    'free_since', free_since
))
FROM (SELECT * FROM leases ORDER BY partition_id);
