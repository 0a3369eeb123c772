-- loses: schedules that share an overlap key: SELECT count(*) FROM schedules WHERE overlap_key IS NOT NULL
-- loses: schedules that buffer all, or cancel the fire before: SELECT count(*) FROM schedules WHERE overlap IN ('buffer_all', 'cancel_other')
-- loses: schedules that pause after failures: SELECT count(*) FROM schedules WHERE pause_on_failures IS NOT NULL
-- Who waits in a line goes, as nobody would let it go later.
CREATE TABLE waiting AS SELECT t.id, t.tenant FROM tasks AS t
JOIN line_fires AS l ON l.task_id = t.id WHERE l.waits AND t.state = 1;
UPDATE tasks SET state = 2, wake_at = due_at, version = version + 1 WHERE id IN (SELECT id FROM waiting);
INSERT INTO counts (tenant, state, tasks)
SELECT tenant, state, sum(tasks) FROM (
    SELECT tenant, 1 AS state, -1 AS tasks FROM waiting UNION ALL SELECT tenant, 2, 1 FROM waiting
) WHERE true GROUP BY tenant, state
ON CONFLICT (tenant, state) DO UPDATE SET tasks = tasks + excluded.tasks;
DROP TABLE waiting;
UPDATE schedules SET overlap = 'buffer_one' WHERE overlap = 'buffer_all';
UPDATE schedules SET overlap = 'skip' WHERE overlap = 'cancel_other';
DROP TABLE line_fires;
DROP INDEX tasks_expiring_blocked;
ALTER TABLE schedules DROP COLUMN pause_reason;
ALTER TABLE schedules DROP COLUMN consecutive_failures;
ALTER TABLE schedules DROP COLUMN pause_on_failures;
ALTER TABLE schedules DROP COLUMN overlap_key;
