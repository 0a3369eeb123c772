-- Tasks: the slim state row, its details with what it was made with, and in `payloads` what it was changed to later.
-- Every row parameter is a JSON array of objects or, where columns are said to have an order, of arrays; every result
-- one JSON array in one cell.

-- None of the rows of new tasks, if a tenant of those that are `unlimited` has a quota.
-- fragment: limited
    EXISTS (
        SELECT 1 FROM tenants WHERE max_pending IS NOT NULL AND name IN (SELECT value FROM json_each(:unlimited))
    )

-- fragment: unless_limited
    NOT
    -- include: limited

-- The two rows of new tasks. What they share is read once (`SHAPE`), what is each one's own off its row (`ROW`, of
-- store/task_rows.py, in their order): to read a column off a row costs as much as to write it. What most do not bring is
-- left out. A payload is kept as its text. With its limit, what is shared is not read again for each row.
-- fragment: shapes
(
    SELECT
        key AS place, value->>0 AS tenant, value->>1 AS state, value->>2 AS queue, value->>3 AS host,
        value->>4 AS priority, value->>5 AS max_attempts, value->>6 AS timeout_ms, value->>7 AS at_most_once,
        value->>8 AS type, value->>9 AS sla_ms, value->>10 AS expires_in_ms
    FROM jsonb_each(:shapes) WHERE
    -- include: unless_limited
    LIMIT -1
) AS s ON s.place = row.value->>9

-- fragment: rows
INSERT INTO tasks (
    id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms, updated_at,
    at_most_once, keyed, expires_at
)
SELECT
    row.value->>0, s.tenant, s.state, s.queue, s.host, s.priority, row.value->>2, row.value->>3, row.value->>3,
    s.max_attempts, s.timeout_ms, row.value->>1, s.at_most_once, row.value->>5 IS NOT NULL, row.value->>4
FROM jsonb_each(:rows) AS row CROSS JOIN
    -- include: shapes
;
INSERT INTO task_details (id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload)
SELECT
    row.value->>0, s.tenant, row.value->>1, row.value->>5, row.value->>6, s.type,
    coalesce(row.value->>7, '{}'), s.sla_ms, s.expires_in_ms, row.value->>8
FROM jsonb_each(:rows) AS row CROSS JOIN
    -- include: shapes
;

-- The same of tasks that have all of one shape, as most have that come together: it is bound, and not looked up.
-- fragment: rows_alike
INSERT INTO tasks (
    id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms, updated_at,
    at_most_once, keyed, expires_at
)
SELECT
    value->>0, :tenant, :state, :queue, :host, :priority, value->>2, value->>3, value->>3, :max_attempts, :timeout_ms,
    value->>1, :at_most_once, value->>5 IS NOT NULL, value->>4
FROM jsonb_each(:rows) WHERE
    -- include: unless_limited
;
INSERT INTO task_details (id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload)
SELECT
    value->>0, :tenant, value->>1, value->>5, value->>6, :type, coalesce(value->>7, '{}'), :sla_ms, :expires_in_ms,
    value->>8
FROM jsonb_each(:rows) WHERE
    -- include: unless_limited
;

-- name: task_insert
    -- include: rows

-- name: task_insert_alike
    -- include: rows_alike

-- Both with what follows from it, their counts and event, in one step (store/one_step.py): all of it or, where a tenant
-- has a quota, nothing.
-- fragment: told
INSERT INTO counts (tenant, state, tasks)
SELECT value->>0, value->>1, value->>2 FROM json_each(:counts) WHERE true
ON CONFLICT (tenant, state) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
INSERT INTO events (at, upto, items)
SELECT :at, coalesce((SELECT upto FROM events ORDER BY sequence DESC LIMIT 1), 0) + :events, :items;

-- name: task_create
SELECT RAISE(ABORT, 'task_create') WHERE
    -- include: limited
;
    -- include: rows
    -- include: told

