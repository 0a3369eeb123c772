-- min_reader: 18
-- A change of state is one count, of those that went from one state to another, where it was two: one fewer there, one
-- more here. It stands in the same table, under 256 times the state before, and the state after. An older program would
-- not see what these mean.

-- How many are in each state, added up.
CREATE VIEW state_counts AS
SELECT tenant, state, tasks FROM counts WHERE state < 256
UNION ALL SELECT tenant, (state % 256)::smallint, tasks FROM counts WHERE state >= 256
UNION ALL SELECT tenant, (state / 256)::smallint, -tasks FROM counts WHERE state >= 256;
