-- Which store this is, whether it has moved, and how far one is that is being filled.

-- name: whereabouts_read
SELECT json_agg(whereabouts) FROM whereabouts;

-- name: whereabouts_moved
UPDATE whereabouts SET moved_to = :moved_to::text, moved_to_id = :moved_to_id::text, moved_at = :now::bigint;

-- name: whereabouts_stays
UPDATE whereabouts SET moved_to = NULL, moved_to_id = NULL, moved_at = NULL;

-- name: whereabouts_fill
UPDATE whereabouts SET
    filled_from = :filled_from::text, filled_from_id = :filled_from_id::text, filled_by = :run::text,
    filled_upto = NULL, moved_to = NULL, moved_to_id = NULL, moved_at = NULL;

-- A later run takes over from one that may still be at it: that one writes nothing more.
-- name: whereabouts_go_on
UPDATE whereabouts SET filled_by = :run::text WHERE filled_from_id = :filled_from_id::text;

-- name: whereabouts_reached
UPDATE whereabouts SET filled_upto = :upto::text WHERE filled_by = :run::text;

-- name: whereabouts_open
UPDATE whereabouts SET
    came_from_id = filled_from_id, filled_from = NULL, filled_from_id = NULL, filled_by = NULL, filled_upto = NULL
WHERE filled_by = :run::text;
