-- loses: that the store has moved: SELECT count(*) FROM whereabouts WHERE moved_to IS NOT NULL OR filled_from IS NOT NULL
DROP TABLE whereabouts;
DROP FUNCTION store_is_shut() CASCADE;