-- name: task_create_alike
SELECT RAISE(ABORT, 'task_create_alike') WHERE
    -- include: limited
;
    -- include: rows_alike
    -- include: told

-- Rows of new tasks with all that one can bring; a fire brings no payload, since its schedule has it. Rows:
-- `STATE_COLUMNS` and `DETAIL_COLUMNS` of store/task_rows.py in their order.
-- name: task_insert_whole
INSERT INTO tasks (
    id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms, updated_at,
    at_most_once, keyed, expires_at, completed_at, reason, payload_version, template_id, decide_by, after_id, late_at
)
SELECT
    value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9,
    value->>10, value->>11, value->>12, value->>13, value->>14, value->>15, value->>16, value->>17, value->>18,
    value->>19, value->>20, value->>21
FROM jsonb_each(:states) WHERE true;
INSERT INTO task_details (
    id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload, schedule_id, workflow_id, step
)
SELECT
    value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9,
    value->>10, value->>11, value->>12
FROM jsonb_each(:details) WHERE true;

-- What is sent from a later version on. Rows: id, version, payload.
-- name: payload_insert
INSERT INTO payloads (task_id, version, payload)
SELECT value->>0, value->>1, value->>2
FROM jsonb_each(:rows) WHERE true;

-- fragment: state
    'id', id, 'tenant', tenant, 'state', state, 'queue', queue, 'host', host, 'priority', priority,
    'run_at', run_at, 'due_at', due_at, 'wake_at', wake_at, 'max_attempts', max_attempts,
    'timeout_ms', timeout_ms, 'updated_at', updated_at, 'at_most_once', at_most_once, 'keyed', keyed,
    'expires_at', expires_at, 'attempt', attempt, 'series', series, 'series_base', series_base,
    'uncounted', uncounted, 'interruptions', interruptions, 'fence', fence, 'claim_id', claim_id,
    'claimed_from', claimed_from, 'node', node, 'epoch', epoch, 'incarnation', incarnation,
    'lease_until', lease_until, 'cancel_requested', cancel_requested, 'payload_version', payload_version,
    'version', version, 'picked_at', picked_at, 'started_at', started_at, 'completed_at', completed_at,
    'sla_met', sla_met, 'reason', reason, 'template_id', template_id, 'decide_by', decide_by, 'after_id', after_id

-- name: task_states
SELECT json_group_array(json_object(
    -- include: state
))
FROM (SELECT * FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id);

-- What a decision rests on: fires that are made ahead, and of others those that have not ended.
-- name: task_states_open
SELECT json_group_array(json_object(
    -- include: state
))
FROM (
    SELECT * FROM tasks WHERE id IN (SELECT value FROM json_each(:ahead))
    UNION ALL
    SELECT * FROM tasks WHERE id IN (SELECT value FROM json_each(:others)) AND state < 10
);

-- name: task_change
UPDATE tasks SET
    state = row.value->>'state', queue = row.value->>'queue', host = row.value->>'host',
    priority = row.value->>'priority', run_at = row.value->>'run_at', due_at = row.value->>'due_at',
    wake_at = row.value->>'wake_at', max_attempts = row.value->>'max_attempts',
    timeout_ms = row.value->>'timeout_ms', updated_at = row.value->>'updated_at',
    at_most_once = row.value->>'at_most_once', expires_at = row.value->>'expires_at',
    attempt = row.value->>'attempt', series = row.value->>'series',
    series_base = row.value->>'series_base', uncounted = row.value->>'uncounted',
    interruptions = row.value->>'interruptions', fence = row.value->>'fence',
    claim_id = row.value->>'claim_id', claimed_from = row.value->>'claimed_from', node = row.value->>'node',
    epoch = row.value->>'epoch', incarnation = row.value->>'incarnation',
    lease_until = row.value->>'lease_until', cancel_requested = row.value->>'cancel_requested',
    payload_version = row.value->>'payload_version', picked_at = row.value->>'picked_at',
    started_at = row.value->>'started_at', completed_at = row.value->>'completed_at',
    sla_met = row.value->>'sla_met', reason = row.value->>'reason', template_id = row.value->>'template_id',
    decide_by = row.value->>'decide_by', after_id = row.value->>'after_id', version = tasks.version + 1
