-- min_reader: 10
-- Schedules by partition, for a node that owns some of them: what others own is passed over without being read.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS schedules_looking_by_partition;
CREATE INDEX CONCURRENTLY schedules_looking_by_partition ON schedules (partition_id, look_at, id)
    WHERE look_at IS NOT NULL;
