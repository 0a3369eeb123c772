-- History: finished tasks in tables by the day on which they ended. `from_at` is the first millisecond of a day.

-- The columns of a task's row, and of its details but for those that the row has too.
-- fragment: columns
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, at_most_once, keyed, expires_at, attempt, series, series_base, uncounted, interruptions, fence,
    claim_id, claimed_from, node, epoch, incarnation, lease_until, cancel_requested, payload_version, version,
    picked_at, started_at, completed_at, sla_met, reason, template_id, decide_by, after_id, late_at

-- fragment: details
    created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id, step

-- fragment: attempt
    partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
    error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated

-- One node moves at a time; others have nothing to wait for.
-- name: history_turn
SELECT json_build_array(pg_try_advisory_xact_lock(1952544621, hashtext(current_schema())));

-- Move some that finished by `before`, from a place in the order of their end on: how many, whether there may be more,
-- where the next look begins, and which days have no tables yet. What stays: tasks with a dead letter, so that all
-- that is asked of those is found beside them; fires that their schedule still names, since it decides by their rows;
-- and what another transaction holds. Nobody is waited for but who drops the day. No more are looked at than can be
-- moved in time: as many as come to so many bytes on the disk, and the first one whatever it has.
-- name: history_move
WITH seen AS MATERIALIZED (
    SELECT
        partition_id, id, tenant, version, completed_at,
        greatest(completed_at, id_at(id), coalesce(decide_by, 0)) AS ended_at
    FROM tasks
    WHERE state >= 10 AND completed_at <= :before::bigint
        AND (completed_at, id) > (:after::bigint, edge_of(:after_id::text))
    ORDER BY completed_at, id LIMIT :limit::bigint
), looked AS MATERIALIZED (
    SELECT partition_id, id, version, completed_at, ended_at FROM (
        SELECT
            seen.*, row_number() OVER in_order AS place,
            sum(coalesce(sent.bytes, 0) + coalesce(tried.bytes, 0)) OVER in_order AS bytes
        FROM seen
        CROSS JOIN LATERAL (
            SELECT sum(pg_column_size(payload)) AS bytes FROM (
                SELECT payload FROM payloads WHERE partition_id = seen.partition_id AND task_id = seen.id
                UNION ALL
                SELECT payload FROM task_details
                WHERE tenant = seen.tenant AND partition_id = seen.partition_id AND id = seen.id
            ) AS of_all
        ) AS sent
        CROSS JOIN LATERAL (
            SELECT sum(pg_column_size(a.response_body)) AS bytes FROM attempts AS a
            WHERE a.partition_id = seen.partition_id AND a.task_id = seen.id
        ) AS tried
        WINDOW in_order AS (ORDER BY completed_at, id)
    ) AS sized
    WHERE bytes <= :bytes_max::bigint OR place = 1
), days AS MATERIALIZED (
    SELECT from_at FROM history_days
    WHERE NOT gone AND from_at IN (SELECT ended_at - ended_at % 86400000 FROM looked)
    ORDER BY from_at
    FOR SHARE
), chosen AS MATERIALIZED (
    SELECT t.partition_id, t.id, t.tenant, looked.ended_at
    FROM looked
    JOIN days ON days.from_at = looked.ended_at - looked.ended_at % 86400000
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = looked.partition_id AND id = looked.id
        OFFSET 0
    ) AS t
    WHERE t.version = looked.version AND t.state + 0 >= 10 AND t.state + 0 <> 11
        AND looked.ended_at <= :before::bigint
        AND NOT EXISTS (SELECT 1 FROM dead_letters AS l WHERE l.task_id = t.id)
        AND NOT EXISTS (
            SELECT 1 FROM task_details AS d
            JOIN schedules AS s
                ON s.partition_id = partition_of(id_of(d.schedule_id)) AND s.id = id_of(d.schedule_id)
            WHERE d.tenant = ANY (ARRAY[t.tenant]) AND d.id = t.id AND d.partition_id = t.partition_id
                AND t.id IN (s.next_id, s.last_id, s.buffered_id, s.holder_id)
            OFFSET 0
        )
    ORDER BY looked.partition_id, looked.id
    FOR UPDATE OF t SKIP LOCKED
), rows_gone AS (
    DELETE FROM tasks USING chosen WHERE tasks.id = ANY (ARRAY[chosen.id]) AND tasks.partition_id = chosen.partition_id
    RETURNING tasks.tenant, tasks.state, chosen.ended_at
), details_gone AS (
    DELETE FROM task_details USING chosen
    WHERE task_details.tenant = ANY (ARRAY[chosen.tenant])
        AND task_details.id = chosen.id AND task_details.partition_id = chosen.partition_id
), payloads_gone AS (
    DELETE FROM payloads USING chosen
    WHERE payloads.task_id = ANY (ARRAY[chosen.id]) AND payloads.partition_id = chosen.partition_id
), attempts_gone AS (
    DELETE FROM attempts USING chosen
    WHERE attempts.task_id = ANY (ARRAY[chosen.id]) AND attempts.partition_id = chosen.partition_id
    RETURNING attempts.*, chosen.ended_at
), moved AS (
    INSERT INTO finished_tasks (
        -- include: columns
        ,
        -- include: details
        , payload, ended_at
    )
    SELECT
        r.partition_id, r.id, r.tenant, r.state, r.queue, r.host, r.priority, r.run_at, r.due_at, r.wake_at,
        r.max_attempts, r.timeout_ms, r.updated_at, r.at_most_once, r.keyed, r.expires_at, r.attempt, r.series,
        r.series_base, r.uncounted, r.interruptions, r.fence, r.claim_id, r.claimed_from, r.node, r.epoch,
        r.incarnation, r.lease_until, r.cancel_requested, r.payload_version, r.version, r.picked_at, r.started_at,
        r.completed_at, r.sla_met, r.reason, r.template_id, r.decide_by, r.after_id,
        r.late_at,
        d.created_at, d.key, d.name, d.type, d.tags, d.sla_ms, d.expires_in_ms, d.schedule_id, d.workflow_id, d.step,
        coalesce(CASE WHEN r.payload_version = 1 THEN d.payload END, p.payload), r.ended_at
        -- Locked, they are as this statement saw them when it began; to match what has been deleted with each other
        -- would take the time of as many comparisons as there are pairs.
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT tasks.*, chosen.ended_at FROM tasks WHERE partition_id = chosen.partition_id AND id = chosen.id
        OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (
        SELECT * FROM task_details WHERE tenant = r.tenant AND partition_id = r.partition_id AND id = r.id
        OFFSET 0
    ) AS d
    LEFT JOIN LATERAL (
        SELECT payload FROM payloads
        WHERE partition_id = r.partition_id AND task_id = r.id AND version = r.payload_version
        OFFSET 0
    ) AS p ON true
    ORDER BY chosen.partition_id, chosen.id
), attempts_moved AS (
    INSERT INTO finished_attempts (
        -- include: attempt
        , ended_at
    )
    SELECT
        -- include: attempt
        , ended_at
    FROM attempts_gone
    ORDER BY partition_id, task_id, attempt
), counted AS (
    INSERT INTO history_counts (from_at, tenant, state, tasks)
    SELECT ended_at - ended_at % 86400000, tenant, state, count(*) FROM rows_gone GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (from_at, tenant, state) DO UPDATE SET tasks = history_counts.tasks + excluded.tasks
)
SELECT json_build_array(json_build_array(
    (SELECT count(*) FROM rows_gone),
    (SELECT count(*) FROM seen) >= :limit::bigint OR (SELECT count(*) FROM seen) > (SELECT count(*) FROM looked),
    (SELECT json_build_array(completed_at, hex_of(id)) FROM looked ORDER BY completed_at DESC, looked.id DESC LIMIT 1),
    (
        SELECT coalesce(json_agg(DISTINCT ended_at - ended_at % 86400000), '[]') FROM looked
        WHERE ended_at <= :before::bigint AND ended_at >= (SELECT gone_before FROM history WHERE only_one) AND NOT EXISTS (
            SELECT 1 FROM history_days WHERE from_at = ended_at - ended_at % 86400000
        )
    )
));

