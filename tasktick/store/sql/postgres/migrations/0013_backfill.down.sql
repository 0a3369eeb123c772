-- loses: what was decided about times that ran later, before they did: SELECT count(*) FROM fires WHERE was IS NOT NULL
DROP INDEX line_fires_at_work;
ALTER TABLE schedules DROP COLUMN gone_until;
ALTER TABLE schedules DROP COLUMN gone_from;
ALTER TABLE schedules DROP COLUMN gone_failed;
ALTER TABLE schedules DROP COLUMN gone_missed;
ALTER TABLE schedules DROP COLUMN gone_skipped;
ALTER TABLE schedules DROP COLUMN gone_fired;
ALTER TABLE fires DROP COLUMN failed;
ALTER TABLE fires DROP COLUMN was;
