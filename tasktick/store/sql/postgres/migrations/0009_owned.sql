-- min_reader: 8
-- Waiting tasks by partition, for a node that owns some of them: what others own is passed over without being read.
-- Beside the index by time alone, by which one that owns all of them reads in a single stretch.

-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition ON tasks (partition_id, wake_at, id) WHERE state IN (2, 5);
