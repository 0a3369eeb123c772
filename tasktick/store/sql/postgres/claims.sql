-- The life of an attempt: claim, end, rescue. States: 2 scheduled, 4 running, 5 retrying.
-- Where rows are looked up by their ids, no other way is to be left to the planner. Statistics say at times that a
-- table is empty: a vacuum that can clear nothing away, since a snapshot is open, finds no row alive. Then whatever
-- reads the table from one end to the other looks cheaper than looking up each id, and runs past all that is dead.
-- `state + 0`: the indexes of a state are of no use. `id = ANY (ARRAY[one])`: the key's index can be asked for it, row
-- by row, but to read it in its order, and compare that with the ids, is of no use. For the same reason what is locked is
-- put in the order of the ids that were given; and `OFFSET 0` keeps what is asked of a row from being asked of all at
-- once. Keys begin with the id, and those of schedules and of lines with its partition: there it is `partition_id = ANY`.
-- Details are looked up by their tenant, with which their key begins.

-- What an attempt needs to be made and to be ended (model/task.py, Claimed).
-- fragment: claimed
    hex_of(t.id), t.tenant, t.queue, t.host, t.attempt, t.fence, t.claim_id, t.payload_version, t.run_at, t.due_at,
    t.wake_at, t.lease_until, t.timeout_ms, t.max_attempts, t.series, t.series_base, t.uncounted,
    t.interruptions, t.claimed_from, t.at_most_once::integer, t.keyed::integer, d.sla_ms, t.started_at,
    t.expires_at, t.picked_at, t.epoch, t.priority, d.schedule_id, hex_of(t.template_id),
    t.late_at

-- fragment: owned
        AND (:partitions::text IS NULL OR partition_id IN (
            SELECT ('x' || value)::bit(8)::integer FROM json_array_elements_text(:partitions::text::json)
        ))

-- What is claimed, or will be, with what is to be sent, unless that is more than so many bytes, which are known without
-- counting its characters. Put together as text: the payloads would only be parsed to be written again. `encode` is
-- `hex_of`, in a third of the time.
-- fragment: taken
(
    SELECT concat(
        '[["', encode(uuid_send(t.id), 'hex'), '",', to_json(t.tenant), ',', to_json(t.queue), ',', to_json(t.host), ',', concat_ws(
            ',', t.attempt, t.fence, t.claim_id, t.payload_version, t.run_at, t.due_at, t.wake_at,
            coalesce(t.lease_until, 0), t.timeout_ms, t.max_attempts, t.series, t.series_base, t.uncounted,
            t.interruptions, t.claimed_from, t.at_most_once::integer, t.keyed::integer, d.sla_ms,
            coalesce(t.started_at::text, 'null'), coalesce(t.expires_at::text, 'null'), coalesce(t.picked_at, 0), t.epoch,
            t.priority, coalesce(to_json(d.schedule_id)::text, 'null'),
            coalesce('"' || hex_of(t.template_id) || '"', 'null'), coalesce(t.late_at::text, 'null')
        ), '],', CASE WHEN octet_length(
    -- include: tasks.payload
        ) <= :chars_max::integer THEN
    -- include: tasks.payload
        ELSE 'null' END, ']'
    )
    FROM task_details AS d
    -- include: tasks.and_payload
    WHERE d.tenant = t.tenant AND d.partition_id = t.partition_id AND d.id = t.id
    OFFSET 0
)

-- Whether the row is as it was when it was read ahead: nothing of it is read again then.
-- fragment: is_foreseen
t.version = owned.version + 1 AND t.wake_at = owned.wake_at AND t.late_at IS NOT DISTINCT FROM owned.late_at

-- What will be claimed soon, as a claim brings it; the row's version and state before that.
-- name: task_foreseen
SELECT '[' || string_agg(concat(
    '["', hex_of(id), '",', version, ',', state, ',', wake_at, ',', coalesce(late_at::text, 'null'), ',', taken, ']'
), ',') || ']'
FROM (
    SELECT t.id, t.version, t.state, t.wake_at, t.late_at,
    -- include: taken
    AS taken
    FROM (SELECT value::uuid AS id FROM json_array_elements_text(:ids::text::json) ORDER BY 1) AS wanted
    CROSS JOIN LATERAL (
        SELECT * FROM tasks
        WHERE partition_id = partition_of(wanted.id) AND id = wanted.id AND state + 0 IN (2, 5)
        OFFSET 0
    ) AS t
) AS soon;

