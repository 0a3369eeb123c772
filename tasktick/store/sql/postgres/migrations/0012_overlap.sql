-- min_reader: 12
-- Lines: fires that may not be under way together, of one schedule or of all that share an overlap key. An older
-- program would let them run beside each other, so it does not read such a store.

ALTER TABLE schedules ADD COLUMN overlap_key text COLLATE "C";
-- After so many fires in a row that have given up it pauses itself; how many there are now; why it is paused.
ALTER TABLE schedules ADD COLUMN pause_on_failures bigint;
ALTER TABLE schedules ADD COLUMN consecutive_failures bigint NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN pause_reason text COLLATE "C";

-- Who is under way in a line, and who waits there for its turn. A row goes in the transaction in which its fire ends.
CREATE TABLE line_fires (
    partition_id smallint NOT NULL,
    task_id uuid NOT NULL,
    line text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    schedule_id uuid NOT NULL,
    due_at bigint NOT NULL,
    waits boolean NOT NULL,
    PRIMARY KEY (partition_id, task_id, line),
    CHECK (partition_id = partition_of(task_id))
);
-- The task is no key of it: who looks for one of them by that must not run through it.
CREATE INDEX line_fires_in_order ON line_fires (tenant, line, due_at) INCLUDE (task_id);
CREATE INDEX line_fires_by_schedule ON line_fires (schedule_id);
-- Who waits for another expires in its time too.
CREATE INDEX tasks_expiring_blocked ON tasks (expires_at, id) WHERE expires_at IS NOT NULL AND state = 1;
