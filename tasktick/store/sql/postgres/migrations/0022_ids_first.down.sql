-- Nothing is lost: indexes.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS tasks_by_partition;
CREATE UNIQUE INDEX CONCURRENTLY tasks_by_partition ON tasks (partition_id, id);
DROP INDEX CONCURRENTLY IF EXISTS task_details_by_partition;
CREATE UNIQUE INDEX CONCURRENTLY task_details_by_partition ON task_details (partition_id, id);
DROP INDEX CONCURRENTLY IF EXISTS payloads_by_partition;
CREATE UNIQUE INDEX CONCURRENTLY payloads_by_partition ON payloads (partition_id, task_id, version);
DROP INDEX CONCURRENTLY IF EXISTS attempts_by_partition;
CREATE UNIQUE INDEX CONCURRENTLY attempts_by_partition ON attempts (partition_id, task_id, attempt);
DROP INDEX CONCURRENTLY IF EXISTS task_details_by_tenant;
CREATE INDEX CONCURRENTLY task_details_by_tenant ON task_details (tenant, id);
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition_slot;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition_slot ON tasks (partition_id, (wake_at >> 10), id, wake_at)
WHERE state IN (2, 5);
-- step: transaction
ALTER TABLE tasks
    DROP CONSTRAINT tasks_pkey, ADD CONSTRAINT tasks_pkey PRIMARY KEY USING INDEX tasks_by_partition;
ALTER TABLE task_details
    DROP CONSTRAINT task_details_pkey,
    ADD CONSTRAINT task_details_pkey PRIMARY KEY USING INDEX task_details_by_partition;
ALTER TABLE payloads
    DROP CONSTRAINT payloads_pkey, ADD CONSTRAINT payloads_pkey PRIMARY KEY USING INDEX payloads_by_partition;
ALTER TABLE attempts
    DROP CONSTRAINT attempts_pkey, ADD CONSTRAINT attempts_pkey PRIMARY KEY USING INDEX attempts_by_partition;
DROP INDEX tasks_waiting_by_partition;