-- A claim needs the live lease of the task's partition, the state before, and the due time (RULES: a task
-- that was moved must not be claimed at its old time). The fence grows for ever. A fire that its schedule has not
-- decided about goes only while there is nothing to decide: it is not late, and the one before it is not on its way.
-- What was due before the clock was set back is judged by when it was due: a clock that shows an earlier time decides
-- nothing.
-- A claim that is given back leaves that as it was.
-- The lease rows are held, in order, until the commit: nobody can acquire a partition past a claim that is under
-- way, and a claim waits for nobody who only renews. The tasks' rows are changed in order too, and each of them is
-- looked up once: what was claimed is what comes back. Epochs are given by partition, from 0 on, and which of these are
-- held is a bit each. What comes back: when, the ids of those that are as they were read ahead, and the others whole;
-- what is written of the first, `Foreseen.claimed` (model/task.py) says again.
-- name: task_claim
WITH asked AS MATERIALIZED (
    SELECT hex::uuid AS id, partition_of(hex::uuid) AS partition_id, version, wake_at, late_at
    FROM unnest(:rows__0::text[], :rows__4::bigint[], :rows__5::bigint[], :rows__6::bigint[])
        AS given (hex, version, wake_at, late_at)
), terms AS MATERIALIZED (
    SELECT :epochs::text::bigint[] AS epochs
), moment AS MATERIALIZED (
    SELECT :clock::bigint AS now
), leased AS MATERIALIZED (
    SELECT bit_or(B'1'::bit(256) >> held.partition_id) AS partitions FROM (
        SELECT partition_id FROM leases
        WHERE epoch = (SELECT epochs FROM terms)[partition_id + 1] AND incarnation = :incarnation::text
            AND EXISTS (
                SELECT 1 FROM nodes AS n
                WHERE n.incarnation = :incarnation::text AND n.beat >= :beat::bigint AND n.dead_at IS NULL
            )
            AND partition_id = ANY (ARRAY(SELECT DISTINCT asked.partition_id FROM asked))
        ORDER BY partition_id
        FOR KEY SHARE
    ) AS held
), owned AS MATERIALIZED (
    SELECT asked.*, terms.epochs[asked.partition_id + 1] AS epoch
    FROM asked CROSS JOIN terms CROSS JOIN leased
    WHERE get_bit(leased.partitions, asked.partition_id) = 1
    ORDER BY asked.partition_id, asked.id
), claimed AS (
    UPDATE tasks AS t SET
        claimed_from = t.state, state = 4, version = t.version + 1, updated_at = (SELECT now FROM moment),
        attempt = t.attempt + 1, fence = greatest(t.fence + 1, (SELECT now FROM moment)), claim_id = :claim_id::bigint,
        node = :node::text, incarnation = :incarnation::text, epoch = owned.epoch,
        lease_until = (SELECT now FROM moment) + :start_delay_ms::bigint + t.timeout_ms + :margin_ms::bigint,
        picked_at = (SELECT now FROM moment), cancel_requested = false
    FROM owned
    WHERE t.id = ANY (ARRAY[owned.id]) AND t.partition_id = owned.partition_id
        AND t.state + 0 IN (2, 5)
        AND (t.wake_at <= (SELECT now FROM moment) + :early_ms::bigint OR t.wake_at = (:was_due::text::json->>hex_of(t.id))::bigint)
        AND (t.expires_at IS NULL OR t.expires_at > (SELECT now FROM moment))
        AND (t.decide_by IS NULL OR t.decide_by > greatest(
            (SELECT now FROM moment), (:was_due::text::json->>hex_of(t.id))::bigint
        ) OR t.attempt > 0 OR NOT EXISTS (
            SELECT 1 FROM task_details AS d
            JOIN schedules AS s
                ON s.partition_id = ANY (ARRAY[partition_of(id_of(d.schedule_id))]) AND s.id = id_of(d.schedule_id)
            WHERE d.tenant = ANY (ARRAY[t.tenant]) AND d.id = t.id AND d.partition_id = t.partition_id
                AND s.next_id = t.id
            OFFSET 0
        ))
        AND (t.after_id IS NULL OR t.attempt > 0 OR NOT EXISTS (
            SELECT 1 FROM tasks AS earlier
            WHERE earlier.id = ANY (ARRAY[t.after_id]) AND earlier.partition_id = partition_of(t.after_id)
                AND (
                    earlier.state IN (1, 4, 5, 7)
                    OR (earlier.state = 2 AND earlier.due_at <= greatest(
                        (SELECT now FROM moment) + :early_ms::bigint, (:was_due::text::json->>hex_of(t.id))::bigint
                    ))
                )
            OFFSET 0
        ))
    RETURNING
        CASE WHEN
        -- include: is_foreseen
        THEN encode(uuid_send(t.id), 'hex') END AS foreseen,
        CASE WHEN
        -- include: is_foreseen
        THEN NULL ELSE
        -- include: taken
        END AS taken
)
SELECT concat(
    '[[', (SELECT now FROM moment), ',"', string_agg(foreseen, ''), '",[', string_agg(taken, ','), ']]]'
) FROM claimed;

