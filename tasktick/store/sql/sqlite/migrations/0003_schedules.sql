-- min_reader: 3
-- Schedules, and the ledger of what became of each of their times. An older program would claim a fire that its
-- schedule has yet to decide about, so it does not read such a store.

-- A fire sends what its schedule sends: this is whose payload it is, if not its own.
ALTER TABLE tasks ADD COLUMN template_id TEXT;
-- Until its schedule has decided about it, a fire starts only by this time, and only once this task has ended.
ALTER TABLE tasks ADD COLUMN decide_by INTEGER;
ALTER TABLE tasks ADD COLUMN after_id TEXT;
CREATE INDEX tasks_by_template ON tasks (template_id, payload_version) WHERE template_id IS NOT NULL;

-- 0 is a task's own payload, 1 what a schedule sends now, 2 what it sent once: kept as long as a fire names it.
ALTER TABLE payloads ADD COLUMN template INTEGER NOT NULL DEFAULT 0;
CREATE INDEX payloads_retired ON payloads (task_id, version) WHERE template = 2;

CREATE TABLE schedules (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    key TEXT,
    name TEXT,
    note TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    rule TEXT NOT NULL,
    start_at INTEGER,
    end_at INTEGER,
    max_fires INTEGER,
    jitter_ms INTEGER NOT NULL DEFAULT 0,
    overlap TEXT NOT NULL,
    catch_up TEXT NOT NULL,
    template TEXT NOT NULL,
    payload_version INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    paused_until INTEGER,
    -- The last time that is decided, as an instant and as the local clock read then.
    cursor_at INTEGER NOT NULL,
    cursor_local_ms INTEGER NOT NULL,
    -- The one fire that is made ahead.
    next_id TEXT,
    next_at INTEGER,
    next_local_ms INTEGER,
    next_due_at INTEGER,
    next_collapsed INTEGER,
    tzdata TEXT,
    -- When to look at it again: the fire ahead is due, or the pause is over.
    look_at INTEGER,
    -- The last fire that was let run; the one that waits for it, and for whom it waits.
    last_id TEXT,
    buffered_id TEXT,
    holder_id TEXT,
    last_fire_at INTEGER,
    fired INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    missed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX schedules_by_tenant ON schedules (tenant, id);
CREATE INDEX schedules_looking ON schedules (look_at, id) WHERE look_at IS NOT NULL;
CREATE INDEX schedules_holding ON schedules (holder_id) WHERE holder_id IS NOT NULL;

-- The ledger: one row for each nominal time of a schedule, or for a stretch of them in which nothing ran.
CREATE TABLE fires (
    schedule_id TEXT NOT NULL,
    nominal_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    task_id TEXT,
    local_ms INTEGER NOT NULL,
    schedule_version INTEGER NOT NULL,
    collapsed INTEGER NOT NULL DEFAULT 1,
    missed INTEGER NOT NULL DEFAULT 0,
    until_at INTEGER,
    times INTEGER NOT NULL DEFAULT 1,
    node TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    tzdata TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, nominal_at)
) WITHOUT ROWID;
CREATE INDEX fires_decided ON fires (decided_at);