FROM jsonb_each(:rows) AS row
WHERE tasks.id = row.value->>'id'
    AND tasks.version = row.value->>'version'
    AND tasks.state = row.value->>'from_state';

-- Finished tasks that are wanted back: here they are where they were.
-- name: task_take_back
SELECT 1 WHERE 0;

-- Which of these changes, by their place in the list, were made from a row that is no longer so.
-- name: task_change_stale
SELECT json_group_array(place) FROM (
    SELECT row.key AS place
    FROM jsonb_each(:rows) AS row
    LEFT JOIN tasks AS t
        ON t.id = row.value->>'id' AND t.version = row.value->>'version' AND t.state = row.value->>'from_state'
    WHERE t.id IS NULL
);

-- name: task_detail_change
UPDATE task_details SET
    name = row.value->>'name', type = row.value->>'type', tags = row.value->>'tags',
    sla_ms = row.value->>'sla_ms', expires_in_ms = row.value->>'expires_in_ms'
FROM jsonb_each(:rows) AS row
JOIN tasks AS t ON t.id = row.value->>'id'
WHERE task_details.tenant = t.tenant AND task_details.id = t.id;

-- name: task_by_key
SELECT json_group_array(id) FROM (
    SELECT id FROM task_details WHERE tenant = :tenant AND key = :key ORDER BY id DESC LIMIT 1
);

-- What a task sends: what it was made with, which lies with its details; else what it was changed to, or what its schedule
-- sends, which is looked up only then, since no row has NULL for its task.
-- fragment: payload
    coalesce(CASE WHEN t.payload_version = 1 THEN d.payload END, p.payload)

-- fragment: is_its_payload
    p.task_id = CASE WHEN t.payload_version > 1 OR d.payload IS NULL THEN coalesce(t.template_id, t.id) END
    AND p.version = t.payload_version

-- name: payload_latest
SELECT json_group_array(json_array(id, version, json(payload))) FROM (
    SELECT
        t.id, t.payload_version AS version,
    -- include: payload
        AS payload
    FROM tasks AS t JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
    LEFT JOIN payloads AS p ON
    -- include: is_its_payload
    WHERE t.id IN (SELECT value FROM json_each(:ids))
)
WHERE payload IS NOT NULL;

-- In the order asked for, the first one always, the others as far as they come to no more than so many characters.
-- name: payload_read
SELECT json_group_array(json_array(id, version, json(payload))) FROM (
    SELECT
        wanted.value->>0 AS id, wanted.value->>1 AS version, coalesce(d.payload, p.payload) AS payload,
        wanted.key AS place, sum(length(coalesce(d.payload, p.payload))) OVER (ORDER BY wanted.key) AS chars
    FROM jsonb_each(:keys) AS wanted
    LEFT JOIN tasks AS t ON t.id = CASE WHEN wanted.value->>1 = 1 THEN wanted.value->>0 END
    LEFT JOIN task_details AS d ON d.tenant = t.tenant AND d.id = t.id
    LEFT JOIN payloads AS p
        ON p.task_id = CASE WHEN d.payload IS NULL THEN wanted.value->>0 END AND p.version = wanted.value->>1
    WHERE coalesce(d.payload, p.payload) IS NOT NULL
)
WHERE chars <= :chars_max OR place = 0;

-- name: task_delete
DELETE FROM task_details
WHERE (tenant, id) IN (SELECT tenant, id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)));
DELETE FROM payloads WHERE task_id IN (SELECT value FROM json_each(:ids));
DELETE FROM attempts WHERE task_id IN (SELECT value FROM json_each(:ids));
DELETE FROM dead_letters WHERE task_id IN (SELECT value FROM json_each(:ids));
DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(:ids));
