-- Nothing is lost: what has no number yet is given one, in its order.
INSERT INTO events (sequence, at, upto, items)
SELECT
    h.sequence + row_number() OVER (ORDER BY i.number), i.at,
    h.upto + (sum(i.events) OVER (ORDER BY i.number))::bigint, i.items
FROM event_inbox AS i CROSS JOIN event_head AS h;
UPDATE event_head SET
    sequence = sequence + (SELECT count(*) FROM event_inbox),
    upto = upto + (SELECT coalesce(sum(events), 0) FROM event_inbox)::bigint;
ALTER TABLE event_head DROP COLUMN settled, DROP COLUMN seen, DROP COLUMN seen_before;
DROP TABLE event_inbox;
