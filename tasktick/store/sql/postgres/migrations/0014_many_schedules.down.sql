-- Nothing is lost: indexes.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS schedules_by_tzdata;
DROP INDEX CONCURRENTLY IF EXISTS schedules_looking_by_partition;