-- What was claimed by an earlier try of this very claim. One that is named twice is one.
-- name: task_claimed
SELECT '[' || string_agg(taken, ',') || ']' FROM (
    SELECT
    -- include: taken
    AS taken
    FROM (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(:ids::text::json) ORDER BY 1) AS wanted
    CROSS JOIN LATERAL (
        SELECT * FROM tasks
        WHERE partition_id = partition_of(wanted.id) AND id = wanted.id
            AND state + 0 = 4 AND claim_id = :claim_id::bigint
        OFFSET 0
    ) AS t
) AS claimed;

-- Which of these attempts, by their place in the list, may not simply end: their guard fails, or they were
-- asked to cancel. By place, since a stale end and the live one of the same task may stand in one list.
-- Rows: id, fence, claim_id, expired_by, schedule_id. What is found holds until the commit: the rows are locked
-- first, in order, those of schedules before those of tasks.
-- name: task_end_check
SELECT 1 FROM (
    SELECT DISTINCT id_of(row->>4) AS id FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
) AS given
JOIN schedules AS s ON s.partition_id = ANY (ARRAY[partition_of(given.id)]) AND s.id = given.id
ORDER BY partition_of(given.id), given.id
FOR NO KEY UPDATE OF s;
SELECT 1 FROM (
    SELECT DISTINCT (row->>0)::uuid AS id FROM jsonb_array_elements(:rows::text::jsonb) AS given (row)
) AS given
JOIN tasks AS t ON t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
ORDER BY partition_of(given.id), given.id
FOR NO KEY UPDATE OF t;
SELECT json_agg(json_build_array(place, live, cancel, reason)) FROM (
    SELECT
        given.place - 1 AS place,
        t.id IS NOT NULL AS live,
        coalesce(t.cancel_requested, false) AS cancel,
        t.reason
    FROM jsonb_array_elements(:rows::text::jsonb) WITH ORDINALITY AS given (row, place)
    LEFT JOIN tasks AS t
        ON t.id = ANY (ARRAY[(row->>0)::uuid]) AND t.partition_id = partition_of((row->>0)::uuid) AND t.state + 0 = 4
        AND t.fence = (row->>1)::bigint AND t.claim_id = (row->>2)::bigint
        AND (
            row->>3 IS NULL
            OR t.lease_until <= least((row->>3)::bigint, :clock::bigint)
            OR EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = t.incarnation AND n.dead_at IS NOT NULL)
        )
) AS found
WHERE NOT live OR cancel;

-- With the rows of their attempts, each made of the task's row that has been changed. Ends: id, fence, now, started_at,
-- of the attempt started_at, and which shape is its own; a shape is what many have in common: claim_id, sla_met, and of
-- the attempt node, status, response_headers, response_body, response_encoding, truncated. As arrays, as in tasks.sql.
-- Who runs it undoes it where it does not change every row.
-- name: task_succeed
WITH given AS MATERIALIZED (
    SELECT
        hex::uuid AS id, fence, now, first_started_at, began_at, (:shapes__0::bigint[])[shape + 1] AS claim_id,
        (:shapes__1::boolean[])[shape + 1] AS sla_met, (:shapes__2::text[])[shape + 1] AS sent_by,
        (:shapes__3::integer[])[shape + 1] AS status, (:shapes__4::text[])[shape + 1] AS headers,
        (:shapes__5::text[])[shape + 1] AS body, (:shapes__6::text[])[shape + 1] AS encoding,
        (:shapes__7::boolean[])[shape + 1] AS truncated
    FROM unnest(
        :ends__0__joined::text::text[], :ends__1__joined::text::bigint[], :ends__2__joined::text::bigint[],
        :ends__3__joined::text::bigint[], :ends__4__joined::text::bigint[], :ends__5__joined::text::integer[]
    ) AS ends (hex, fence, now, first_started_at, began_at, shape)
    ORDER BY partition_of(hex::uuid), hex::uuid
), ended AS (
    UPDATE tasks AS t SET
        state = 10, version = t.version + 1, updated_at = given.now, interruptions = 0,
        started_at = given.first_started_at, sla_met = coalesce(t.sla_met, given.sla_met), completed_at = given.now,
        reason = NULL, lease_until = NULL, cancel_requested = false
    FROM given
    WHERE t.id = ANY (ARRAY[given.id]) AND t.partition_id = partition_of(given.id)
        AND t.state + 0 = 4 AND t.fence = given.fence AND t.claim_id = given.claim_id
    RETURNING
        t.partition_id, t.id, t.attempt, t.series, t.fence, t.picked_at, given.began_at, given.now, given.sent_by,
        t.epoch, given.status, given.headers, given.body, given.encoding, given.truncated
)
INSERT INTO attempts (
    partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
    response_headers, response_body, response_encoding, truncated
)
SELECT
    partition_id, id, attempt, series, fence, 'succeeded', picked_at, began_at, now, sent_by, epoch, status, headers,
    body, encoding, truncated
