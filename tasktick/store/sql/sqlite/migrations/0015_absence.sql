-- min_reader: 15
-- What did not happen: fires that have not begun in time, and check-ins that did not come. An older program would let
-- check-ins pass in silence, so it does not read such a store.

-- When a fire that has not begun yet is late; NULL, if it has been told that it is, or nobody wants to know.
ALTER TABLE tasks ADD COLUMN late_at INTEGER;
CREATE INDEX tasks_late ON tasks (late_at, id) WHERE late_at IS NOT NULL AND attempt = 0 AND state IN (1, 2, 6);

-- Jobs that run elsewhere and say so: when the next word is expected, and what became of it.
CREATE TABLE checks (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    key TEXT,
    name TEXT,
    note TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    -- One of the two: times of a calendar, or so long after the last word.
    rule TEXT,
    period_ms INTEGER,
    grace_ms INTEGER NOT NULL,
    max_runtime_ms INTEGER,
    -- The id in its ping address: found by its hash, shown by what is sealed.
    ping_hash TEXT NOT NULL,
    ping_sealed TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL,
    status_at INTEGER NOT NULL,
    reason TEXT,
    -- From when the next word is counted, and when it is expected.
    anchor_at INTEGER NOT NULL,
    expected_at INTEGER,
    -- Runs that have begun and not ended, by what they call themselves: {"": started_at}.
    runs TEXT NOT NULL DEFAULT '{}',
    failures INTEGER NOT NULL DEFAULT 0,
    pings INTEGER NOT NULL DEFAULT 0,
    last_ping_at INTEGER,
    last_ping_kind TEXT,
    last_success_at INTEGER,
    last_duration_ms INTEGER,
    -- When to look whether anything is missing.
    next_at INTEGER
) WITHOUT ROWID;
CREATE INDEX checks_by_tenant ON checks (tenant, id);
CREATE UNIQUE INDEX checks_by_ping ON checks (ping_hash);
CREATE INDEX checks_looking ON checks (next_at, id) WHERE next_at IS NOT NULL;

CREATE TABLE pings (
    check_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    exit_code INTEGER,
    run TEXT,
    duration_ms INTEGER,
    method TEXT NOT NULL,
    source TEXT,
    agent TEXT,
    body TEXT,
    body_bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (check_id, number)
) WITHOUT ROWID;
CREATE INDEX pings_by_age ON pings (at);

-- When anybody was last there to hear pings, and when nobody was, the last time that was so.
CREATE TABLE check_watch (
    only_one INTEGER PRIMARY KEY NOT NULL CHECK (only_one = 1),
    seen_at INTEGER NOT NULL,
    away_from INTEGER,
    away_until INTEGER
) WITHOUT ROWID;
INSERT INTO check_watch (only_one, seen_at) VALUES (1, 0);

INSERT INTO singletons (name, expires_at) VALUES ('deadman', 0);
