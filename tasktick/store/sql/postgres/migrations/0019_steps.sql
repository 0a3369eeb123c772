-- min_reader: 15
-- As on a file, where a fire that moves its schedule's `look_at` had this index write its entry anew. Schedules at their
-- end are in it too now; who looks asks for `look_at` beside it.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS schedules_by_tzdata;
CREATE INDEX CONCURRENTLY schedules_by_tzdata ON schedules (tzdata) WHERE NOT paused;
