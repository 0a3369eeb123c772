-- Nothing is lost: what tasks were made with gets rows of its own again.
-- step: transaction
-- First what may be refused: where a view of somebody's own is made of one of these.
DROP VIEW all_payloads, all_details;
INSERT INTO payloads (partition_id, task_id, version, payload)
SELECT partition_id, id, 1, payload FROM task_details WHERE payload IS NOT NULL;
ALTER TABLE task_details DROP COLUMN payload;
CREATE VIEW all_details AS
SELECT d.*, 9223372036854775807 AS ended_at FROM task_details AS d
UNION ALL
SELECT
    partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
    step, ended_at
FROM finished_tasks;
CREATE VIEW all_payloads AS
SELECT partition_id, task_id, version, payload, 9223372036854775807 AS ended_at FROM payloads
UNION ALL
SELECT partition_id, id, payload_version, payload, ended_at FROM finished_tasks;
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition ON tasks (partition_id, (wake_at / 1024), id, wake_at)
WHERE state IN (2, 5);
