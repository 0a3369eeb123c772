-- min_reader: 17
-- Waiting tasks by slots of 1,024 ms, and within a slot by id. By the instant alone, those that are made together but
-- are due at different instants of the same seconds each change a page of their own; ids grow, so that in a slot they
-- are appended. The instant stands there too: what is due, and when, is told by the index.
-- step: alone
-- One that was cut off is there and of no use.
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_slot;
CREATE INDEX CONCURRENTLY tasks_waiting_by_slot ON tasks ((wake_at >> 10), id, wake_at) WHERE state IN (2, 5);
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition_slot;
CREATE INDEX CONCURRENTLY tasks_waiting_by_partition_slot ON tasks (partition_id, (wake_at >> 10), id, wake_at)
WHERE state IN (2, 5);
-- An older program would read all tasks, and sort them, for each page.
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting;
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
