-- min_reader: 8
-- What a node says of itself with each renewal: how far its clock is ahead, and how often it found its store without
-- something that it had said. A file is one node's, which owns every partition: an index by partition, as PostgreSQL
-- has it here, would be of no use.
ALTER TABLE nodes ADD COLUMN clock_offset_ms INTEGER;
ALTER TABLE nodes ADD COLUMN history_regressed INTEGER NOT NULL DEFAULT 0;
