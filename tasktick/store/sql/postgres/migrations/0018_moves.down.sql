-- Nothing is lost: moves are added to the states that they mean.
DROP VIEW state_counts;
INSERT INTO counts (tenant, state, slot, tasks)
SELECT tenant, state, slot, sum(tasks) FROM (
    SELECT tenant, (state % 256)::smallint AS state, slot, tasks FROM counts WHERE state >= 256
    UNION ALL SELECT tenant, (state / 256)::smallint, slot, -tasks FROM counts WHERE state >= 256
) AS moved
GROUP BY tenant, state, slot
ON CONFLICT (tenant, state, slot) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
DELETE FROM counts WHERE state >= 256;
