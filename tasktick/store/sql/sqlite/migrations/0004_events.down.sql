-- loses: batches of events: SELECT count(*) FROM events
DROP TABLE events;
