-- Nothing is lost: an index.
DROP INDEX schedules_by_tzdata;
