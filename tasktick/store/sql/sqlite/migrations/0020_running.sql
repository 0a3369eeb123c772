-- min_reader: 20
-- What runs is counted where it was claimed from, and looked up where that matters: it is what is under way, and no more.
-- So a claim writes no count, and an end one. An older program would go on to count claims.
INSERT INTO counts (tenant, state, tasks)
SELECT tenant, state, sum(tasks) FROM (
    SELECT tenant, claimed_from AS state, 1 AS tasks FROM tasks WHERE state = 4
    UNION ALL SELECT tenant, 4, -1 FROM tasks WHERE state = 4
) WHERE true
GROUP BY tenant, state
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;

-- How many are in each state as it is counted.
DROP VIEW state_counts;
CREATE VIEW settled_counts AS
SELECT tenant, state, tasks FROM counts WHERE state < 256
UNION ALL SELECT tenant, state % 256, tasks FROM counts WHERE state >= 256
UNION ALL SELECT tenant, state / 256, -tasks FROM counts WHERE state >= 256;

-- How many are unfinished, as far as each count says: who asks for a tenant's reads the rows of that one alone.
CREATE VIEW pending_counts AS
SELECT tenant, tasks * ((state % 256 BETWEEN 1 AND 9) - (state / 256 BETWEEN 1 AND 9)) AS tasks FROM counts;

-- And as it is.
CREATE VIEW state_counts AS
SELECT tenant, state, tasks FROM settled_counts
UNION ALL SELECT tenant, 4, count(*) FROM tasks WHERE state = 4 GROUP BY tenant
UNION ALL SELECT tenant, claimed_from, -count(*) FROM tasks WHERE state = 4 GROUP BY tenant, claimed_from;
