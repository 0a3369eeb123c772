-- Tasks: the slim state row, its details with what it was made with, and in `payloads` what it was changed to later.
-- Every row parameter is a JSON array of objects or, where columns are said to have an order, of arrays; every result
-- one JSON array in one cell.
-- `state + 0` and `id = ANY (ARRAY[one])` where rows are looked up by their ids: as in claims.sql.

-- The columns of a task's row, in their order.
-- fragment: columns
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, at_most_once, keyed, expires_at, attempt, series, series_base, uncounted, interruptions, fence,
    claim_id, claimed_from, node, epoch, incarnation, lease_until, cancel_requested, payload_version, version,
    picked_at, started_at, completed_at, sla_met, reason, template_id, decide_by, after_id, late_at

-- None of the rows of new tasks, if a tenant of those that are `unlimited` has a quota: nobody needs to ask for that
-- before.
-- fragment: limited
WITH limited AS MATERIALIZED (
    SELECT 1 FROM tenants
    WHERE max_pending IS NOT NULL AND name IN (SELECT value FROM json_array_elements_text(:unlimited::text::json))
)

-- What is each one's own, an array for each column, which costs a server two thirds of what it costs it to read JSON:
-- `ROW` of store/task_rows.py in its order. Of numbers and ids the text of an array is made in a third of the time that
-- it takes the driver to make the array. What all of them have is sent once (`__alike`), and no array of it (`__apart`);
-- nor is one of when they are due where that is when they run, as mostly it is (`__unlike_2`).
-- fragment: own
        :rows__0__joined::text::text[], :rows__1__apart::bigint[], :rows__2__joined::text::bigint[],
        :rows__3__unlike_2::bigint[], :rows__4::bigint[], :rows__5::text[], :rows__6__apart::text[], :rows__7::text[],
        :rows__8__json::text[]

-- fragment: columns_of_one
        coalesce(one.updated_at, :rows__1__alike::bigint) AS updated_at, one.run_at,
        coalesce(one.due_at, one.run_at) AS due_at, one.expires_at, one.key,
        coalesce(one.name, :rows__6__alike::text) AS name, one.tags, one.payload

-- fragment: given
    SELECT partition_of(hex::uuid) AS partition_id, hex::uuid AS id, one.shape,
    -- include: columns_of_one
    FROM unnest(
    -- include: own
        , :rows__9::integer[]
    ) AS one (hex, updated_at, run_at, due_at, expires_at, key, name, tags, payload, shape)
    WHERE NOT EXISTS (SELECT 1 FROM limited)

-- fragment: given_alike
    SELECT partition_of(hex::uuid) AS partition_id, hex::uuid AS id,
    -- include: columns_of_one
    FROM unnest(
    -- include: own
    ) AS one (hex, updated_at, run_at, due_at, expires_at, key, name, tags, payload)
    WHERE NOT EXISTS (SELECT 1 FROM limited)

-- fragment: states
states AS (
    INSERT INTO tasks (
        partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
        updated_at, at_most_once, keyed, expires_at
    )
    SELECT
        partition_id, id, (:shapes__0::text[])[shape + 1], (:shapes__1::smallint[])[shape + 1],
        (:shapes__2::text[])[shape + 1], (:shapes__3::text[])[shape + 1], (:shapes__4::integer[])[shape + 1], run_at,
        due_at, due_at, (:shapes__5::integer[])[shape + 1], (:shapes__6::bigint[])[shape + 1], updated_at,
        (:shapes__7::boolean[])[shape + 1], key IS NOT NULL, expires_at
    FROM given
)

-- fragment: details
INSERT INTO task_details (
    partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload
)
SELECT
    partition_id, id, (:shapes__0::text[])[shape + 1], updated_at, key, name, (:shapes__8::text[])[shape + 1],
    coalesce(tags, '{}'), (:shapes__9::bigint[])[shape + 1], (:shapes__10::bigint[])[shape + 1],
    payload
FROM given

-- fragment: states_alike
states AS (
    INSERT INTO tasks (
        partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
        updated_at, at_most_once, keyed, expires_at
    )
    SELECT
        partition_id, id, :tenant::text, :state::smallint, :queue::text, :host::text, :priority::integer, run_at,
        due_at, due_at, :max_attempts::integer, :timeout_ms::bigint, updated_at, :at_most_once::boolean,
        key IS NOT NULL, expires_at
    FROM given
)

-- fragment: details_alike
INSERT INTO task_details (
    partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload
)
SELECT
    partition_id, id, :tenant::text, updated_at, key, name, :type::text, coalesce(tags, '{}'),
    :sla_ms::bigint, :expires_in_ms::bigint, payload
