-- What happened, a row for each batch. Items are JSON by tenant, written and read as they stand.

-- name: events_add
INSERT INTO events (at, upto, items)
SELECT :at, coalesce((SELECT upto FROM events ORDER BY sequence DESC LIMIT 1), 0) + :events, :items;

-- Never ours, and never any: one connection writes, so what is told has its number at once.
-- name: events_turn
SELECT json_array(json_array(NULL, json('false')));

-- name: events_number
SELECT json_array(json('false'));

-- name: events_edges
SELECT json_group_array(json_array(oldest, newest)) FROM (
    SELECT (SELECT min(sequence) FROM events) AS oldest, (SELECT max(sequence) FROM events) AS newest
) WHERE newest IS NOT NULL;

-- From a row on, in order; the first one always, the others as far as they come to no more than so many characters.
-- Put together as text, since the items would only be parsed to be written again.
-- name: events_from
SELECT '[' || coalesce(group_concat('[' || sequence || ',' || items || ']'), '') || ']' FROM (
    SELECT sequence, items, sum(length(items)) OVER (ORDER BY sequence) AS chars FROM (
        SELECT sequence, items FROM events WHERE sequence >= :sequence ORDER BY sequence LIMIT :rows_max
    )
)
WHERE chars <= :chars_max OR chars = length(items);

-- Up to where the oldest rows may go: too old, or too many behind them. No row stays that is older than one that goes.
-- name: events_old
SELECT json_group_array(sequence) FROM (
    SELECT max(sequence) AS sequence FROM (
        SELECT sequence, at, upto FROM events
        WHERE sequence < (SELECT max(sequence) FROM events)
            AND upto <= (SELECT upto FROM events ORDER BY sequence LIMIT 1) + :events_at_once
        ORDER BY sequence LIMIT :rows_max
    )
    WHERE at <= :before
        OR upto <= (SELECT upto FROM events ORDER BY sequence DESC LIMIT 1) - :events_max
)
WHERE sequence IS NOT NULL;

-- name: events_remove
DELETE FROM events WHERE sequence <= :sequence;
