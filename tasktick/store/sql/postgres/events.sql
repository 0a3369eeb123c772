-- What happened, a row for each batch. Items are JSON by tenant, written and read as they stand.

-- Last of all in a transaction: the next one that tells something waits for its commit.
-- name: events_add
WITH head AS (
    UPDATE event_head SET sequence = sequence + 1, upto = upto + :events::bigint RETURNING sequence, upto
)
INSERT INTO events (sequence, at, upto, items) SELECT sequence, :at::bigint, upto, :items::text FROM head;

-- name: events_edges
SELECT json_agg(json_build_array(oldest, newest)) FROM (
    SELECT (SELECT min(sequence) FROM events) AS oldest, (SELECT max(sequence) FROM events) AS newest
) AS edges WHERE newest IS NOT NULL;

-- From a row on, in order; the first one always, the others as far as they come to no more than so many characters.
-- Put together as text, since the items would only be parsed to be written again.
-- name: events_from
SELECT '[' || coalesce(string_agg('[' || sequence || ',' || items || ']', ',' ORDER BY sequence), '') || ']' FROM (
    SELECT sequence, items, sum(length(items)) OVER (ORDER BY sequence) AS chars FROM (
        SELECT sequence, items FROM events
        WHERE sequence >= :sequence::bigint ORDER BY sequence LIMIT :rows_max::bigint
    ) AS there
) AS measured
WHERE chars <= :chars_max::bigint OR chars = length(items);

-- Up to where the oldest rows may go: too old, or too many behind them. No row stays that is older than one that goes.
-- name: events_old
SELECT json_agg(sequence) FROM (
    SELECT max(sequence) AS sequence FROM (
        SELECT sequence, at, upto FROM events
        WHERE sequence < (SELECT max(sequence) FROM events)
            AND upto <= (SELECT upto FROM events ORDER BY sequence LIMIT 1) + :events_at_once::bigint
        ORDER BY sequence LIMIT :rows_max::bigint
    ) AS oldest
    WHERE at <= :before::bigint
        OR upto <= (SELECT upto FROM events ORDER BY sequence DESC LIMIT 1) - :events_max::bigint
) AS old
WHERE sequence IS NOT NULL;

-- name: events_remove
DELETE FROM events WHERE sequence <= :sequence::bigint;
