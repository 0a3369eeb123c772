-- min_reader: 10
-- Schedules by partition, for a node that owns some of them: what others own is passed over without being read. And
-- by zone data: whether any fire ahead is by another is found without reading all schedules at each start.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS schedules_looking_by_partition;
CREATE INDEX CONCURRENTLY schedules_looking_by_partition ON schedules (partition_id, look_at, id)
    WHERE look_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS schedules_by_tzdata;
CREATE INDEX CONCURRENTLY schedules_by_tzdata ON schedules (tzdata) WHERE NOT paused AND look_at IS NOT NULL;
