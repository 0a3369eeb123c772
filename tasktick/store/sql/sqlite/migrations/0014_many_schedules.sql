-- min_reader: 10
-- Whether any fire ahead is by other zone data is found without reading all schedules at each start. A file is one
-- node's, which owns every partition and finds what it looks at next by time alone: an index by partition, as
-- PostgreSQL has it here, would be of no use.
CREATE INDEX schedules_by_tzdata ON schedules (tzdata) WHERE paused = 0 AND look_at IS NOT NULL;
