-- Nothing is lost: a key, and an index.
ALTER TABLE task_details RENAME TO old_details;
CREATE TABLE task_details (
    id TEXT PRIMARY KEY NOT NULL,
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
    step TEXT
) WITHOUT ROWID;
INSERT INTO task_details (
    id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id, step
)
SELECT id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id, step
FROM old_details ORDER BY id;
DROP TABLE old_details;
CREATE INDEX task_details_by_tenant ON task_details (tenant, id);
CREATE INDEX task_details_by_key ON task_details (tenant, key, id) WHERE key IS NOT NULL;
