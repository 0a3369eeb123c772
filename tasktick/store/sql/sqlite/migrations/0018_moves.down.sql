-- Nothing is lost: moves are added to the states that they mean.
DROP VIEW state_counts;
INSERT INTO counts (tenant, state, tasks)
SELECT tenant, state, sum(tasks) FROM (
    SELECT tenant, state % 256 AS state, tasks FROM counts WHERE state >= 256
    UNION ALL SELECT tenant, state / 256, -tasks FROM counts WHERE state >= 256
) WHERE true
GROUP BY tenant, state
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
DELETE FROM counts WHERE state >= 256;
