-- min_reader: 1
-- The spine: tasks and what belongs to them. Times are Unix milliseconds; ids are 32 hex characters whose
-- last two are the partition; states and flags are small integers (model/state.py).

-- The slim row: what changes with each step of a task's life, and nothing else.
CREATE TABLE tasks (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    state INTEGER NOT NULL,
    queue TEXT NOT NULL,
    host TEXT NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    at_most_once INTEGER NOT NULL DEFAULT 0,
    keyed INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    series INTEGER NOT NULL DEFAULT 1,
    series_base INTEGER NOT NULL DEFAULT 0,
    uncounted INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    claim_id INTEGER NOT NULL DEFAULT 0,
    claimed_from INTEGER NOT NULL DEFAULT 0,
    node TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    incarnation TEXT,
    lease_until INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    payload_version INTEGER NOT NULL DEFAULT 1,
    version INTEGER NOT NULL DEFAULT 1,
    picked_at INTEGER,
    started_at INTEGER,
    completed_at INTEGER,
    sla_met INTEGER,
    reason TEXT
) WITHOUT ROWID;

-- Waiting tasks by the time at which they want to be looked at (state 2 scheduled, 5 retrying).
CREATE INDEX tasks_waiting ON tasks (wake_at, id) WHERE state IN (2, 5);
-- Running ones by the end of their lease (state 4).
CREATE INDEX tasks_running ON tasks (lease_until, id) WHERE state = 4;
-- Those that must start by a time.
CREATE INDEX tasks_expiring ON tasks (expires_at, id) WHERE expires_at IS NOT NULL AND state IN (2, 5);
-- Finished ones by when (state 10 and above), for retention.
CREATE INDEX tasks_finished ON tasks (completed_at, id) WHERE state >= 10;

CREATE TABLE task_details (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    key TEXT,
    name TEXT,
    type TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    sla_ms INTEGER NOT NULL,
    expires_in_ms INTEGER,
    schedule_id TEXT,
    workflow_id TEXT,
    step TEXT
) WITHOUT ROWID;
CREATE INDEX task_details_by_tenant ON task_details (tenant, id);
CREATE INDEX task_details_by_key ON task_details (tenant, key, id) WHERE key IS NOT NULL;

-- What is sent; insert-only, by version.
CREATE TABLE payloads (
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (task_id, version)
) WITHOUT ROWID;

-- One row for each attempt that has ended; append-only.
CREATE TABLE attempts (
    task_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    series INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    state TEXT NOT NULL,
    picked_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER NOT NULL,
    node TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    status INTEGER,
    error_class TEXT,
    error_code TEXT,
    error_detail TEXT,
    response_headers TEXT,
    response_body TEXT,
    response_encoding TEXT,
    truncated INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, attempt)
) WITHOUT ROWID;

CREATE TABLE dead_letters (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    task_id TEXT NOT NULL,
    class TEXT NOT NULL,
    reason TEXT NOT NULL,
    error_code TEXT,
    error_detail TEXT,
    attempts INTEGER NOT NULL,
    died_at INTEGER NOT NULL,
    resolution TEXT,
    resolved_at INTEGER
) WITHOUT ROWID;
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant, id);
CREATE INDEX dead_letters_by_task ON dead_letters (task_id);

-- Keys that must be unique: those of unfinished tasks, and idempotency keys with the answer they were given.
CREATE TABLE names (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    object_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    fingerprint TEXT,
    status INTEGER,
    headers TEXT,
    body TEXT,
    PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;
CREATE INDEX names_by_object ON names (object_id);
CREATE INDEX names_expiring ON names (expires_at) WHERE expires_at IS NOT NULL;

-- How many tasks a tenant has in each state, kept by deltas; -1 counts those that retention has removed.
CREATE TABLE counts (
    tenant TEXT NOT NULL,
    state INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (tenant, state)
) WITHOUT ROWID;

-- One row for each start of a node. `dead_at` is proof that this very incarnation has ended.
CREATE TABLE nodes (
    incarnation TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    dead_at INTEGER
) WITHOUT ROWID;

-- Who owns each partition, under which term.
CREATE TABLE leases (
    partition_id INTEGER PRIMARY KEY NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    incarnation TEXT
);
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255)
INSERT INTO leases (partition_id) SELECT n FROM numbers;

-- Secrets, sealed with the key that lies beside the database, never in it.
CREATE TABLE secrets (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) WITHOUT ROWID;

-- API keys: only their hashes.
CREATE TABLE keys (
    id TEXT PRIMARY KEY NOT NULL,
    prefix TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL,
    tenant TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;
