-- min_reader: 11
-- What happened is written down without waiting for anybody, and numbered when it is read. An older program would
-- number what it does at once, before what others have done earlier; so it does not read such a store.

-- What has happened and has no number yet. Who writes to it holds no lock that another wants. In its column order the
-- writing transaction has its id before the number is drawn: so whoever is younger than all that are under way knows
-- that no smaller number is still to come.
CREATE TABLE event_inbox (
    writer xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    events bigint NOT NULL,
    items text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Who numbers what is in there holds this row until its commit. No number up to `settled` is there or will come: from
-- there on it is looked at. That will be true of `seen` as soon as no transaction older than `seen_before` runs.
ALTER TABLE event_head
    ADD COLUMN settled bigint NOT NULL DEFAULT 0,
    ADD COLUMN seen bigint NOT NULL DEFAULT 0,
    ADD COLUMN seen_before xid8 NOT NULL DEFAULT '0';
