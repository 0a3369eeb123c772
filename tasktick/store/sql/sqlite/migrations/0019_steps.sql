-- min_reader: 15
-- A fire moves its schedule's `look_at`, and had this index write its entry anew for that. Schedules at their end are in it
-- too now; who looks asks for `look_at` beside it.
DROP INDEX schedules_by_tzdata;
CREATE INDEX schedules_by_tzdata ON schedules (tzdata) WHERE paused = 0;
