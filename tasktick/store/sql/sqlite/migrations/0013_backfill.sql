-- min_reader: 13
-- What was missed or skipped can run later: the row of its time keeps what was decided before. The counts of a
-- schedule are those of its ledger, and of what retention has taken from it. An older program would count neither, so
-- it does not read such a store.

ALTER TABLE fires ADD COLUMN was TEXT;
-- Whether its task has given up, once or oftener.
ALTER TABLE fires ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
UPDATE fires SET failed = 1
WHERE outcome = 'run' AND EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = fires.task_id AND t.state = 11);

-- What retention has taken from the ledger, and between which times: what became of those is not known any more.
ALTER TABLE schedules ADD COLUMN gone_fired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN gone_skipped INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN gone_missed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN gone_failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN gone_from INTEGER;
ALTER TABLE schedules ADD COLUMN gone_until INTEGER;
UPDATE schedules SET gone_fired = fired - part.ran, gone_skipped = schedules.skipped - part.skipped,
    gone_missed = schedules.missed - part.missed, gone_failed = schedules.failed - part.failed
FROM (
    SELECT s.id, coalesce(sum(iif(f.outcome = 'run', f.times, 0)), 0) AS ran,
        coalesce(sum(iif(f.outcome = 'skipped', f.times, 0)), 0) AS skipped,
        coalesce(sum(iif(f.outcome = 'missed', f.times, 0)), 0) AS missed, coalesce(sum(f.failed), 0) AS failed
    FROM schedules AS s LEFT JOIN fires AS f ON f.schedule_id = s.id
    GROUP BY s.id
) AS part WHERE part.id = schedules.id;
UPDATE schedules SET gone_from = created_at,
    gone_until = coalesce((SELECT min(f.nominal_at) - 1 FROM fires AS f WHERE f.schedule_id = schedules.id), cursor_at)
WHERE gone_fired > 0 OR gone_skipped > 0 OR gone_missed > 0;

-- What was run by hand after it was missed or skipped.
UPDATE fires SET outcome = 'run', reason = 'run_later', was = json_object(
    'outcome', outcome, 'reason', reason, 'decided_at', decided_at, 'schedule_version', schedule_version,
    'node', node, 'epoch', epoch, 'tzdata', tzdata
)
WHERE outcome <> 'run' AND EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = fires.task_id AND t.series > 1);
UPDATE schedules SET fired = gone_fired + part.ran, skipped = gone_skipped + part.skipped,
    missed = gone_missed + part.missed
FROM (
    SELECT f.schedule_id AS id, sum(iif(f.outcome = 'run', f.times, 0)) AS ran,
        sum(iif(f.outcome = 'skipped', f.times, 0)) AS skipped, sum(iif(f.outcome = 'missed', f.times, 0)) AS missed
    FROM fires AS f GROUP BY f.schedule_id
) AS part WHERE part.id = schedules.id;

-- Of a long line, who is at work.
CREATE INDEX line_fires_at_work ON line_fires (tenant, line, task_id) WHERE NOT waits;