FROM given

-- The two rows of new tasks, in one statement. What they share is read once: `SHAPE` of store/task_rows.py, an array
-- for each column, in which a row says its place.
-- name: task_insert
    -- include: limited
, given AS MATERIALIZED (
    -- include: given
),
    -- include: states
    -- include: details
;

-- The same of tasks that have all of one shape, as most have that come together.
-- name: task_insert_alike
    -- include: limited
, given AS MATERIALIZED (
    -- include: given_alike
),
    -- include: states_alike
    -- include: details_alike
;

-- Both as a statement that is a transaction by itself, with its mark, counts and event: how many were inserted. All, or
-- none: where a tenant has a quota, and where this mark was passed over, so that it is certain that it never will be. The
-- mark is there if, and only if, the rows are.
-- Rows that others contend for are locked until the commit, which nobody has to ask for; parts of a statement that
-- nothing reads are carried out from the last to the first, so that these come last.
-- fragment: marked
marked AS (
    INSERT INTO marks (writer, mark) SELECT :writer::text, :mark::bigint WHERE NOT EXISTS (SELECT 1 FROM limited)
    ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, marked_at = now() WHERE marks.mark < excluded.mark
    RETURNING mark
)

-- fragment: told
told AS (
    INSERT INTO event_inbox (at, events, items)
    SELECT :at::bigint, :events::bigint, :items::text WHERE EXISTS (SELECT 1 FROM given)
), counted AS (
    INSERT INTO counts (tenant, state, slot, tasks)
    SELECT row->>0, (row->>1)::smallint, pg_backend_pid() % 16, (row->>2)::bigint
    FROM jsonb_array_elements(:counts::text::jsonb) AS added (row)
    WHERE EXISTS (SELECT 1 FROM given)
    ON CONFLICT (tenant, state, slot) DO UPDATE SET tasks = counts.tasks + excluded.tasks
)

-- name: task_create
    -- include: limited
,
    -- include: marked
, given AS MATERIALIZED (
    -- include: given
        AND EXISTS (SELECT 1 FROM marked)
),
    -- include: told
,
    -- include: states
, described AS (
    -- include: details
)
SELECT json_build_array(count(*)) FROM given;

-- name: task_create_alike
    -- include: limited
,
    -- include: marked
, given AS MATERIALIZED (
    -- include: given_alike
        AND EXISTS (SELECT 1 FROM marked)
),
    -- include: told
,
    -- include: states_alike
, described AS (
    -- include: details_alike
)
SELECT json_build_array(count(*)) FROM given;

-- Rows of new tasks with all that one can bring; a fire brings no payload, since its schedule has it. Rows:
-- `STATE_COLUMNS` and `DETAIL_COLUMNS` of store/task_rows.py in their order.
-- name: task_insert_whole
WITH states AS (
    INSERT INTO tasks (
        partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
        updated_at, at_most_once, keyed, expires_at, completed_at, reason, payload_version, template_id, decide_by,
        after_id, late_at
    )
    SELECT
        partition_of((row->>0)::uuid), (row->>0)::uuid, row->>1, (row->>2)::smallint, row->>3, row->>4,
        (row->>5)::integer, (row->>6)::bigint, (row->>7)::bigint, (row->>8)::bigint, (row->>9)::integer,
        (row->>10)::bigint, (row->>11)::bigint, (row->>12)::boolean, (row->>13)::boolean, (row->>14)::bigint,
        (row->>15)::bigint, row->>16, (row->>17)::integer, (row->>18)::uuid, (row->>19)::bigint, (row->>20)::uuid,
        (row->>21)::bigint
    FROM jsonb_array_elements(:states::text::jsonb) AS given (row)
)
INSERT INTO task_details (
    partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, payload, schedule_id,
    workflow_id, step
)
SELECT
    partition_of((row->>0)::uuid), (row->>0)::uuid, row->>1, (row->>2)::bigint, row->>3, row->>4, row->>5,
    row->>6, (row->>7)::bigint, (row->>8)::bigint, row->>9, row->>10, row->>11, row->>12
FROM jsonb_array_elements(:details::text::jsonb) AS given (row);

-- What is sent from a later version on. Rows: id, version, payload.
-- name: payload_insert
INSERT INTO payloads (partition_id, task_id, version, payload)
SELECT partition_of((row->>0)::uuid), (row->>0)::uuid, (row->>1)::integer, row->>2
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row);

