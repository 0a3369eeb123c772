-- Nothing is lost: it is an index.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
