-- The last mark of each writer, set in each of its transactions: by it a commit is found out whose answer was lost.

-- name: mark_set
INSERT INTO marks (writer, mark) VALUES (:writer::text, :mark::bigint)
ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, marked_at = now();

-- It waits for a transaction that is still under way, and sees what that one has left.
-- name: mark_read
WITH touched AS (
    INSERT INTO marks (writer, mark) VALUES (:writer::text, 0)
    ON CONFLICT (writer) DO UPDATE SET marked_at = now()
    RETURNING mark
)
SELECT json_agg(mark) FROM touched;

-- Those of writers that are long gone.
-- name: marks_forget
DELETE FROM marks WHERE marked_at < now() - interval '1 day';
