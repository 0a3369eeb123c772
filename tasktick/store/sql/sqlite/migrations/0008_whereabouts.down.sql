-- loses: that the store has moved: SELECT count(*) FROM whereabouts WHERE moved_to IS NOT NULL OR filled_from IS NOT NULL
DROP TABLE whereabouts;
ALTER TABLE nodes DROP COLUMN home;
