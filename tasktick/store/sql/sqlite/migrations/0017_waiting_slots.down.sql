-- Nothing is lost: indexes.
CREATE INDEX tasks_waiting ON tasks (wake_at, id) WHERE state IN (2, 5);
DROP INDEX tasks_waiting_by_slot;
