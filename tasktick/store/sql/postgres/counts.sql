-- How many tasks a tenant has in each state; kept by deltas, in the transaction that changes the tasks.
-- Of a move from a state to another there is one row: see `settled_counts`. What runs is counted where it was claimed
-- from: see `state_counts`.

-- Last in a transaction, in order of the key. Each connection adds to rows of its own, or of few others: one row for
-- all would make every commit wait for the one before it.
-- name: counts_add
SELECT add_counts(:rows::text::jsonb);

-- name: counts_read
SELECT json_agg(json_build_array(tenant, state, tasks) ORDER BY tenant, state) FROM (
    SELECT tenant, state, sum(tasks) AS tasks FROM state_counts
    WHERE :tenant::text IS NULL OR tenant = :tenant::text
    GROUP BY tenant, state
) AS added;

-- What the counts should be, read off the tables: for `store check` and tests alone.
-- name: counts_actual
SELECT json_agg(json_build_array(tenant, state, tasks) ORDER BY tenant, state) FROM (
    SELECT tenant, state, count(*) AS tasks FROM all_tasks
    WHERE ended_at >= (SELECT gone_before FROM history WHERE only_one)
    GROUP BY tenant, state
) AS counted;
