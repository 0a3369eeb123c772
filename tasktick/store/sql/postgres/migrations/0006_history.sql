-- min_reader: 6
-- History: what has finished leaves the hot tables for tables by the day on which it ended, which are dropped whole.
-- Nothing is moved here: the upkeep of a running node does it, a few hundred rows a transaction. An older program
-- would take what has moved for gone, so it does not read such a store.

-- When an id was made, in milliseconds: nothing ends before that.
CREATE FUNCTION id_at(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT (''x'' || left(replace($1::text, ''-'', ''''), 12))::bit(48)::bigint';

-- What ended before this is gone, though its rows may still lie in a table that is about to be dropped.
CREATE TABLE history (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    gone_before bigint NOT NULL
);
INSERT INTO history (gone_before) VALUES (0);

-- The days that have tables, by their first millisecond; rows move in and out under a share of the day's row.
CREATE TABLE history_days (
    from_at bigint PRIMARY KEY,
    gone boolean NOT NULL DEFAULT false
);

-- How many tasks of each tenant and state a day holds, so that a day can go without being read.
CREATE TABLE history_counts (
    from_at bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    tasks bigint NOT NULL,
    PRIMARY KEY (from_at, tenant, state)
);

-- A finished task: its row, its details, and the one payload that it had last (none for a fire: its schedule's).
-- `ended_at` is when it finished, and no sooner than its id was made or its schedule may still ask for it.
CREATE TABLE finished_tasks (
    LIKE tasks INCLUDING DEFAULTS,
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
    payload text COLLATE "C",
    ended_at bigint NOT NULL,
    PRIMARY KEY (partition_id, id, ended_at)
) PARTITION BY RANGE (ended_at);
CREATE INDEX finished_tasks_by_tenant ON finished_tasks (tenant, id);
CREATE INDEX finished_tasks_by_key ON finished_tasks (tenant, key, id) WHERE key IS NOT NULL;
CREATE INDEX finished_tasks_by_template ON finished_tasks (template_id, payload_version) WHERE template_id IS NOT NULL;

CREATE TABLE finished_attempts (
    LIKE attempts INCLUDING DEFAULTS,
    ended_at bigint NOT NULL,
    PRIMARY KEY (partition_id, task_id, attempt, ended_at)
) PARTITION BY RANGE (ended_at);

-- Both places as one, for who reads. What has not moved ends after all that has. Each part is a plain table, so that
-- the planner looks through and uses the indexes of either.
CREATE VIEW all_tasks AS
SELECT t.*, 9223372036854775807 AS ended_at FROM tasks AS t
UNION ALL
SELECT
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, at_most_once, keyed, expires_at, attempt, series, series_base, uncounted, interruptions, fence,
    claim_id, claimed_from, node, epoch, incarnation, lease_until, cancel_requested, payload_version, version,
    picked_at, started_at, completed_at, sla_met, reason, template_id, decide_by, after_id, ended_at
FROM finished_tasks;

CREATE VIEW all_details AS
SELECT d.*, 9223372036854775807 AS ended_at FROM task_details AS d
UNION ALL
SELECT
    partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
    step, ended_at
FROM finished_tasks;

CREATE VIEW all_payloads AS
SELECT partition_id, task_id, version, payload, 9223372036854775807 AS ended_at FROM payloads
UNION ALL
SELECT partition_id, id, payload_version, payload, ended_at FROM finished_tasks;

CREATE VIEW all_attempts AS
SELECT a.*, 9223372036854775807 AS ended_at FROM attempts AS a
UNION ALL
SELECT a.* FROM finished_attempts AS a;

-- Make the tables of a day, unless they are there. Attaching waits for no reader, and no reader for it.
CREATE FUNCTION make_history_day(first_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    child text;
BEGIN
    INSERT INTO history_days (from_at) VALUES (first_ms) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOREACH parent IN ARRAY ARRAY['finished_tasks', 'finished_attempts'] LOOP
        child := parent || to_char(to_timestamp(first_ms / 1000) AT TIME ZONE 'UTC', '"_"YYYYMMDD');
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            parent, child, first_ms, first_ms + 86400000
        );
    END LOOP;
    RETURN true;
END
$$;

-- Rows now leave these tables all the time.
ALTER TABLE task_details SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE payloads SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE attempts SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
