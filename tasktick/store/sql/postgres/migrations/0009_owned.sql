-- min_reader: 8
-- What a node says of itself with each renewal: how far its clock is ahead, and how often it found its store without
-- something that it had said.
ALTER TABLE nodes ADD COLUMN clock_offset_ms bigint;
ALTER TABLE nodes ADD COLUMN history_regressed integer NOT NULL DEFAULT 0;

-- Waiting tasks by partition, for a node that owns some of them: what others own is passed over without being read.
-- Beside the index by time alone, by which one that owns all of them reads in a single stretch.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition ON tasks (partition_id, wake_at, id) WHERE state IN (2, 5);
