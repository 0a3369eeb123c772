-- min_reader: 22
-- Details by tenant and id: one tree in place of two, since who looks them up knows the tenant. An older program does
-- not, and would run through all of them.
ALTER TABLE task_details RENAME TO old_details;
CREATE TABLE task_details (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    key TEXT,
    name TEXT,
    type TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    sla_ms INTEGER NOT NULL,
    expires_in_ms INTEGER,
    schedule_id TEXT,
    workflow_id TEXT,
    step TEXT,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
INSERT INTO task_details (
    id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id, step
)
SELECT id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id, step
FROM old_details ORDER BY tenant, id;
DROP TABLE old_details;
CREATE INDEX task_details_by_key ON task_details (tenant, key, id) WHERE key IS NOT NULL;
