-- min_reader: 1
-- What one node at a time does for all. An older program does it on each node; every step of it may be done twice.

CREATE TABLE singletons (
    name text COLLATE "C" PRIMARY KEY,
    incarnation text COLLATE "C",
    expires_at bigint NOT NULL
);
INSERT INTO singletons (name, expires_at) VALUES ('retention', 0);
