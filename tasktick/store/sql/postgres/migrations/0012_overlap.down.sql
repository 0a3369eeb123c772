-- loses: schedules that share an overlap key: SELECT count(*) FROM schedules WHERE overlap_key IS NOT NULL
-- loses: schedules that buffer all, or cancel the fire before: SELECT count(*) FROM schedules WHERE overlap IN ('buffer_all', 'cancel_other')
-- loses: schedules that pause after failures: SELECT count(*) FROM schedules WHERE pause_on_failures IS NOT NULL
-- Who waits in a line goes, as nobody would let it go later.
CREATE TEMPORARY TABLE waiting ON COMMIT DROP AS SELECT t.partition_id, t.id, t.tenant FROM tasks AS t
JOIN line_fires AS l ON l.partition_id = t.partition_id AND l.task_id = t.id WHERE l.waits AND t.state = 1;
UPDATE tasks SET state = 2, wake_at = due_at, version = version + 1
WHERE (partition_id, id) IN (SELECT partition_id, id FROM waiting);
INSERT INTO counts (tenant, state, slot, tasks)
SELECT tenant, state, 0, sum(tasks) FROM (
    SELECT tenant, 1 AS state, -1 AS tasks FROM waiting UNION ALL SELECT tenant, 2, 1 FROM waiting
) AS moved GROUP BY tenant, state ORDER BY tenant, state
ON CONFLICT (tenant, state, slot) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
UPDATE schedules SET overlap = 'buffer_one' WHERE overlap = 'buffer_all';
UPDATE schedules SET overlap = 'skip' WHERE overlap = 'cancel_other';
DROP TABLE line_fires;
DROP INDEX tasks_expiring_blocked;
ALTER TABLE schedules
    DROP COLUMN pause_reason, DROP COLUMN consecutive_failures, DROP COLUMN pause_on_failures, DROP COLUMN overlap_key;
