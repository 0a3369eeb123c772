-- Nodes and leases: who is running, and who owns which partition under which term.

-- Opening a SQLite store takes the lock on its folder: every other incarnation in it is proven dead.
-- name: nodes_prove_dead
UPDATE nodes SET dead_at = :now WHERE dead_at IS NULL AND incarnation <> :incarnation;

-- name: node_insert
INSERT INTO nodes (incarnation, name, started_at) VALUES (:incarnation, :name, :now);

-- name: node_end
UPDATE nodes SET dead_at = :now WHERE incarnation = :incarnation AND dead_at IS NULL;

-- name: nodes_forget
DELETE FROM nodes WHERE dead_at IS NOT NULL AND dead_at < :before
    AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.state = 4 AND t.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = nodes.incarnation);

-- Acquire: the epoch grows with each acquisition; only what is free, or whose holder is proven dead.
-- name: leases_acquire
UPDATE leases SET epoch = epoch + 1, incarnation = :incarnation
WHERE partition_id IN (SELECT value FROM json_each(:partitions))
    AND (incarnation IS NULL OR incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NOT NULL));

-- name: leases_release
UPDATE leases SET incarnation = NULL WHERE incarnation = :incarnation;

-- name: leases_read
SELECT json_group_array(json_object('partition', partition_id, 'epoch', epoch, 'incarnation', incarnation))
FROM (SELECT * FROM leases ORDER BY partition_id);
