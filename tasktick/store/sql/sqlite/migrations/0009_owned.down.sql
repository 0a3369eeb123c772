-- Nothing is lost: it is what running nodes say of themselves.
ALTER TABLE nodes DROP COLUMN history_regressed;
ALTER TABLE nodes DROP COLUMN clock_offset_ms;
