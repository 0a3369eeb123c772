-- loses: tasks: SELECT count(*) FROM tasks
-- loses: API keys: SELECT count(*) FROM keys
-- loses: secrets: SELECT count(*) FROM secrets
DROP TABLE keys, secrets, marks, leases, nodes, counts, names, dead_letters, attempts, payloads, task_details, tasks;
DROP FUNCTION edge_of(text);
DROP FUNCTION id_of(text);
DROP FUNCTION hex_of(uuid);
DROP FUNCTION partition_of(uuid);