-- Make the tables of these days; those that were made.
-- name: history_make_days
SELECT json_agg(from_at) FROM (
    SELECT value::bigint AS from_at FROM json_array_elements_text(:days::text::json) ORDER BY 1
) AS wanted
WHERE from_at >= (SELECT gone_before FROM history WHERE only_one) AND make_history_day(from_at);

-- Which of these days have no tables.
-- name: history_days_lacking
SELECT json_agg(value::bigint) FROM json_array_elements_text(:days::text::json)
WHERE value::bigint NOT IN (SELECT from_at FROM history_days)
    AND value::bigint >= (SELECT gone_before FROM history WHERE only_one);

-- The oldest day that is over by then and not gone: held until the commit, so that nothing moves in or out.
-- name: history_oldest_day
SELECT json_agg(from_at) FROM (
    SELECT from_at FROM history_days
    WHERE NOT gone AND from_at + 86400000 <= :before::bigint
    ORDER BY from_at LIMIT 1
    FOR UPDATE
) AS oldest;

-- name: history_counted
SELECT json_agg(json_build_array(tenant, state, tasks) ORDER BY tenant, state) FROM history_counts
WHERE from_at = :from_at::bigint AND tasks <> 0;

-- A day is gone: from the commit on, nobody is told of what is in it.
-- name: history_day_goes
DELETE FROM history_counts WHERE from_at = :from_at::bigint;
UPDATE history SET gone_before = greatest(gone_before, :from_at::bigint + 86400000);
UPDATE history_days SET gone = true WHERE from_at = :from_at::bigint;

