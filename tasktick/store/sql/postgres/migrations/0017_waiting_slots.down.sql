-- Nothing is lost: indexes.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting;
CREATE INDEX CONCURRENTLY tasks_waiting ON tasks (wake_at, id) WHERE state IN (2, 5);
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition ON tasks (partition_id, wake_at, id) WHERE state IN (2, 5);
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_slot;
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition_slot;