-- fragment: state
    'id', hex_of(t.id), 'tenant', t.tenant, 'state', t.state, 'queue', t.queue, 'host', t.host,
    'priority', t.priority, 'run_at', t.run_at, 'due_at', t.due_at, 'wake_at', t.wake_at,
    'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'updated_at', t.updated_at,
    'at_most_once', t.at_most_once, 'keyed', t.keyed, 'expires_at', t.expires_at, 'attempt', t.attempt,
    'series', t.series, 'series_base', t.series_base, 'uncounted', t.uncounted,
    'interruptions', t.interruptions, 'fence', t.fence, 'claim_id', t.claim_id,
    'claimed_from', t.claimed_from, 'node', t.node, 'epoch', t.epoch, 'incarnation', t.incarnation,
    'lease_until', t.lease_until, 'cancel_requested', t.cancel_requested,
    'payload_version', t.payload_version, 'version', t.version, 'picked_at', t.picked_at,
    'started_at', t.started_at, 'completed_at', t.completed_at, 'sla_met', t.sla_met, 'reason', t.reason,
    'template_id', hex_of(t.template_id), 'decide_by', t.decide_by, 'after_id', hex_of(t.after_id)

-- History is looked into for those alone that are not in the hot table.
-- name: task_states
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json)
), hot AS MATERIALIZED (
    SELECT t.* FROM wanted JOIN tasks AS t ON t.id = ANY (ARRAY[wanted.id]) AND t.partition_id = partition_of(wanted.id)
)
SELECT json_agg(json_build_object(
    -- include: state
) ORDER BY t.id)
FROM (
    SELECT * FROM hot
    UNION ALL
    SELECT past.* FROM wanted
    CROSS JOIN LATERAL (
        SELECT
            -- include: columns
        FROM finished_tasks
        WHERE partition_id = partition_of(wanted.id) AND id = wanted.id
            AND ended_at >= id_at(wanted.id) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    ) AS past
    WHERE wanted.id NOT IN (SELECT hot.id FROM hot)
) AS t;

-- What a decision rests on: fires that are made ahead, and of others those that have not ended, which are not in history.
-- name: task_states_open
WITH ahead AS MATERIALIZED (
    SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ahead::text::json)
), hot AS MATERIALIZED (
    SELECT t.* FROM ahead JOIN tasks AS t ON t.id = ANY (ARRAY[ahead.id]) AND t.partition_id = partition_of(ahead.id)
)
SELECT json_agg(json_build_object(
    -- include: state
))
FROM (
    SELECT * FROM hot
    UNION ALL
    SELECT past.* FROM ahead
    CROSS JOIN LATERAL (
        SELECT
            -- include: columns
        FROM finished_tasks
        WHERE partition_id = partition_of(ahead.id) AND id = ahead.id
            AND ended_at >= id_at(ahead.id) AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    ) AS past
    WHERE ahead.id NOT IN (SELECT hot.id FROM hot)
    UNION ALL
    SELECT t.* FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:others::text::json)) AS others
    JOIN tasks AS t ON t.id = ANY (ARRAY[others.id]) AND t.partition_id = partition_of(others.id)
    WHERE t.state + 0 < 10
) AS t;

-- The rows are locked by task_change_stale.
-- name: task_change
UPDATE tasks SET
    state = given.state, queue = given.queue, host = given.host, priority = given.priority,
    run_at = given.run_at, due_at = given.due_at, wake_at = given.wake_at, max_attempts = given.max_attempts,
    timeout_ms = given.timeout_ms, updated_at = given.updated_at, at_most_once = given.at_most_once,
    expires_at = given.expires_at, attempt = given.attempt, series = given.series,
    series_base = given.series_base, uncounted = given.uncounted, interruptions = given.interruptions,
    fence = given.fence, claim_id = given.claim_id, claimed_from = given.claimed_from, node = given.node,
    epoch = given.epoch, incarnation = given.incarnation, lease_until = given.lease_until,
    cancel_requested = given.cancel_requested, payload_version = given.payload_version,
    picked_at = given.picked_at, started_at = given.started_at, completed_at = given.completed_at,
    sla_met = given.sla_met, reason = given.reason, template_id = given.template_id,
    decide_by = given.decide_by, after_id = given.after_id, version = tasks.version + 1
FROM json_to_recordset(:rows::text::json) AS given (
    id uuid, version integer, from_state smallint, state smallint, queue text, host text, priority integer,
    run_at bigint, due_at bigint, wake_at bigint, max_attempts integer, timeout_ms bigint, updated_at bigint,
    at_most_once boolean, expires_at bigint, attempt integer, series integer, series_base integer,
    uncounted integer, interruptions integer, fence bigint, claim_id bigint, claimed_from smallint, node text,
    epoch bigint, incarnation text, lease_until bigint, cancel_requested boolean, payload_version integer,
    picked_at bigint, started_at bigint, completed_at bigint, sla_met boolean, reason text, template_id uuid,
    decide_by bigint, after_id uuid
)
WHERE tasks.id = ANY (ARRAY[given.id]) AND tasks.partition_id = partition_of(given.id)
    AND tasks.version = given.version AND tasks.state + 0 = given.from_state;