FROM ended;

-- Rows: id, fence, claim_id, state, now, attempt, due_at, new_fence, interruptions, uncounted, started_at,
-- sla_met, completed_at, reason. The rows are locked by task_end_check.
-- name: task_end
WITH given AS MATERIALIZED (
    SELECT
        (row->>0)::uuid AS id, (row->>1)::bigint AS fence, (row->>2)::bigint AS claim_id,
        (row->>3)::smallint AS state, (row->>4)::bigint AS now, (row->>5)::integer AS attempt,
        (row->>6)::bigint AS due_at, (row->>7)::bigint AS new_fence, (row->>8)::integer AS interruptions,
        (row->>9)::integer AS uncounted, (row->>10)::bigint AS started_at, (row->>11)::boolean AS sla_met,
        (row->>12)::bigint AS completed_at, row->>13 AS reason
    FROM jsonb_array_elements(:rows::text::jsonb) AS rows (row)
)
UPDATE tasks SET
    state = given.state, version = tasks.version + 1, updated_at = given.now, attempt = given.attempt,
    due_at = coalesce(given.due_at, tasks.due_at),
    wake_at = coalesce(given.due_at, tasks.wake_at),
    fence = coalesce(given.new_fence, tasks.fence),
    interruptions = given.interruptions, uncounted = given.uncounted, started_at = given.started_at,
    sla_met = coalesce(tasks.sla_met, given.sla_met), completed_at = given.completed_at, reason = given.reason,
    lease_until = NULL, cancel_requested = false
FROM given
WHERE tasks.id = ANY (ARRAY[given.id]) AND tasks.partition_id = partition_of(given.id) AND tasks.state + 0 = 4
    AND tasks.fence = given.fence AND tasks.claim_id = given.claim_id;

-- Rows: the fields of model/attempt.py, AttemptRow, in their order.
-- name: attempt_insert
INSERT INTO attempts (
    partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
    error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
)
SELECT
    partition_of((row->>0)::uuid), (row->>0)::uuid, (row->>1)::integer, (row->>2)::integer, (row->>3)::bigint,
    row->>4, (row->>5)::bigint, (row->>6)::bigint, (row->>7)::bigint, row->>8, (row->>9)::bigint,
    (row->>10)::integer, row->>11, row->>12, row->>13, row->>14, row->>15, row->>16, (row->>17)::boolean
FROM jsonb_array_elements(:rows::text::jsonb) AS given (row);

-- Attempts whose lease has passed; never those in the asker's own hands, which its own deadline ends.
-- name: task_expired_leases
SELECT json_agg(json_build_array(
    -- include: claimed
) ORDER BY t.lease_until, t.id)
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND lease_until <= :clock::bigint
        AND lease_until > :since::bigint
        AND id NOT IN (SELECT value::uuid FROM json_array_elements_text(:own::text::json))
    -- include: owned
    ORDER BY lease_until, id LIMIT :limit::bigint
) AS t
CROSS JOIN LATERAL (
    SELECT * FROM task_details
    WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
    OFFSET 0
) AS d;

-- Attempts of processes that are proven dead: nobody is sending them, so nobody needs to wait for their lease.
-- name: task_orphans
SELECT json_agg(json_build_array(
    -- include: claimed
) ORDER BY t.lease_until, t.id)
FROM (
    SELECT * FROM tasks
    WHERE state = 4
        AND incarnation IN (SELECT incarnation FROM nodes WHERE dead_at IS NOT NULL)
    -- include: owned
    ORDER BY lease_until, id LIMIT :limit::bigint
) AS t
CROSS JOIN LATERAL (
    SELECT * FROM task_details
    WHERE tenant = t.tenant AND partition_id = t.partition_id AND id = t.id
    OFFSET 0
) AS d;
