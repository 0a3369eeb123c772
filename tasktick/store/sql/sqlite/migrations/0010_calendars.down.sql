-- loses: calendars: SELECT count(*) FROM calendars
-- loses: schedules that heed calendars or leave out times: SELECT count(*) FROM schedules WHERE calendars <> '[]' OR skips <> '[]'
-- loses: schedules of a recurrence rule or of several rules: SELECT count(*) FROM schedules WHERE rule->>'$.rrule' IS NOT NULL OR rule->>'$.spec' IS NOT NULL
DROP INDEX schedules_with_calendars;
ALTER TABLE schedules DROP COLUMN skips;
ALTER TABLE schedules DROP COLUMN calendars;
DROP TABLE calendars;
