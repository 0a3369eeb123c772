-- min_reader: 10
-- Calendars, and times that are to be left out. An older program would fire at them, and knows neither recurrence
-- rules nor schedules of several rules, so it does not read such a store.

CREATE TABLE calendars (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Which of them a schedule heeds, and nominal times to come that it leaves out.
ALTER TABLE schedules ADD COLUMN calendars TEXT NOT NULL DEFAULT '[]';
ALTER TABLE schedules ADD COLUMN skips TEXT NOT NULL DEFAULT '[]';
CREATE INDEX schedules_with_calendars ON schedules (tenant, id) WHERE calendars <> '[]';