-- Finished tasks that are wanted back in the hot tables. Who is just being moved is waited for; a day's row keeps the
-- day from being dropped meanwhile. What is in the hot tables is locked, and stays.
-- name: task_take_back
SELECT 1 FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json)) AS wanted
JOIN tasks AS t ON t.id = ANY (ARRAY[wanted.id]) AND t.partition_id = partition_of(wanted.id)
ORDER BY partition_of(wanted.id), wanted.id
FOR NO KEY UPDATE OF t;
SELECT 1 FROM history_days
WHERE NOT gone AND from_at IN (
    SELECT t.ended_at - t.ended_at % 86400000 FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    JOIN finished_tasks AS t
        ON t.partition_id = ANY (ARRAY[partition_of(wanted.id::uuid)]) AND t.id = wanted.id::uuid
        AND t.ended_at >= id_at(wanted.id::uuid) AND t.ended_at >= (SELECT gone_before FROM history WHERE only_one)
)
ORDER BY from_at
FOR SHARE;
WITH wanted AS MATERIALIZED (
    SELECT value::uuid AS id FROM json_array_elements_text(:ids::text::json) ORDER BY 1
), gone AS (
    DELETE FROM finished_tasks USING wanted
    WHERE finished_tasks.partition_id = partition_of(wanted.id) AND finished_tasks.id = wanted.id
        AND finished_tasks.ended_at >= id_at(wanted.id)
        AND finished_tasks.ended_at >= (SELECT gone_before FROM history WHERE only_one)
    RETURNING finished_tasks.*
), attempts_gone AS (
    DELETE FROM finished_attempts USING gone
    WHERE finished_attempts.partition_id = gone.partition_id AND finished_attempts.task_id = gone.id
        AND finished_attempts.ended_at = gone.ended_at
    RETURNING finished_attempts.*
), details AS (
    INSERT INTO task_details (
        partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
        step, payload
    )
    SELECT
        partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
        step, CASE WHEN payload_version = 1 THEN payload END
    FROM gone
), sent AS (
    INSERT INTO payloads (partition_id, task_id, version, payload)
    SELECT partition_id, id, payload_version, payload FROM gone WHERE payload IS NOT NULL AND payload_version <> 1
), tried AS (
    INSERT INTO attempts (
        partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
        error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
    )
    SELECT
        partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
        error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
    FROM attempts_gone
), counted AS (
    INSERT INTO history_counts (from_at, tenant, state, tasks)
    SELECT ended_at - ended_at % 86400000, tenant, state, -count(*) FROM gone GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (from_at, tenant, state) DO UPDATE SET tasks = history_counts.tasks + excluded.tasks
)
INSERT INTO tasks (
    -- include: columns
)
SELECT
    -- include: columns
FROM gone;

-- Which of these changes, by their place in the list, were made from a row that is no longer so. What is found holds
-- until the commit: the rows are locked first, in order.
-- name: task_change_stale
SELECT 1 FROM (SELECT DISTINCT id FROM json_to_recordset(:rows::text::json) AS rows (id uuid)) AS given
JOIN tasks AS t ON t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
ORDER BY partition_of(given.id), given.id
FOR NO KEY UPDATE OF t;
SELECT json_agg(given.place - 1)
FROM jsonb_array_elements(:rows::text::jsonb) WITH ORDINALITY AS given (row, place)
LEFT JOIN tasks AS t
    ON t.id = ANY (ARRAY[(given.row->>'id')::uuid]) AND t.partition_id = partition_of((given.row->>'id')::uuid)
    AND t.version = (given.row->>'version')::integer AND t.state + 0 = (given.row->>'from_state')::smallint
WHERE t.id IS NULL;

-- name: task_detail_change
UPDATE task_details SET
    name = given.name, type = given.type, tags = given.tags, sla_ms = given.sla_ms,
    expires_in_ms = given.expires_in_ms
FROM (
    SELECT one.*, t.tenant, t.partition_id
    FROM json_to_recordset(:rows::text::json) AS one (
        id uuid, name text, type text, tags text, sla_ms bigint, expires_in_ms bigint
    )
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(one.id) AND id = one.id
        OFFSET 0
    ) AS t
    OFFSET 0
) AS given
WHERE task_details.tenant = ANY (ARRAY[given.tenant])
    AND task_details.id = given.id AND task_details.partition_id = given.partition_id;

