-- Nothing is lost: an index.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS schedules_looking_by_partition;
