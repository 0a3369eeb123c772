-- min_reader: 10
-- Calendars, and times that are to be left out. An older program would fire at them, and knows neither recurrence
-- rules nor schedules of several rules, so it does not read such a store.

CREATE TABLE calendars (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    content text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Which of them a schedule heeds, and nominal times to come that it leaves out.
ALTER TABLE schedules ADD COLUMN calendars text COLLATE "C" NOT NULL DEFAULT '[]';
ALTER TABLE schedules ADD COLUMN skips text COLLATE "C" NOT NULL DEFAULT '[]';
CREATE INDEX schedules_with_calendars ON schedules (tenant, id) WHERE calendars <> '[]';
