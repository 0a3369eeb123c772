-- Nothing is lost: what tasks were made with gets rows of its own again.
INSERT INTO payloads (task_id, version, payload)
SELECT id, 1, payload FROM task_details WHERE payload IS NOT NULL;
ALTER TABLE task_details DROP COLUMN payload;