-- What is next to be run, outside a transaction, to rid the database of the tables of days that are gone.
-- name: history_leftover
SELECT json_agg(text) FROM (
    SELECT CASE
        WHEN i.inhdetachpending THEN format('ALTER TABLE %I DETACH PARTITION %I FINALIZE', parent, c.relname)
        WHEN i.inhparent IS NOT NULL THEN format('ALTER TABLE %I DETACH PARTITION %I CONCURRENTLY', parent, c.relname)
        ELSE format('DROP TABLE IF EXISTS %I', c.relname)
    END AS text
    FROM history_days AS d
    CROSS JOIN unnest(ARRAY['finished_tasks', 'finished_attempts']) AS parent
    JOIN pg_class AS c
        ON c.relnamespace = to_regnamespace(current_schema()) AND c.relkind = 'r'
        AND c.relname = parent || to_char(to_timestamp(d.from_at / 1000) AT TIME ZONE 'UTC', '"_"YYYYMMDD')
    LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
    WHERE d.gone
    ORDER BY d.from_at, parent LIMIT 1
) AS next;

-- Days of which nothing is left. Their time is over by `history`.
-- name: history_days_forget
DELETE FROM history_days AS d
WHERE d.gone AND NOT EXISTS (
    SELECT 1 FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relname IN (
        'finished_tasks' || to_char(to_timestamp(d.from_at / 1000) AT TIME ZONE 'UTC', '"_"YYYYMMDD'),
        'finished_attempts' || to_char(to_timestamp(d.from_at / 1000) AT TIME ZONE 'UTC', '"_"YYYYMMDD')
    )
);

-- Days of history that are over by then.
-- name: history_days
SELECT json_agg(from_at ORDER BY from_at) FROM history_days WHERE NOT gone AND from_at + 86400000 <= :before::bigint;

-- A day, held until the commit, if it is the oldest that is not gone.
-- name: history_day_oldest
SELECT json_agg(from_at) FROM (
    SELECT from_at FROM history_days
    WHERE NOT gone AND from_at = :from_at::bigint
        AND NOT EXISTS (SELECT 1 FROM history_days AS older WHERE NOT older.gone AND older.from_at < :from_at::bigint)
    FOR UPDATE
) AS day;

-- name: history_page
SELECT json_agg(json_build_array(ended_at, hex_of(id), tenant, true) ORDER BY partition_id, id) FROM (
    SELECT ended_at, partition_id, id, tenant FROM finished_tasks
    WHERE ended_at >= :from_at::bigint AND ended_at < :until::bigint
        AND (partition_id, id) > (:after::smallint, edge_of(:after_id::text))
    ORDER BY partition_id, id LIMIT :limit::bigint
) AS page;

-- Whatever the order of the rows.
-- name: history_sum
SELECT json_build_array(coalesce(sum(hashtextextended(hex_of(id) COLLATE "C", version)), 0)::text) FROM finished_tasks
WHERE ended_at >= :from_at::bigint AND ended_at < :until::bigint;
