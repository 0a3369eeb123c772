-- What is to come, as a forecast reads it: narrow rows of schedules, waiting tasks by the minute.

-- How many schedules there are, of the tenants from the first to the last.
-- name: forecast_extent
SELECT json_build_array(count(*)) FROM schedules
WHERE tenant >= :first_tenant::text COLLATE "C" AND tenant <= :last_tenant::text COLLATE "C";

-- A page of them, in the order of (tenant, id), of these partitions (all, if NULL). A fire that is made ahead may have
-- been moved or held by hand: how it stands is told beside its schedule.
-- name: forecast_schedules
SELECT json_agg(json_build_object(
    'id', hex_of(s.id), 'tenant', s.tenant, 'rule', s.rule::json, 'jitter_ms', s.jitter_ms,
    'calendars', s.calendars::json, 'skips', s.skips::json, 'queue', s.template::json->>'queue',
    'host', s.template::json->>'host', 'cursor_at', s.cursor_at, 'start_at', s.start_at, 'end_at', s.end_at,
    'max_fires', s.max_fires, 'fired', s.fired, 'paused', s.paused, 'paused_until', s.paused_until,
    'next_at', s.next_at, 'ahead_state', t.state, 'ahead_wake_at', t.wake_at
) ORDER BY s.tenant, s.id)
FROM (
    SELECT * FROM schedules
    WHERE (tenant, id) > (:beyond_tenant::text COLLATE "C", edge_of(:beyond_id::text))
        AND tenant >= :first_tenant::text COLLATE "C" AND tenant <= :last_tenant::text COLLATE "C"
        AND (:partitions::text IS NULL OR partition_id IN (
            SELECT ('x' || value)::bit(8)::integer FROM json_array_elements_text(:partitions::text::json)
        ))
    ORDER BY tenant, id LIMIT :limit::bigint
) AS s
LEFT JOIN LATERAL (
    SELECT state, wake_at FROM tasks
    WHERE partition_id = partition_of(s.next_id) AND id = s.next_id AND decide_by IS NOT NULL AND attempt = 0
    OFFSET 0
) AS t ON true;

-- Waiting tasks beyond a row, in the order of slots and ids as in due.sql, and up to an instant, counted by minute and
-- lane; those that schedules have made ahead, and that nobody has begun with, are told beside those. How many rows were
-- looked at, the last of them, and the counts.
-- name: forecast_tasks
WITH page AS MATERIALIZED (
    SELECT id, tenant, queue, host, wake_at, decide_by, attempt FROM tasks
    WHERE state IN (2, 5) AND (wake_at >> 10, id) > (:after::bigint >> 10, edge_of(:after_id::text))
        AND wake_at >> 10 <= :until::bigint >> 10 AND wake_at >= :since::bigint AND wake_at <= :until::bigint
    ORDER BY wake_at >> 10, id LIMIT :limit::bigint
)
SELECT json_build_array(json_build_array(
    (SELECT count(*) FROM page),
    (SELECT wake_at FROM page ORDER BY wake_at >> 10 DESC, id DESC LIMIT 1),
    (SELECT hex_of(id) FROM page ORDER BY wake_at >> 10 DESC, id DESC LIMIT 1),
    coalesce((
        SELECT json_agg(json_build_array(tenant, queue, host, minute, tasks)) FROM (
            SELECT tenant, queue, host, greatest(wake_at - :from_at::bigint, 0) / 60000 AS minute, count(*) AS tasks
            FROM page
            WHERE (decide_by IS NULL OR attempt > 0)
                AND tenant >= :first_tenant::text COLLATE "C" AND tenant <= :last_tenant::text COLLATE "C"
            GROUP BY tenant, queue, host, minute
        ) AS counted
    ), '[]')
));

-- How long attempts have lasted, by host, of so many tasks that finished last and have not moved to history yet.
-- name: forecast_durations
SELECT json_agg(json_build_array(host, attempts, mean_ms)) FROM (
    SELECT recent.host, count(*) AS attempts, avg(a.completed_at - a.started_at)::double precision AS mean_ms
    FROM (
        SELECT partition_id, id, host, attempt FROM tasks
        WHERE state >= 10 AND completed_at > :since::bigint
        ORDER BY completed_at DESC, id DESC LIMIT :limit::bigint
    ) AS recent
    CROSS JOIN LATERAL (
        SELECT started_at, completed_at FROM attempts
        WHERE partition_id = recent.partition_id AND task_id = recent.id AND attempt = recent.attempt
            AND started_at IS NOT NULL AND status IS NOT NULL
        OFFSET 0
    ) AS a
    GROUP BY recent.host
) AS measured;

-- How many schedules of a tenant come next within a stretch of time, as far as it is worth to count; one is left out.
-- name: schedules_next_within
SELECT json_build_array(count(*)) FROM (
    SELECT 1 FROM schedules
    WHERE look_at >= :from_at::bigint AND look_at < :until::bigint AND tenant = :tenant::text AND NOT paused
        AND (:but_id::text IS NULL OR id <> :but_id::text::uuid)
    LIMIT :limit::bigint
) AS found;
