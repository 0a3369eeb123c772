-- Lines: fires that may not be under way together. States: 1 blocked, 2 scheduled, 4 running, 5 retrying, 7 awaiting.
-- `state + 0` and `id = ANY (ARRAY[one])` where rows are looked up by their ids: as in claims.sql. The partition too, beside
-- what has a key that begins with it.

-- Nobody else decides about these lines, nor ends who stands there, until the commit: locks by name, in their order,
-- which leave nothing behind and are there before the first row is. Rows of schedules come after them, before tasks.
-- fragment: hold
SELECT pg_advisory_xact_lock(place) FROM (
    SELECT DISTINCT hashtextextended(current_schema() || '/' || tenant || '/' || line, 1952544623) AS place FROM (
        SELECT row->>0 AS tenant, row->>1 AS line FROM jsonb_array_elements(:lines::text::jsonb) AS given (row)
        UNION ALL
        SELECT l.tenant, l.line FROM json_array_elements_text(:tasks::text::json) AS given (id)
        JOIN line_fires AS l
            ON l.partition_id = ANY (ARRAY[partition_of(given.id::uuid)]) AND l.task_id = given.id::uuid
        UNION ALL
        SELECT l.tenant, l.line FROM json_array_elements_text(:schedules::text::json) AS given (id)
        CROSS JOIN LATERAL (
            SELECT tenant, line FROM line_fires WHERE schedule_id = given.id::uuid
            OFFSET 0
        ) AS l
    ) AS lines
    ORDER BY place OFFSET 0
) AS places;
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:schedules::text::json)
)
ORDER BY partition_id, id
FOR NO KEY UPDATE

-- name: lines_hold
-- include: hold
;

-- fragment: row
    hex_of(l.task_id), l.line, l.tenant, hex_of(l.schedule_id), l.due_at, l.waits

-- Both bounds as rows: of the indexes only that by line serves, and not the key, which has the line in it too.
-- name: lines_read
SELECT json_agg(json_build_array(
    -- include: row
) ORDER BY l.due_at, l.task_id, l.line)
FROM (
    SELECT standing.* FROM jsonb_array_elements(:lines::text::jsonb) AS given (row)
    CROSS JOIN LATERAL (
        SELECT * FROM line_fires
        WHERE (tenant, line) >= (given.row->>0, given.row->>1) AND (tenant, line) <= (given.row->>0, given.row->>1)
        OFFSET 0
    ) AS standing
    UNION
    SELECT standing.* FROM json_array_elements_text(:schedules::text::json) AS given (id)
    CROSS JOIN LATERAL (
        SELECT * FROM line_fires WHERE schedule_id = given.id::uuid
        OFFSET 0
    ) AS standing
) AS l;

-- Rows: as model/line.py, LineFire.
-- name: lines_join
INSERT INTO line_fires (partition_id, task_id, line, tenant, schedule_id, due_at, waits)
SELECT
    partition_of((row->>0)::uuid), (row->>0)::uuid, row->>1, row->>2, (row->>3)::uuid, (row->>4)::bigint,
    (row->>5)::boolean
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row);

-- name: lines_of
SELECT json_agg(json_build_array(
    -- include: row
))
FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS wanted
JOIN line_fires AS l ON l.partition_id = ANY (ARRAY[partition_of(wanted.id)]) AND l.task_id = wanted.id;

-- Whether something hangs on the ends of these fires: who stands in their lines or waits for them, or a count of fires
-- that gave up. All of that is held until the commit.
-- name: lines_any_bound
-- include: hold
;
SELECT json_build_array(
    EXISTS (
        SELECT 1 FROM json_array_elements_text(:tasks::text::json) AS given (id)
        JOIN line_fires AS l
            ON l.partition_id = ANY (ARRAY[partition_of(given.id::uuid)]) AND l.task_id = given.id::uuid
    )
    OR EXISTS (
        SELECT 1 FROM schedules
        WHERE holder_id IN (SELECT value::uuid FROM json_array_elements_text(:tasks::text::json))
    )
    OR EXISTS (
        SELECT 1 FROM json_array_elements_text(:schedules::text::json) AS given (id)
        JOIN schedules AS s ON s.partition_id = ANY (ARRAY[partition_of(given.id::uuid)]) AND s.id = given.id::uuid
        WHERE s.consecutive_failures > 0
    )
);

-- name: lines_leave
DELETE FROM line_fires USING json_array_elements_text(:ids::text::json) AS ended (id)
WHERE line_fires.partition_id = ANY (ARRAY[partition_of(ended.id::uuid)]) AND line_fires.task_id = ended.id::uuid;

