-- min_reader: 22
-- Hot rows by their ids, and by partition after that. Ids grow, so that what is made together lies together; by
-- partition first, each row of a batch had a page of its own in every key: 3 us of the server's 15 for a task made in
-- bulk, and of a fire as much. Details by their tenant first: one index in place of two, since who looks them up knows
-- the tenant. An older program does not, and would run through all of it.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS tasks_by_id;
CREATE UNIQUE INDEX CONCURRENTLY tasks_by_id ON tasks (id, partition_id);
DROP INDEX CONCURRENTLY IF EXISTS task_details_by_id;
CREATE UNIQUE INDEX CONCURRENTLY task_details_by_id ON task_details (tenant, id, partition_id);
DROP INDEX CONCURRENTLY IF EXISTS payloads_by_id;
CREATE UNIQUE INDEX CONCURRENTLY payloads_by_id ON payloads (task_id, version, partition_id);
DROP INDEX CONCURRENTLY IF EXISTS attempts_by_id;
CREATE UNIQUE INDEX CONCURRENTLY attempts_by_id ON attempts (task_id, attempt, partition_id);
-- What waits, by partition, with the slot said in another way than in the index of all partitions: neither is ever taken
-- for the other.
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition ON tasks (partition_id, (wake_at / 1024), id, wake_at)
WHERE state IN (2, 5);
-- step: transaction
ALTER TABLE tasks
    DROP CONSTRAINT tasks_pkey, ADD CONSTRAINT tasks_pkey PRIMARY KEY USING INDEX tasks_by_id;
ALTER TABLE task_details
    DROP CONSTRAINT task_details_pkey, ADD CONSTRAINT task_details_pkey PRIMARY KEY USING INDEX task_details_by_id;
ALTER TABLE payloads
    DROP CONSTRAINT payloads_pkey, ADD CONSTRAINT payloads_pkey PRIMARY KEY USING INDEX payloads_by_id;
ALTER TABLE attempts
    DROP CONSTRAINT attempts_pkey, ADD CONSTRAINT attempts_pkey PRIMARY KEY USING INDEX attempts_by_id;
DROP INDEX task_details_by_tenant;
DROP INDEX tasks_waiting_by_partition_slot;
