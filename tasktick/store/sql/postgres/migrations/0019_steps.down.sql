-- Nothing is lost: an index.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS schedules_by_tzdata;
CREATE INDEX CONCURRENTLY schedules_by_tzdata ON schedules (tzdata) WHERE NOT paused AND look_at IS NOT NULL;