-- Who has ended in line does not hide those before it from a schedule that has left the line since: the last of its
-- fires that stand there is the one that the next must not overlap.
-- name: lines_step_out
SELECT 1 FROM schedules
WHERE (partition_id, id) IN (
    SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:schedules::text::json)
)
ORDER BY partition_id, id
FOR NO KEY UPDATE;
UPDATE tasks SET after_id = heirs.heir, version = tasks.version + 1
FROM (
    SELECT s.next_id, s.last_id, (
        SELECT l.task_id FROM line_fires AS l WHERE l.schedule_id = s.id ORDER BY l.due_at DESC, l.task_id DESC LIMIT 1
    ) AS heir
    FROM schedules AS s
    WHERE (s.partition_id, s.id) IN (
            SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:schedules::text::json)
        )
        AND s.last_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json))
) AS heirs
WHERE tasks.id = ANY (ARRAY[heirs.next_id]) AND tasks.partition_id = partition_of(heirs.next_id)
    AND tasks.after_id = heirs.last_id AND heirs.heir IS NOT NULL;
UPDATE schedules SET last_id = coalesce((
    SELECT l.task_id FROM line_fires AS l
    WHERE l.schedule_id = schedules.id ORDER BY l.due_at DESC, l.task_id DESC LIMIT 1
), last_id)
WHERE (partition_id, id) IN (
        SELECT partition_of(value::uuid), value::uuid FROM json_array_elements_text(:schedules::text::json)
    )
    AND last_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json));

-- Who is first in each of these lines, where nobody is at work any more. It is locked: one that was just cancelled by
-- somebody who has yet to come to its line does not go. Whoever is to go no later than that one is in its way also where
-- a clock that was set back says that neither is due.
-- name: lines_freed
SELECT json_agg(json_build_array(
    named.line, json_build_array(hex_of(t.id), t.tenant, t.queue, t.host, t.priority, t.due_at, :now::bigint)
))
FROM (
    SELECT row->>0 AS tenant, row->>1 AS line FROM jsonb_array_elements(:lines::text::jsonb) AS given (row)
) AS named
CROSS JOIN LATERAL (
    SELECT first.* FROM line_fires AS w
    JOIN tasks AS first ON first.id = ANY (ARRAY[w.task_id]) AND first.partition_id = ANY (ARRAY[w.partition_id])
    WHERE (w.tenant, w.line) >= (named.tenant, named.line) AND (w.tenant, w.line) <= (named.tenant, named.line)
        AND w.waits AND first.state + 0 = 1
    ORDER BY w.due_at, w.task_id LIMIT 1
    FOR NO KEY UPDATE OF first
) AS t
WHERE NOT EXISTS (
    SELECT 1 FROM line_fires AS g
    JOIN tasks AS at_work ON at_work.id = ANY (ARRAY[g.task_id]) AND at_work.partition_id = ANY (ARRAY[g.partition_id])
    WHERE g.tenant = named.tenant AND g.line = named.line AND NOT g.waits
        AND (
            at_work.state + 0 IN (1, 4, 5, 7)
            OR (at_work.state + 0 = 2 AND at_work.due_at <= greatest(:now::bigint, t.due_at))
        )
    OFFSET 0
);

-- name: lines_go
UPDATE line_fires SET waits = false
FROM json_array_elements_text(:ids::text::json) AS freed (id)
WHERE line_fires.partition_id = ANY (ARRAY[partition_of(freed.id::uuid)]) AND line_fires.task_id = freed.id::uuid;

-- Fires that were let run, and ended before they began: schedule, task, nominal time, reason. That a backfill had let
-- one run stands behind the reason (model/schedule.py, BY_BACKFILL).
-- name: ledger_unstarted
UPDATE schedules SET fired = fired - counted.times, skipped = skipped + counted.times
FROM (
    SELECT f.partition_id, f.schedule_id, count(*) AS times
    FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
    JOIN fires AS f
        ON f.partition_id = partition_of((row->>0)::uuid) AND f.schedule_id = (row->>0)::uuid
        AND f.nominal_at = (row->>2)::bigint
    WHERE f.task_id = (row->>1)::uuid AND f.outcome = 'run'
    GROUP BY f.partition_id, f.schedule_id
) AS counted
WHERE schedules.partition_id = counted.partition_id AND schedules.id = counted.schedule_id;
UPDATE fires SET outcome = 'skipped', reason = row->>3 || CASE WHEN fires.reason = 'backfill' THEN ':backfill' ELSE '' END
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE fires.partition_id = partition_of((row->>0)::uuid) AND fires.schedule_id = (row->>0)::uuid
    AND fires.nominal_at = (row->>2)::bigint AND fires.task_id = (row->>1)::uuid AND fires.outcome = 'run';
