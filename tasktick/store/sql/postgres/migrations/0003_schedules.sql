-- min_reader: 3
-- Schedules, and the ledger of what became of each of their times. An older program would claim a fire that its
-- schedule has yet to decide about, so it does not read such a store.

-- A fire sends what its schedule sends: this is whose payload it is, if not its own.
ALTER TABLE tasks ADD COLUMN template_id uuid;
-- Until its schedule has decided about it, a fire starts only by this time, and only once this task has ended.
ALTER TABLE tasks ADD COLUMN decide_by bigint;
ALTER TABLE tasks ADD COLUMN after_id uuid;
CREATE INDEX tasks_by_template ON tasks (template_id, payload_version) WHERE template_id IS NOT NULL;

-- 0 is a task's own payload, 1 what a schedule sends now, 2 what it sent once: kept as long as a fire names it.
ALTER TABLE payloads ADD COLUMN template smallint NOT NULL DEFAULT 0;
CREATE INDEX payloads_retired ON payloads (task_id, version) WHERE template = 2;

CREATE TABLE schedules (
    partition_id smallint NOT NULL,
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    key text COLLATE "C",
    name text COLLATE "C",
    note text COLLATE "C",
    tags text COLLATE "C" NOT NULL DEFAULT '{}',
    rule text COLLATE "C" NOT NULL,
    start_at bigint,
    end_at bigint,
    max_fires bigint,
    jitter_ms bigint NOT NULL DEFAULT 0,
    overlap text COLLATE "C" NOT NULL,
    catch_up text COLLATE "C" NOT NULL,
    template text COLLATE "C" NOT NULL,
    payload_version integer NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_until bigint,
    -- The last time that is decided, as an instant and as the local clock read then.
    cursor_at bigint NOT NULL,
    cursor_local_ms bigint NOT NULL,
    -- The one fire that is made ahead.
    next_id uuid,
    next_at bigint,
    next_local_ms bigint,
    next_due_at bigint,
    next_collapsed integer,
    tzdata text COLLATE "C",
    -- When to look at it again: the fire ahead is due, or the pause is over.
    look_at bigint,
    -- The last fire that was let run; the one that waits for it, and for whom it waits.
    last_id uuid,
    buffered_id uuid,
    holder_id uuid,
    last_fire_at bigint,
    fired bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_id, id),
    CHECK (partition_id = partition_of(id))
) WITH (fillfactor = 70);
CREATE INDEX schedules_by_tenant ON schedules (tenant, id);
CREATE INDEX schedules_looking ON schedules (look_at, id) WHERE look_at IS NOT NULL;
CREATE INDEX schedules_holding ON schedules (holder_id) WHERE holder_id IS NOT NULL;

-- The ledger: one row for each nominal time of a schedule, or for a stretch of them in which nothing ran.
CREATE TABLE fires (
    partition_id smallint NOT NULL,
    schedule_id uuid NOT NULL,
    nominal_at bigint NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    task_id uuid,
    local_ms bigint NOT NULL,
    schedule_version integer NOT NULL,
    collapsed integer NOT NULL DEFAULT 1,
    missed bigint NOT NULL DEFAULT 0,
    until_at bigint,
    times bigint NOT NULL DEFAULT 1,
    node text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    tzdata text COLLATE "C" NOT NULL,
    decided_at bigint NOT NULL,
    PRIMARY KEY (partition_id, schedule_id, nominal_at)
);
CREATE INDEX fires_decided ON fires (decided_at);
