-- min_reader: 1
-- What one node at a time does for all. An older program does it on each node; every step of it may be done twice.

CREATE TABLE singletons (
    name TEXT PRIMARY KEY NOT NULL,
    incarnation TEXT,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO singletons (name, expires_at) VALUES ('retention', 0);
