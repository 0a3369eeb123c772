-- min_reader: 23
-- What a task was made with lies with its details, and not in a row of its own; what came later, and what schedules send,
-- stay where they are, as does what is here already. An older program would not find it.
ALTER TABLE task_details ADD COLUMN payload TEXT;
