"""Statements that are given ids look at those rows alone, whatever the statistics say: here they say nothing yet."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from tasktick.store.postgres import BEGIN_NEAR, BEGIN_WRITE, dialect
from tasktick.store.postgres_migrate import migrate
from tasktick.store.queries import Positional
from tests import postgres

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
ROWS = """
INSERT INTO tasks (
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, lease_until
)
SELECT partition_of(id), id, 't', CASE WHEN n % 3 = 0 THEN 4 ELSE 2 END, 'q', 'h', 5, 1, 1, 1, 5, 1, 1, 5
FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 3000) AS n) AS made;
INSERT INTO task_details (partition_id, id, tenant, created_at, sla_ms) SELECT partition_id, id, 't', 1, 1 FROM tasks;
INSERT INTO payloads (partition_id, task_id, version, payload) SELECT partition_id, id, 1, '{}' FROM tasks;
SELECT make_history_day(day * 86400000::bigint) FROM generate_series(20000, 20003) AS day;
INSERT INTO finished_tasks (
    partition_id, id, tenant, state, queue, host, priority, run_at, due_at, wake_at, max_attempts, timeout_ms,
    updated_at, completed_at, created_at, sla_ms, payload, ended_at
)
SELECT partition_of(id), id, 't', 10, 'q', 'h', 5, 1, 1, 1, 5, 1, 1, 1, 1, 1, '{}', (20000 + n % 4) * 86400000::bigint
FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 3000) AS n) AS made;
INSERT INTO finished_attempts (
    partition_id, task_id, attempt, series, fence, state, picked_at, completed_at, node, epoch, ended_at
)
SELECT partition_id, id, 1, 1, 1, 'ok', 1, 1, 'n', 1, ended_at FROM finished_tasks
"""
BY_IDS = (
    "task_claim",
    "task_claimed",
    "task_end_check",
    "task_end",
    "task_states",
    "task_change_stale",
    "task_change",
    "task_take_back",
    "task_views",
    "due_by_ids",
    "task_park",
    "payload_read",
    "payload_latest",
    "attempts_last",
    "attempts_of",
    "attempts_count",
    "task_delete",
    "waiters_go",
    "waiters_step_out",
    "schedules_put_off",
)
ELSEWHERE = ("Seq Scan", "tasks_waiting", "tasks_running", "tasks_expiring", "tasks_finished", "task_details_by")


@pytest.fixture(params=sorted(postgres.installed()))
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[asyncpg.Connection]:
    async with postgres.cluster(request.param).new_schema() as url:
        connection = await asyncpg.connect(url)
        try:
            await migrate(connection)
            await connection.execute(ROWS)
            yield connection
        finally:
            await connection.close()


@pytest.mark.slow
async def test_what_is_given_by_ids_is_found_by_its_key(connection: asyncpg.Connection) -> None:
    await connection.execute(BEGIN_WRITE)
    for name in BY_IDS:
        for statement in dialect()[name]:
            # There are as many nodes as there are starts that still matter: a handful, read whole.
            plan = (await _plan(connection, statement)).replace("Seq Scan on nodes", "nodes")
            assert not [one for one in ELSEWHERE if one in plan], f"{name}:\n{plan}"


@pytest.mark.slow
async def test_what_is_due_is_read_off_its_index(connection: asyncpg.Connection) -> None:
    await connection.execute(BEGIN_WRITE)
    for name, index in (
        ("due_between", "tasks_waiting"),
        ("timers_between", "tasks_waiting"),
        ("task_expired_leases", "tasks_running"),
        ("task_expired", "tasks_expiring"),
        ("finished_before", "tasks_finished"),
    ):
        [statement] = dialect()[name]
        plan = await _plan(connection, statement)
        assert index in plan, f"{name}:\n{plan}"
        assert "Seq Scan" not in plan, f"{name}:\n{plan}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["due_in", "timers_in"])
@pytest.mark.parametrize("owned", [85, 1])
async def test_what_others_own_is_passed_over_unread(connection: asyncpg.Connection, name: str, owned: int) -> None:
    await connection.execute("ANALYZE tasks")
    await connection.execute(BEGIN_NEAR)
    [statement] = dialect()[name]
    partitions = json.dumps([f"{one:02x}" for one in range(owned)])
    values = {"partitions": partitions, "after": 0, "after_id": "", "until": 1, "limit": 5_000, "each": 5_000}
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
    (plan,) = json.loads(await connection.fetchval(explain, *(values[one] for one in statement.names)))
    scans = [node for node in _nodes(plan["Plan"]) if node.get("Relation Name") == "tasks"]
    assert {node["Index Name"] for node in scans} == {"tasks_waiting_by_partition"}
    due = await connection.fetchval("SELECT count(*) FROM tasks WHERE state IN (2, 5) AND partition_id < $1", owned)
    read = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)
    assert abs(read - due) <= owned / 2  # an average of the loops, rounded


SCHEDULES = """
INSERT INTO schedules (
    partition_id, id, tenant, version, created_at, updated_at, rule, overlap, catch_up, template, payload_version,
    cursor_at, cursor_local_ms, look_at
)
SELECT partition_of(id), id, 't', 1, 1, 1, '{}', 'skip', '{}', '{}', 1, 1, 1, n
FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 3000) AS n) AS made;
DELETE FROM schedules WHERE partition_id = 0;
ANALYZE schedules
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["schedules_due_in", "schedules_next_look_in"])
@pytest.mark.parametrize("owned", [85, 1])
async def test_schedules_of_others_are_passed_over_unread(
    connection: asyncpg.Connection, name: str, owned: int
) -> None:
    """One that owns a single partition has no schedule at all: it must not read those of the others to find that."""
    await connection.execute(SCHEDULES)
    await connection.execute(BEGIN_NEAR)
    [statement] = dialect()[name]
    partitions = json.dumps([f"{one:02x}" for one in range(owned)])
    values = {"partitions": partitions, "now": 1_500, "limit": 250, "each": 16}
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
    (plan,) = json.loads(await connection.fetchval(explain, *(values[one] for one in statement.names)))
    scans = [node for node in _nodes(plan["Plan"]) if node.get("Relation Name") == "schedules"]
    assert {node["Index Name"] for node in scans} == {"schedules_looking_by_partition"}
    read = sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans)
    assert read <= (16 if name == "schedules_due_in" else 1) * owned
    assert (read == 0) == (owned == 1)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a plan."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


async def _plan(connection: asyncpg.Connection, statement: Positional) -> str:
    prepared = await connection.prepare(statement.text)
    examples = {"text": "[]", "bool": True}
    kinds = zip(statement.names, prepared.get_parameters(), strict=True)
    words = {"after_id": "", "task_id": "0" * 32}
    given = [words.get(name, examples.get(kind.name, 1)) for name, kind in kinds]
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {statement.text}", *given))