-- name: task_by_key
SELECT json_agg(hex_of(id)) FROM (
    SELECT id FROM all_details
    WHERE tenant = :tenant::text AND key = :key::text AND ended_at >= (SELECT gone_before FROM history WHERE only_one)
    ORDER BY id DESC LIMIT 1
) AS last;

-- What a task sends: what it was made with, which lies with its details; else what it was changed to, or what its schedule
-- sends, which is looked up only then.
-- fragment: payload
    coalesce(CASE WHEN t.payload_version = 1 THEN d.payload END, p.payload)

-- fragment: and_payload
LEFT JOIN LATERAL (
    SELECT payload FROM payloads
    WHERE (t.payload_version > 1 OR d.payload IS NULL) AND partition_id = partition_of(coalesce(t.template_id, t.id))
        AND task_id = coalesce(t.template_id, t.id) AND version = t.payload_version
    OFFSET 0
) AS p ON true

-- name: payload_latest
SELECT json_agg(json_build_array(hex_of(id), version, payload::json)) FROM (
    SELECT
        t.id, t.payload_version AS version,
    -- include: payload
        AS payload
    FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    JOIN tasks AS t ON t.id = ANY (ARRAY[wanted.id::uuid]) AND t.partition_id = partition_of(wanted.id::uuid)
    CROSS JOIN LATERAL (
        SELECT payload FROM task_details
        WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
        OFFSET 0
    ) AS d
    -- include: and_payload
) AS latest
WHERE payload IS NOT NULL;

-- In the order asked for, the first one always, the others as far as they come to no more than so many characters.
-- name: payload_read
SELECT json_agg(json_build_array(hex_of(id), version, payload::json) ORDER BY place) FROM (
    SELECT
        wanted.id, wanted.version, found.payload, wanted.place,
        sum(length(found.payload)) OVER (ORDER BY wanted.place) AS chars
    FROM (
        SELECT (key->>0)::uuid AS id, (key->>1)::integer AS version, place
        FROM jsonb_array_elements(:keys::text::jsonb) WITH ORDINALITY AS given (key, place)
    ) AS wanted
    LEFT JOIN LATERAL (
        SELECT d.payload FROM tasks AS t
        JOIN task_details AS d ON d.tenant = ANY (ARRAY[t.tenant]) AND d.id = t.id AND d.partition_id = t.partition_id
        WHERE wanted.version = 1 AND t.partition_id = partition_of(wanted.id) AND t.id = wanted.id
        OFFSET 0
    ) AS made ON true
    LEFT JOIN LATERAL (
        SELECT payload FROM payloads
        WHERE made.payload IS NULL AND partition_id = partition_of(wanted.id) AND task_id = wanted.id
            AND version = wanted.version
        OFFSET 0
    ) AS p ON true
    CROSS JOIN LATERAL (SELECT coalesce(made.payload, p.payload) AS payload) AS found
    WHERE found.payload IS NOT NULL
) AS read
WHERE chars <= :chars_max::bigint OR place = 1;

-- Rows: id, state. A task that is in another state by now stays, and then nobody goes.
-- name: task_delete
DELETE FROM task_details
USING (
    SELECT t.tenant, t.partition_id, t.id FROM json_array_elements_text(:ids::text::json) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT * FROM tasks WHERE partition_id = partition_of(wanted.id::uuid) AND id = wanted.id::uuid
        OFFSET 0
    ) AS t
    OFFSET 0
) AS t
WHERE task_details.tenant = ANY (ARRAY[t.tenant])
    AND task_details.id = t.id AND task_details.partition_id = t.partition_id;
DELETE FROM payloads USING json_array_elements_text(:ids::text::json) AS wanted (id)
WHERE payloads.task_id = ANY (ARRAY[wanted.id::uuid]) AND payloads.partition_id = partition_of(wanted.id::uuid);
DELETE FROM attempts USING json_array_elements_text(:ids::text::json) AS wanted (id)
WHERE attempts.task_id = ANY (ARRAY[wanted.id::uuid]) AND attempts.partition_id = partition_of(wanted.id::uuid);
DELETE FROM dead_letters
WHERE task_id IN (SELECT value::uuid FROM json_array_elements_text(:ids::text::json));
DELETE FROM tasks USING jsonb_array_elements(:rows::text::jsonb) AS given (row)
WHERE tasks.id = ANY (ARRAY[(row->>0)::uuid]) AND tasks.partition_id = partition_of((row->>0)::uuid)
    AND tasks.state + 0 = (row->>1)::smallint;
