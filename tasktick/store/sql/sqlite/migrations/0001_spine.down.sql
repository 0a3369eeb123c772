-- loses: tasks: SELECT count(*) FROM tasks
-- loses: API keys: SELECT count(*) FROM keys
-- loses: secrets: SELECT count(*) FROM secrets
DROP TABLE keys;
DROP TABLE secrets;
DROP TABLE leases;
DROP TABLE nodes;
DROP TABLE counts;
DROP TABLE names;
DROP TABLE dead_letters;
DROP TABLE attempts;
DROP TABLE payloads;
DROP TABLE task_details;
DROP TABLE tasks;
