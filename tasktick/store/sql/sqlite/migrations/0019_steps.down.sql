-- Nothing is lost: an index.
DROP INDEX schedules_by_tzdata;
CREATE INDEX schedules_by_tzdata ON schedules (tzdata) WHERE paused = 0 AND look_at IS NOT NULL;
