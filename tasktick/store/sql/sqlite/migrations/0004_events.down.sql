-- loses: events: SELECT count(*) FROM events
DROP TABLE events;
