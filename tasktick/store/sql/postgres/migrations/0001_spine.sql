-- min_reader: 1
-- The spine: tasks and what belongs to them. Times are Unix milliseconds; states and flags are as in
-- model/state.py. Ids are the same 32 hex characters, kept as uuid; their last byte is the partition, with which
-- the keys of what grows with the tasks begin, so that these tables can be distributed by it.
-- Text is compared byte by byte ("C"), whatever the database's locale: order and keys are then everywhere the same.

-- The partition that an id carries.
CREATE FUNCTION partition_of(id uuid) RETURNS smallint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT get_byte(uuid_send($1), 15)::smallint';

-- An id as the program writes it.
CREATE FUNCTION hex_of(id uuid) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT replace($1::text, ''-'', '''')';

-- The id that a text is; NULL where it is none.
CREATE FUNCTION id_of(hex text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT CASE WHEN $1 ~ ''^[0-9a-f]{32}$'' THEN $1::uuid END';

-- Where a page begins: at an id, before all of them (''), or after all of them ('~').
CREATE FUNCTION edge_of(beyond text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT CASE $1
    WHEN '''' THEN ''00000000-0000-0000-0000-000000000000''::uuid
    WHEN ''~'' THEN ''ffffffff-ffff-ffff-ffff-ffffffffffff''::uuid
    ELSE $1::uuid
END';

-- The slim row: what changes with each step of a task's life, and nothing else. A page keeps room for the next
-- version of its rows, and what is left of the old ones is cleared away early.
CREATE TABLE tasks (
    partition_id smallint NOT NULL,
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    run_at bigint NOT NULL,
    due_at bigint NOT NULL,
    wake_at bigint NOT NULL,
    max_attempts integer NOT NULL,
    timeout_ms bigint NOT NULL,
    updated_at bigint NOT NULL,
    at_most_once boolean NOT NULL DEFAULT false,
    keyed boolean NOT NULL DEFAULT false,
    expires_at bigint,
    attempt integer NOT NULL DEFAULT 0,
    series integer NOT NULL DEFAULT 1,
    series_base integer NOT NULL DEFAULT 0,
    uncounted integer NOT NULL DEFAULT 0,
    interruptions integer NOT NULL DEFAULT 0,
    fence bigint NOT NULL DEFAULT 0,
    claim_id bigint NOT NULL DEFAULT 0,
    claimed_from smallint NOT NULL DEFAULT 0,
    node text COLLATE "C",
    epoch bigint NOT NULL DEFAULT 0,
    incarnation text COLLATE "C",
    lease_until bigint,
    cancel_requested boolean NOT NULL DEFAULT false,
    payload_version integer NOT NULL DEFAULT 1,
    version integer NOT NULL DEFAULT 1,
    picked_at bigint,
    started_at bigint,
    completed_at bigint,
    sla_met boolean,
    reason text COLLATE "C",
    PRIMARY KEY (partition_id, id),
    CHECK (partition_id = partition_of(id))
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
-- Waiting tasks by the time at which they want to be looked at (state 2 scheduled, 5 retrying).
CREATE INDEX tasks_waiting ON tasks (wake_at, id) WHERE state IN (2, 5);
-- Running ones by the end of their lease (state 4).
CREATE INDEX tasks_running ON tasks (lease_until, id) WHERE state = 4;
-- Those that must start by a time.
CREATE INDEX tasks_expiring ON tasks (expires_at, id) WHERE expires_at IS NOT NULL AND state IN (2, 5);
-- Finished ones by when (state 10 and above), for retention.
CREATE INDEX tasks_finished ON tasks (completed_at, id) WHERE state >= 10;

CREATE TABLE task_details (
    partition_id smallint NOT NULL,
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    key text COLLATE "C",
    name text COLLATE "C",
    type text COLLATE "C",
    tags text COLLATE "C" NOT NULL DEFAULT '{}',
    sla_ms bigint NOT NULL,
    expires_in_ms bigint,
    schedule_id text COLLATE "C",
    workflow_id text COLLATE "C",
    step text COLLATE "C",
    PRIMARY KEY (partition_id, id)
);
CREATE INDEX task_details_by_tenant ON task_details (tenant, id);
CREATE INDEX task_details_by_key ON task_details (tenant, key, id) WHERE key IS NOT NULL;

-- What is sent; insert-only, by version.
CREATE TABLE payloads (
    partition_id smallint NOT NULL,
    task_id uuid NOT NULL,
    version integer NOT NULL,
    payload text COLLATE "C" NOT NULL,
    PRIMARY KEY (partition_id, task_id, version)
);

-- One row for each attempt that has ended; append-only.
CREATE TABLE attempts (
    partition_id smallint NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    series integer NOT NULL,
    fence bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    picked_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint NOT NULL,
    node text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    status integer,
    error_class text COLLATE "C",
    error_code text COLLATE "C",
    error_detail text COLLATE "C",
    response_headers text COLLATE "C",
    response_body text COLLATE "C",
    response_encoding text COLLATE "C",
    truncated boolean NOT NULL DEFAULT false,
    PRIMARY KEY (partition_id, task_id, attempt)
);

CREATE TABLE dead_letters (
    partition_id smallint NOT NULL,
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    task_id uuid NOT NULL,
    class text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    error_code text COLLATE "C",
    error_detail text COLLATE "C",
    attempts integer NOT NULL,
    died_at bigint NOT NULL,
    resolution text COLLATE "C",
    resolved_at bigint,
    PRIMARY KEY (partition_id, id)
);
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant, id);
CREATE INDEX dead_letters_by_task ON dead_letters (task_id);

-- Keys that must be unique: those of unfinished tasks, and idempotency keys with the answer they were given.
-- Unique over the whole store, so this table is in one piece.
CREATE TABLE names (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    object_id text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    fingerprint text COLLATE "C",
    status integer,
    headers text COLLATE "C",
    body text COLLATE "C",
    PRIMARY KEY (tenant, kind, name)
);
CREATE INDEX names_by_object ON names (object_id);
CREATE INDEX names_expiring ON names (expires_at) WHERE expires_at IS NOT NULL;

-- How many tasks a tenant has in each state, kept by deltas; -1 counts those that retention has removed. A count is
-- the sum of its slots, so that writers need not wait for each other; one slot alone may be below zero.
CREATE TABLE counts (
    tenant text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    slot smallint NOT NULL,
    tasks bigint NOT NULL,
    PRIMARY KEY (tenant, state, slot)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row for each start of a node, and the data folder that it has the lock of. `dead_at` is proof that this very
-- incarnation has ended.
CREATE TABLE nodes (
    incarnation text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    home text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    dead_at bigint
);

-- Who owns each partition, under which term. The unique key makes an acquisition wait for the claims that hold the
-- row FOR KEY SHARE: it changes the epoch, and so a key.
CREATE TABLE leases (
    partition_id smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    incarnation text COLLATE "C",
    UNIQUE (partition_id, epoch, incarnation)
) WITH (fillfactor = 50);
INSERT INTO leases (partition_id) SELECT generate_series(0, 255);

-- The last mark of each connection that writes. A commit whose fate is unknown is asked for by its mark.
CREATE TABLE marks (
    writer text COLLATE "C" PRIMARY KEY,
    mark bigint NOT NULL,
    marked_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Secrets, sealed with the key that lies in the data folder, never in the database.
CREATE TABLE secrets (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    sealed text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    retired_at bigint
);

-- API keys: only their hashes.
CREATE TABLE keys (
    id text COLLATE "C" PRIMARY KEY,
    prefix text COLLATE "C" NOT NULL UNIQUE,
    hash text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
