-- How many tasks a tenant has in each state; kept by deltas, in the transaction that changes the tasks.
-- Of a move from a state to another there is one row: see `settled_counts`. What runs is counted where it was claimed
-- from: see `state_counts`.

-- name: counts_add
INSERT INTO counts (tenant, state, tasks)
SELECT value->>0, value->>1, value->>2 FROM json_each(:rows) WHERE true
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;

-- name: counts_read
SELECT json_group_array(json_array(tenant, state, tasks)) FROM (
    SELECT tenant, state, sum(tasks) AS tasks FROM state_counts WHERE :tenant IS NULL OR tenant = :tenant
    GROUP BY tenant, state ORDER BY tenant, state
);

-- What the counts should be, read off the tables: for `store check` and tests alone.
-- name: counts_actual
SELECT json_group_array(json_array(tenant, state, tasks)) FROM (
    SELECT tenant, state, count(*) AS tasks FROM tasks GROUP BY tenant, state ORDER BY tenant, state
);
