-- What happened, a row for each batch. Items are JSON by tenant, written and read as they stand.

-- Into the inbox: nobody waits for anybody. It is drawn last of all, when all that it tells of is done and locked.
-- name: events_add
INSERT INTO event_inbox (at, events, items) VALUES (:at::bigint, :events::bigint, :items::text);

-- The newest there is without a number, if it is ours to number them: then until our commit. And whether there are any
-- at all: with some and no turn, another is at it, who is not waited for. Where there are none, nothing is locked.
-- name: events_turn
WITH ours AS MATERIALIZED (
    SELECT newest FROM event_head
    CROSS JOIN LATERAL (
        SELECT max(number) AS newest FROM event_inbox WHERE number > least(event_head.settled, :beyond::bigint)
    ) AS there
    WHERE newest IS NOT NULL
    FOR UPDATE OF event_head SKIP LOCKED
)
SELECT json_build_array(json_build_array(
    (SELECT newest FROM ours),
    EXISTS (
        SELECT 1 FROM event_inbox
        WHERE number > (SELECT least(settled, :beyond::bigint) FROM event_head)
    )
));

-- Under the lock, and so in a statement after it: all that is committed by now, in the order in which it was drawn, as
-- far as it comes to so much; the first one always. Whether there is more.
-- `newest` is what was seen before this transaction had an id, so that whoever has drawn up to it is older; or 0.
-- name: events_number
WITH head AS MATERIALIZED (
    SELECT
        greatest(sequence, (SELECT max(sequence) FROM events)) AS sequence, upto, seen,
        least(settled, :beyond::bigint) AS beyond,
        -- Nobody is under way who may still bring a number up to `seen`. In a database that was restored elsewhere
        -- ids of transactions may begin anew: then they are all over.
        seen_before <= pg_snapshot_xmin(pg_current_snapshot())
            OR seen_before >= pg_snapshot_xmax(pg_current_snapshot()) AS are_over
    FROM event_head
), looked AS MATERIALIZED (
    SELECT number, row_number() OVER in_order AS place, sum(pg_column_size(items)) OVER in_order AS bytes FROM (
        SELECT number, items FROM event_inbox
        WHERE number > (SELECT beyond FROM head) ORDER BY number LIMIT :rows_max::bigint
    ) AS there
    WINDOW in_order AS (ORDER BY number)
), cut AS MATERIALIZED (
    SELECT last, are_all, are_over AND (are_all OR last >= seen) AS is_settled FROM head CROSS JOIN (
        SELECT
            max(number) FILTER (WHERE bytes <= :bytes_max::bigint OR place = 1) AS last,
            count(*) < :rows_max::bigint AND bool_and(bytes <= :bytes_max::bigint OR place = 1) AS are_all
        FROM looked
    ) AS found
), taken AS MATERIALIZED (
    DELETE FROM event_inbox WHERE number > (SELECT beyond FROM head) AND number <= (SELECT last FROM cut)
    RETURNING number, at, events, items
), numbered AS (
    INSERT INTO events (sequence, at, upto, items)
    SELECT
        head.sequence + row_number() OVER in_order, at, head.upto + (sum(events) OVER in_order)::bigint, items
    FROM taken CROSS JOIN head
    WINDOW in_order AS (ORDER BY number)
    ORDER BY number
), moved AS (
    UPDATE event_head SET
        sequence = head.sequence + told.batches,
        upto = head.upto + told.events,
        settled = CASE WHEN cut.is_settled THEN greatest(settled, head.seen) ELSE settled END,
        seen = CASE WHEN cut.is_settled AND :newest::bigint > 0 THEN :newest::bigint ELSE head.seen END,
        seen_before = CASE WHEN cut.is_settled AND :newest::bigint > 0 THEN pg_current_xact_id() ELSE seen_before END
    FROM head CROSS JOIN cut
    CROSS JOIN (SELECT count(*) AS batches, sum(events)::bigint AS events FROM taken) AS told
    WHERE told.batches > 0
)
SELECT json_build_array(NOT coalesce(are_all, true)) FROM cut;

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
