-- loses: checks: SELECT count(*) FROM checks
-- loses: pings: SELECT count(*) FROM pings
DELETE FROM singletons WHERE name = 'deadman';
DELETE FROM names WHERE kind = 'check';
DROP TABLE check_watch;
DROP TABLE pings;
DROP TABLE checks;
DROP INDEX tasks_late;
ALTER TABLE tasks DROP COLUMN late_at;
