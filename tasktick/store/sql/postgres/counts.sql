-- How many tasks a tenant has in each state; kept by deltas, in the transaction that changes the tasks.

-- Last in a transaction, in order of the key: these rows are everybody's.
-- name: counts_add
INSERT INTO counts (tenant, state, tasks)
SELECT row->>0, (row->>1)::smallint, (row->>2)::bigint FROM json_array_elements(:rows::text::json) AS given (row)
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;

-- name: counts_read
SELECT json_agg(json_build_array(tenant, state, tasks) ORDER BY tenant, state) FROM counts
WHERE :tenant::text IS NULL OR tenant = :tenant::text;

-- What the counts should be, read off the tables: for `store check` and tests alone.
-- name: counts_actual
SELECT json_agg(json_build_array(tenant, state, tasks) ORDER BY tenant, state) FROM (
    SELECT tenant, state, count(*) AS tasks FROM tasks GROUP BY tenant, state
) AS counted;
