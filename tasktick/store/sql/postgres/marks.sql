-- The last mark of each writer, set in each of its transactions: by it a commit is found out whose answer was lost.

-- name: mark_set
SELECT set_mark(:writer::text, :mark::bigint);

-- It waits for a transaction that is still under way, and sees what that one has left. Where that is not this mark, the
-- mark is passed over: a statement that sets it and only comes now finds it so, and does nothing.
-- name: mark_settle
WITH settled AS (
    INSERT INTO marks (writer, mark) VALUES (:writer::text, :mark::bigint + 1)
    ON CONFLICT (writer) DO UPDATE SET
        mark = CASE WHEN marks.mark = :mark::bigint THEN marks.mark ELSE :mark::bigint + 1 END, marked_at = now()
    RETURNING mark
)
SELECT json_agg(mark) FROM settled;

-- Those of writers that are long gone.
-- name: marks_forget
DELETE FROM marks WHERE marked_at < now() - interval '1 day';
