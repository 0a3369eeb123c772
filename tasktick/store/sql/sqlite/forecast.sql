-- What is to come, as a forecast reads it: narrow rows of schedules, waiting tasks by the minute.

-- How many schedules there are, of the tenants from the first to the last.
-- name: forecast_extent
SELECT json_array(count(*)) FROM schedules WHERE tenant >= :first_tenant AND tenant <= :last_tenant;

-- A page of them, in the order of (tenant, id), of these partitions (all, if NULL). A fire that is made ahead may have
-- been moved or held by hand: how it stands is told beside its schedule.
-- name: forecast_schedules
SELECT json_group_array(json_object(
    'id', s.id, 'tenant', s.tenant, 'rule', json(s.rule), 'jitter_ms', s.jitter_ms, 'calendars', json(s.calendars),
    'skips', json(s.skips), 'queue', s.template->>'$.queue', 'host', s.template->>'$.host',
    'cursor_at', s.cursor_at, 'start_at', s.start_at, 'end_at', s.end_at, 'max_fires', s.max_fires, 'fired', s.fired,
    'paused', s.paused, 'paused_until', s.paused_until, 'next_at', s.next_at,
    'ahead_state', t.state, 'ahead_wake_at', t.wake_at
))
FROM (
    SELECT id FROM schedules
    WHERE (tenant, id) > (:beyond_tenant, :beyond_id) AND tenant >= :first_tenant AND tenant <= :last_tenant
        AND (:partitions IS NULL OR substr(id, -2) IN (SELECT value FROM json_each(:partitions)))
    ORDER BY tenant, id LIMIT :limit
) AS page
JOIN schedules AS s ON s.id = page.id
LEFT JOIN tasks AS t ON t.id = s.next_id AND t.decide_by IS NOT NULL AND t.attempt = 0;

-- Waiting tasks beyond a row, in the order of slots and ids as in due.sql, and up to an instant, counted by minute and
-- lane; those that schedules have made ahead, and that nobody has begun with, are told beside those. How many rows were
-- looked at, the last of them, and the counts.
-- name: forecast_tasks
WITH page AS MATERIALIZED (
    SELECT t.id, t.tenant, t.queue, t.host, t.wake_at, t.decide_by, t.attempt FROM (
        SELECT id FROM (
            SELECT id FROM tasks
            WHERE state IN (2, 5) AND wake_at >> 10 = :after >> 10 AND id > :after_id
                AND wake_at >= :since AND wake_at <= :until
            ORDER BY id LIMIT :limit
        )
        UNION ALL
        SELECT id FROM (
            SELECT id FROM tasks
            WHERE state IN (2, 5) AND wake_at >> 10 > :after >> 10
                AND wake_at >> 10 <= :until >> 10 AND wake_at <= :until
            ORDER BY wake_at >> 10, id LIMIT :limit
        )
        LIMIT :limit
    ) AS found CROSS JOIN tasks AS t ON t.id = found.id
)
SELECT json_array(json_array(
    (SELECT count(*) FROM page),
    (SELECT wake_at FROM page ORDER BY wake_at >> 10 DESC, id DESC LIMIT 1),
    (SELECT id FROM page ORDER BY wake_at >> 10 DESC, id DESC LIMIT 1),
    json((
        SELECT json_group_array(json_array(tenant, queue, host, minute, tasks)) FROM (
            SELECT tenant, queue, host, max(wake_at - :from_at, 0) / 60000 AS minute, count(*) AS tasks
            FROM page
            WHERE (decide_by IS NULL OR attempt > 0) AND tenant >= :first_tenant AND tenant <= :last_tenant
            GROUP BY tenant, queue, host, minute
        )
    ))
));

-- How long attempts have lasted, by host, of so many tasks that finished last.
-- name: forecast_durations
SELECT json_group_array(json_array(host, attempts, mean_ms)) FROM (
    SELECT recent.host, count(*) AS attempts, avg(a.completed_at - a.started_at) AS mean_ms
    FROM (
        SELECT id, host, attempt FROM tasks
        WHERE state >= 10 AND completed_at > :since ORDER BY completed_at DESC, id DESC LIMIT :limit
    ) AS recent
    JOIN attempts AS a ON a.task_id = recent.id AND a.attempt = recent.attempt
    WHERE a.started_at IS NOT NULL AND a.status IS NOT NULL
    GROUP BY recent.host
);

-- How many schedules of a tenant come next within a stretch of time, as far as it is worth to count; one is left out.
-- name: schedules_next_within
SELECT json_array(count(*)) FROM (
    SELECT 1 FROM schedules
    WHERE look_at >= :from_at AND look_at < :until AND tenant = :tenant AND paused = 0 AND id IS NOT :but_id
    LIMIT :limit
);
