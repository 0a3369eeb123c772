-- Nothing is lost: an index, and what running nodes say of themselves.
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS tasks_waiting_by_partition;
-- step: transaction
ALTER TABLE nodes DROP COLUMN history_regressed;
ALTER TABLE nodes DROP COLUMN clock_offset_ms;
