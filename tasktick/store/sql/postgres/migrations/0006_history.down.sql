-- Nothing is lost: what is in history goes back into the hot tables, 500 tasks a transaction.
-- step: batches
WITH wanted AS MATERIALIZED (
    SELECT partition_id, id, ended_at FROM finished_tasks
    WHERE ended_at >= (SELECT gone_before FROM history WHERE only_one)
    LIMIT 500
), gone AS (
    DELETE FROM finished_tasks USING wanted
    WHERE finished_tasks.partition_id = wanted.partition_id AND finished_tasks.id = wanted.id
        AND finished_tasks.ended_at = wanted.ended_at
    RETURNING finished_tasks.*
), attempts_gone AS (
    DELETE FROM finished_attempts USING wanted
    WHERE finished_attempts.partition_id = wanted.partition_id AND finished_attempts.task_id = wanted.id
        AND finished_attempts.ended_at = wanted.ended_at
    RETURNING finished_attempts.*
), details AS (
    INSERT INTO task_details (
        partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
        step
    )
    SELECT
        partition_id, id, tenant, created_at, key, name, type, tags, sla_ms, expires_in_ms, schedule_id, workflow_id,
        step
    FROM gone
), sent AS (
    INSERT INTO payloads (partition_id, task_id, version, payload)
    SELECT partition_id, id, payload_version, payload FROM gone WHERE payload IS NOT NULL
), tried AS (
    INSERT INTO attempts (
        partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
        error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
    )
    SELECT
        partition_id, task_id, attempt, series, fence, state, picked_at, started_at, completed_at, node, epoch, status,
        error_class, error_code, error_detail, response_headers, response_body, response_encoding, truncated
    FROM attempts_gone
), counted AS (
    INSERT INTO history_counts (from_at, tenant, state, tasks)
    SELECT ended_at - ended_at % 86400000, tenant, state, -count(*) FROM gone GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (from_at, tenant, state) DO UPDATE SET tasks = history_counts.tasks + excluded.tasks
)
INSERT INTO tasks (
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, at_most_once, keyed, expires_at, attempt, series, series_base, uncounted, interruptions, fence,
    claim_id, claimed_from, node, epoch, incarnation, lease_until, cancel_requested, payload_version, version,
    picked_at, started_at, completed_at, sla_met, reason, template_id, decide_by, after_id
)
SELECT
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, at_most_once, keyed, expires_at, attempt, series, series_base, uncounted, interruptions, fence,
    claim_id, claimed_from, node, epoch, incarnation, lease_until, cancel_requested, payload_version, version,
    picked_at, started_at, completed_at, sla_met, reason, template_id, decide_by, after_id
FROM gone;
-- step: transaction
-- A node that only slept may have moved something since: then nothing is dropped, and the next try brings it back too.
LOCK TABLE finished_tasks, finished_attempts;
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM finished_tasks WHERE ended_at >= (SELECT gone_before FROM history WHERE only_one)) THEN
        RAISE EXCEPTION 'a node has moved tasks meanwhile: stop it';
    END IF;
END
$$;
DROP VIEW all_attempts, all_payloads, all_details, all_tasks;
-- Tables of days that are gone may have been detached already.
DO $$
DECLARE
    child text;
BEGIN
    FOR child IN
        SELECT parent || to_char(to_timestamp(from_at / 1000) AT TIME ZONE 'UTC', '"_"YYYYMMDD')
        FROM history_days CROSS JOIN unnest(ARRAY['finished_tasks', 'finished_attempts']) AS parent
        WHERE gone
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', child);
    END LOOP;
END
$$;
DROP TABLE finished_attempts, finished_tasks, history_counts, history_days, history;
DROP FUNCTION make_history_day(bigint);
DROP FUNCTION id_at(uuid);
ALTER TABLE task_details RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);
ALTER TABLE payloads RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);
ALTER TABLE attempts RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);
