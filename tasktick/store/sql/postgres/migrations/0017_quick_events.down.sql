-- Nothing is lost: a compression.
ALTER TABLE event_inbox ALTER COLUMN items SET COMPRESSION default;
ALTER TABLE events ALTER COLUMN items SET COMPRESSION default;
