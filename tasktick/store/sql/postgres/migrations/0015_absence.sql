-- min_reader: 15
-- What did not happen: fires that have not begun in time, and check-ins that did not come. An older program would let
-- check-ins pass in silence, so it does not read such a store.

-- When a fire that has not begun yet is late; NULL, if it has been told that it is, or nobody wants to know.
ALTER TABLE tasks ADD COLUMN late_at bigint;
ALTER TABLE finished_tasks ADD COLUMN late_at bigint;
CREATE INDEX tasks_late ON tasks (late_at, id) WHERE late_at IS NOT NULL AND attempt = 0 AND state IN (1, 2, 6);

-- Jobs that run elsewhere and say so: when the next word is expected, and what became of it.
CREATE TABLE checks (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    key text COLLATE "C",
    name text COLLATE "C",
    note text COLLATE "C",
    tags text COLLATE "C" NOT NULL DEFAULT '{}',
    -- One of the two: times of a calendar, or so long after the last word.
    rule text COLLATE "C",
    period_ms bigint,
    grace_ms bigint NOT NULL,
    max_runtime_ms bigint,
    -- The id in its ping address: found by its hash, shown by what is sealed.
    ping_hash text COLLATE "C" NOT NULL,
    ping_sealed text COLLATE "C" NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    status text COLLATE "C" NOT NULL,
    status_at bigint NOT NULL,
    reason text COLLATE "C",
    -- From when the next word is counted, and when it is expected.
    anchor_at bigint NOT NULL,
    expected_at bigint,
    -- Runs that have begun and not ended, by what they call themselves: {"": started_at}.
    runs text COLLATE "C" NOT NULL DEFAULT '{}',
    failures bigint NOT NULL DEFAULT 0,
    pings bigint NOT NULL DEFAULT 0,
    last_ping_at bigint,
    last_ping_kind text COLLATE "C",
    last_success_at bigint,
    last_duration_ms bigint,
    -- When to look whether anything is missing.
    next_at bigint
);
CREATE INDEX checks_by_tenant ON checks (tenant, id);
CREATE UNIQUE INDEX checks_by_ping ON checks (ping_hash);
CREATE INDEX checks_looking ON checks (next_at, id) WHERE next_at IS NOT NULL;

CREATE TABLE pings (
    check_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    exit_code bigint,
    run text COLLATE "C",
    duration_ms bigint,
    method text COLLATE "C" NOT NULL,
    source text COLLATE "C",
    agent text COLLATE "C",
    body text COLLATE "C",
    body_bytes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (check_id, number)
);
CREATE INDEX pings_by_age ON pings (at);

-- When anybody was last there to hear pings, and when nobody was, the last time that was so.
CREATE TABLE check_watch (
    only_one integer PRIMARY KEY CHECK (only_one = 1),
    seen_at bigint NOT NULL,
    away_from bigint,
    away_until bigint
);
INSERT INTO check_watch (only_one, seen_at) VALUES (1, 0);

INSERT INTO singletons (name, expires_at) VALUES ('deadman', 0);
