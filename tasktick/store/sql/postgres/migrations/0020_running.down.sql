-- What runs is counted as running again.
INSERT INTO counts (tenant, state, slot, tasks)
SELECT tenant, state, 0, sum(tasks) FROM (
    SELECT tenant, claimed_from AS state, -1 AS tasks FROM tasks WHERE state = 4
    UNION ALL SELECT tenant, 4, 1 FROM tasks WHERE state = 4
) AS running
GROUP BY tenant, state
ON CONFLICT (tenant, state, slot) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
DROP VIEW state_counts;
DROP VIEW pending_counts;
ALTER VIEW settled_counts RENAME TO state_counts;
