-- What runs is counted as running again.
INSERT INTO counts (tenant, state, tasks)
SELECT tenant, state, sum(tasks) FROM (
    SELECT tenant, claimed_from AS state, -1 AS tasks FROM tasks WHERE state = 4
    UNION ALL SELECT tenant, 4, 1 FROM tasks WHERE state = 4
) WHERE true
GROUP BY tenant, state
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
DROP VIEW state_counts;
DROP VIEW pending_counts;
DROP VIEW settled_counts;
CREATE VIEW state_counts AS
SELECT tenant, state, tasks FROM counts WHERE state < 256
UNION ALL SELECT tenant, state % 256, tasks FROM counts WHERE state >= 256
UNION ALL SELECT tenant, state / 256, -tasks FROM counts WHERE state >= 256;
