-- Nodes and leases: who is running, and who owns which partition under which term.

-- The lock on a data folder is proof that every incarnation which had it before is dead. Of those of other folders
-- there is none: what they may still be sending is left to the end of its lease. But the lock on the database keeps
-- them out, so their partitions are free; one that has lost that lock claims nothing more under its old epoch.
-- name: nodes_prove_dead
UPDATE leases SET incarnation = NULL
WHERE incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NULL AND home <> :home::text);
UPDATE nodes SET dead_at = :now::bigint
WHERE dead_at IS NULL AND incarnation <> :incarnation::text AND home = :home::text;

-- name: node_insert
INSERT INTO nodes (incarnation, name, home, started_at)
VALUES (:incarnation::text, :name::text, :home::text, :now::bigint);

-- name: node_end
UPDATE nodes SET dead_at = :now::bigint WHERE incarnation = :incarnation::text AND dead_at IS NULL;

-- name: nodes_forget
DELETE FROM nodes WHERE dead_at IS NOT NULL AND dead_at < :before::bigint
    AND NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.state = 4 AND t.incarnation = nodes.incarnation)
    AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.incarnation = nodes.incarnation);

-- Acquire: the epoch grows with each acquisition; only what is free, or whose holder is proven dead. It waits for
-- the claims that hold a row.
-- name: leases_acquire
WITH free AS MATERIALIZED (
    SELECT partition_id FROM leases
    WHERE partition_id IN (SELECT value::smallint FROM json_array_elements_text(:partitions::text::json))
        AND (incarnation IS NULL OR incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NOT NULL))
    ORDER BY partition_id
    FOR UPDATE
)
UPDATE leases SET epoch = leases.epoch + 1, incarnation = :incarnation::text
FROM free WHERE leases.partition_id = free.partition_id;

-- name: leases_release
UPDATE leases SET incarnation = NULL WHERE incarnation = :incarnation::text;

-- name: leases_read
SELECT json_agg(
    json_build_object('partition', partition_id, 'epoch', epoch, 'incarnation', incarnation) ORDER BY partition_id
)
FROM leases;
