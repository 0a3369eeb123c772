"""Statements that are given ids look at those rows alone, whatever the statistics say.

They say nothing yet, or what is there, or that hot tables are empty which are not. That last is what a vacuum leaves
that finds nothing alive while a snapshot keeps it from clearing anything away.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
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
INSERT INTO line_fires (partition_id, task_id, line, tenant, schedule_id, due_at, waits)
SELECT partition_id, id, 'line', 't', gen_random_uuid(), 1, true FROM tasks;
"""
HISTORY = """
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
    "task_succeed",
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
    "task_detail_change",
    "waiters_go",
    "waiters_of",
    "waiters_step_out",
    "schedule_stale",
    "names_take_again",
    "fires_late_held",
    "fires_told",
    "fires_asked",
    "ledger_idle",
    "ledger_old",
    "history_move",
    "lines_hold",
    "lines_read",
    "lines_of",
    "lines_leave",
    "lines_step_out",
    "lines_freed",
    "lines_go",
)
# What is not given ids, but finds them in a range of an index.
RANGES = {("history_move", "tasks_finished")}
# What is full of dead rows under a snapshot.
HOT = ("tasks", "task_details", "payloads", "attempts", "line_fires")
KEYED = re.compile(
    r"\b(task_)?id = ANY |\b(task_)?id = .*\bpartition_id = |\b(partition_id|tenant) = .*\b(task_)?id = "
    r"|\bschedule_id = |\btenant = .*\bline = |ROW\(tenant, line\) >= "
)


@pytest.fixture(params=sorted(postgres.installed()))
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    async with postgres.cluster(request.param).new_schema() as url:
        yield url


@pytest.fixture
async def connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        await migrate(connection)
        await connection.execute(ROWS)
        await connection.execute(HISTORY)
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _known(connection: asyncpg.Connection, url: str, known: str) -> AsyncIterator[None]:
    """Let the planner know so much of the tables."""
    if known == "all":
        await connection.execute("ANALYZE")
    if known != "nobody alive":
        yield
        return
    reader = await asyncpg.connect(url)
    try:
        async with reader.transaction(isolation="repeatable_read", readonly=True):
            await reader.fetchval("SELECT count(*) FROM tasks")
            for table in HOT:
                await connection.execute(f"DELETE FROM {table}")
                await connection.execute(f"VACUUM {table}")
            empty = "SELECT reltuples = 0 AND relpages > 0 FROM pg_class WHERE oid = to_regclass($1)"
            assert await connection.fetchval(empty, "tasks")
            await connection.execute(ROWS)
            yield
    finally:
        await reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("known", ["nothing", "all", "nobody alive"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_what_is_given_by_ids_is_found_by_its_key(
    connection: asyncpg.Connection, url: str, known: str, mode: str
) -> None:
    async with _known(connection, url, known):
        await connection.execute(BEGIN_WRITE)
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        elsewhere = []
        for name in BY_IDS:
            for statement in dialect()[name]:
                plan = await _prepared_plan(connection, statement)
                scans = [node for node in _nodes(plan) if node.get("Relation Name") in HOT]
                others = [node for node in scans if not _by_key(node) and (name, node.get("Index Name")) not in RANGES]
                elsewhere += [(name, node["Node Type"], node.get("Index Name")) for node in others]
        assert not elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("known", ["nothing", "all", "nobody alive"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_rows_are_changed_in_the_order_in_which_they_were_put(
    connection: asyncpg.Connection, url: str, known: str, mode: str
) -> None:
    """Two that change the same rows wait for each other at the first of them, and so in no ring."""
    async with _known(connection, url, known):
        await connection.execute(BEGIN_WRITE)
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        for name, ordered in (("task_claim", "owned"), ("task_succeed", "given")):
            [statement] = dialect()[name]
            nodes = list(_nodes(await _prepared_plan(connection, statement)))
            (change,) = [one for one in nodes if (one["Node Type"], one.get("Alias")) == ("ModifyTable", "t")]
            (join,) = [one for one in change["Plans"] if one["Parent Relationship"] == "Outer"]
            first = next(one for one in join["Plans"] if one["Parent Relationship"] == "Outer")
            assert (join["Node Type"], first["Node Type"], first["CTE Name"]) == ("Nested Loop", "CTE Scan", ordered)
            (cte,) = [one for one in nodes if one.get("Subplan Name") == f"CTE {ordered}"]
            assert cte["Node Type"] == "Sort"


def _by_key(node: dict[str, Any]) -> bool:
    """Whether it looks rows up by an id, and does not read a table or an index from end to end."""
    if node["Node Type"] == "ModifyTable":
        return True
    if node["Node Type"] == "Bitmap Heap Scan":
        (node,) = node["Plans"]
    return KEYED.search(node.get("Index Cond", "")) is not None


@pytest.mark.slow
async def test_what_is_due_is_read_off_its_index(connection: asyncpg.Connection) -> None:
    await connection.execute(BEGIN_WRITE)
    for name, index in (
        ("due_between", "tasks_waiting_by_slot"),
        ("due_in", "tasks_waiting_by_slot"),
        ("timers_between", "tasks_waiting_by_slot"),
        ("timers_in", "tasks_waiting_by_slot"),
        ("forecast_tasks", "tasks_waiting_by_slot"),
        ("task_expired_leases", "tasks_running"),
        ("task_expired", "tasks_expiring"),
        ("finished_before", "tasks_finished"),
    ):
        [statement] = dialect()[name]
        plan = await _plan(connection, statement)
        assert index in plan, f"{name}:\n{plan}"
        assert "Seq Scan" not in plan, f"{name}:\n{plan}"


@pytest.mark.slow
async def test_events_without_a_number_are_looked_at_from_where_there_may_be_some(
    connection: asyncpg.Connection,
) -> None:
    """The table may be full of rows that have gone through and cannot be cleared away."""
    await connection.execute(
        "INSERT INTO event_inbox (at, events, items) SELECT 1, 1, '{}' FROM generate_series(1, 3000);"
        "UPDATE event_head SET settled = 2990"
    )
    await connection.execute(BEGIN_WRITE)
    for name in ("events_turn", "events_number"):
        [statement] = dialect()[name]
        values = {"beyond": 2**62, "newest": 3_000, "rows_max": 1_000, "bytes_max": 10**6}
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
        (plan,) = json.loads(await connection.fetchval(explain, *(values[one] for one in statement.names)))
        scans = [node for node in _nodes(plan["Plan"]) if node.get("Relation Name") == "event_inbox"]
        read = [node for node in scans if node["Node Type"] != "ModifyTable"]
        assert len(read) == 2
        for node in read:
            assert node["Node Type"] != "Seq Scan"
            assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("owned", [85, 1])
@pytest.mark.parametrize("known", ["nothing", "all", "nobody alive"])
async def test_what_others_own_is_read_over_in_the_index(
    connection: asyncpg.Connection, url: str, owned: int, known: str
) -> None:
    async with _known(connection, url, known):
        await _read_over(connection, owned, 5_000)
        await _read_over(connection, owned, 10)


async def _read_over(connection: asyncpg.Connection, owned: int, entries: int) -> None:
    await connection.execute(BEGIN_NEAR)
    [statement] = dialect()["due_in"]
    partitions = json.dumps([f"{one:02x}" for one in range(owned)])
    values = {
        "partitions": partitions,
        "since": 0,
        "after": 0,
        "after_id": "",
        "until": 1,
        "limit": 5_000,
        "entries": entries,
    }
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
    (plan,) = json.loads(await connection.fetchval(explain, *(values[one] for one in statement.names)))
    scans = [node for node in _nodes(plan["Plan"]) if node.get("Relation Name") == "tasks"]
    by_index = {node["Index Name"]: node for node in scans}
    assert len(scans) == len(by_index) == 2
    over, rows = by_index["tasks_waiting_by_slot"], by_index["tasks_pkey"]
    assert over["Node Type"] == "Index Only Scan"
    waiting = "SELECT partition_id < $1 AS is_own FROM tasks WHERE state IN (2, 5) ORDER BY wake_at >> 10, id LIMIT $2"
    due = [row["is_own"] for row in await connection.fetch(waiting, owned, entries)]
    assert (over["Actual Rows"], rows["Actual Loops"]) == (len(due), sum(due))


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
    given = await _examples(connection, statement)
    return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {statement.text}", *given))


async def _prepared_plan(connection: asyncpg.Connection, statement: Positional) -> dict[str, Any]:
    """As the server plans it for who keeps it prepared."""
    examples = await _examples(connection, statement)
    given = ", ".join("'{}'" if isinstance(value, list) else f"'{value}'" for value in examples)
    await connection.execute(f"PREPARE planned AS {statement.text}")
    call = f"EXECUTE planned({given})" if given else "EXECUTE planned"
    (plan,) = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {call}"))
    await connection.execute("DEALLOCATE planned")
    return dict(plan["Plan"])


async def _examples(connection: asyncpg.Connection, statement: Positional) -> list[str | int | bool | list[Any]]:
    prepared = await connection.prepare(statement.text)
    examples: dict[str, str | bool] = {"text": "[]", "bool": True}
    words = {"after_id": "", "task_id": "0" * 32, "epochs": "{}"}
    words |= {name: "{}" for name in statement.names if name.endswith("__joined")}
    kinds = zip(statement.names, prepared.get_parameters(), strict=True)
    return [words.get(name, [] if kind.kind == "array" else examples.get(kind.name, 1)) for name, kind in kinds]
