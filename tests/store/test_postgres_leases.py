"""The guard of a claim on PostgreSQL, on two connections: whom it keeps waiting until it commits, and whom not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.task import Taken
from tasktick.scheduler.plan import settle
from tasktick.store import claims, leases, schedules
from tasktick.store.postgres import BEGIN_WRITE, PostgresTransaction
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.schedules import Term
from tests import postgres
from tests.store.calendar import MINUTE_MS, PARTITION, Calendar
from tests.store.drivers import opened
from tests.store.world import HOUR_MS, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
PARTITIONS = (17, 3)
# Who waits so long waits for a lock.
PATIENCE = "SET LOCAL lock_timeout = 400"


@pytest.fixture
async def world(url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with opened(PostgresAddress(url, "tests"), tmp_path) as database:
        world = World(database)
        await world.start()
        yield world


@asynccontextmanager
async def open_transaction(url: str) -> AsyncIterator[PostgresTransaction]:
    """One that is under way as long as this lasts, and is then undone."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(BEGIN_WRITE)
        await connection.execute(PATIENCE)
        yield PostgresTransaction(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def open_claim(url: str, world: World) -> AsyncIterator[None]:
    """A claim in both partitions that has not committed."""
    ids = [await world.create(partition=one) for one in PARTITIONS]
    async with open_transaction(url) as tx:
        assert len(await claims.claim(tx, ids, world.request())) == len(PARTITIONS)
        yield


async def test_nobody_acquires_past_an_open_claim(url: str, world: World) -> None:
    async with open_claim(url, world), open_transaction(url) as tx:
        await tx.run("node_end", incarnation=world.incarnation, now=world.now)
        await leases.join(tx, leases.Start("incarnation-2", "node-b", 10_000), world.now)
        assert await leases.acquire(tx, "incarnation-2", world.now, PARTITIONS) == {}


async def test_an_open_claim_holds_up_no_other_partition(url: str, world: World) -> None:
    others = [one for one in ALL_PARTITIONS if one not in PARTITIONS]
    async with open_transaction(url) as tx:
        async with open_claim(url, world):
            await tx.run("node_end", incarnation=world.incarnation, now=world.now)
            await leases.join(tx, leases.Start("incarnation-2", "node-b", 10_000), world.now)
            assert list(await leases.acquire(tx, "incarnation-2", world.now)) == others
        async with asyncio.timeout(5):  # the server hears a moment later that the claim is gone
            while len(await leases.acquire(tx, "incarnation-2", world.now)) < len(ALL_PARTITIONS):
                pass


async def test_who_only_asks_for_a_partition_does_not_wait_for_an_open_claim(url: str, world: World) -> None:
    async with open_claim(url, world), open_transaction(url) as tx:
        await leases.request(tx, "incarnation-2", PARTITIONS)


async def test_claims_do_not_wait_for_each_other(url: str, world: World) -> None:
    other = [await world.create(partition=one) for one in reversed(PARTITIONS)]
    request = world.request()
    async with open_claim(url, world), open_transaction(url) as tx:
        # The statement alone: what counts states is one row of a tenant, and comes last.
        fields = {one: getattr(request, one) for one in request.__struct_fields__ if one not in {"epochs", "was_due"}}
        epochs = claims.by_partition(request.epochs)
        rows = [(one, 0, 0, None, None, None, None) for one in other]
        given = {"rows": rows, "epochs": epochs, "was_due": None, "chars_max": 0, **fields}
        ((_, _, taken),) = await tx.rows("task_claim", tuple[int, str, list[Taken]], **given)
        assert len(taken) == len(PARTITIONS)


async def test_a_claim_that_waited_for_an_acquisition_finds_its_term_over(url: str, world: World) -> None:
    task_id = await world.create(partition=17)
    async with open_transaction(url) as taking, open_transaction(url) as tx:
        await taking.run("node_end", incarnation=world.incarnation, now=world.now)
        await leases.join(taking, leases.Start("incarnation-2", "node-b", 10_000), world.now)
        await leases.acquire(taking, "incarnation-2", world.now, PARTITIONS)
        claiming = asyncio.ensure_future(claims.claim(tx, [task_id], world.request()))
        _, waits = await asyncio.wait({claiming}, timeout=0.1)
        assert waits
        await taking._raw.execute("COMMIT")
        assert await claiming == []


async def test_a_claim_that_waited_for_a_task_takes_it_as_it_is_then(url: str, world: World) -> None:
    """Three of four were changed meanwhile: put off, paused, and told to be something else that matters not."""
    ids = [await world.create(partition=17) for _ in range(4)]
    async with open_transaction(url) as other, open_transaction(url) as tx:
        changes = ("wake_at = wake_at + 3600000", "state = 6", "priority = 9")
        for one, change in zip(ids, changes, strict=False):
            await other._raw.execute(f"UPDATE tasks SET {change} WHERE id = '{one}'")
        claiming = asyncio.ensure_future(claims.claim(tx, ids, world.request()))
        await until_waiting(url)
        await other._raw.execute("COMMIT")
        assert [(one.id, one.priority) for one in await claiming] == [(ids[2], 9), (ids[3], 5)]


async def test_what_changes_several_leases_locks_them_in_order(url: str, world: World) -> None:
    """In whatever order they lie in the table: a claim, which has the first, would wait for the last, and it for us."""
    first, last = sorted(PARTITIONS)
    connection = await asyncpg.connect(url)
    await connection.execute(
        "CREATE TEMPORARY TABLE kept AS TABLE leases; TRUNCATE leases;"
        "INSERT INTO leases SELECT * FROM kept ORDER BY partition_id DESC"
    )
    await connection.close()
    changes: list[Callable[[PostgresTransaction], Coroutine[Any, Any, object]]] = [
        lambda tx: leases.release(tx, world.incarnation, PARTITIONS, world.now),
        lambda tx: leases.release(tx, world.incarnation, ALL_PARTITIONS, world.now),
        lambda tx: leases.request(tx, "incarnation-2", [last, first]),
    ]
    for change in changes:
        async with open_transaction(url) as holder, open_transaction(url) as other:
            await holder._raw.execute(f"SELECT FROM leases WHERE partition_id = {first} FOR UPDATE")
            await other._raw.execute("SET LOCAL lock_timeout = 4000")
            changing = asyncio.ensure_future(change(other))
            await until_waiting(url)
            await holder._raw.execute(f"SELECT FROM leases WHERE partition_id = {last} FOR UPDATE")
            assert not changing.done()
            await holder._raw.execute("ROLLBACK")
            await changing


async def test_a_plan_comes_to_its_lease_with_nothing_in_hand(url: str, world: World) -> None:
    """A claim has its lease and wants a task; a plan that had the task, and wanted a lease, would close a ring."""
    world.now -= world.now % HOUR_MS
    calendar = Calendar(world)
    name = await calendar.create()
    world.now += MINUTE_MS
    seen = await calendar.find(name)
    plan = settle(seen.schedule, seen.tasks, calendar.moment())
    assert plan is not None
    term = Term(world.incarnation, world.epochs)
    async with open_transaction(url) as taker, open_transaction(url) as planner, open_transaction(url) as claimer:
        await taker._raw.execute(f"SELECT FROM leases WHERE partition_id = {PARTITION} FOR UPDATE")
        await planner._raw.execute("SET LOCAL lock_timeout = 4000")
        planning = asyncio.ensure_future(schedules.carry_out(planner, [plan], term))
        await until_waiting(url)
        await claimer._raw.execute("SELECT FROM schedules FOR UPDATE")
        await claimer._raw.execute("SELECT FROM tasks FOR UPDATE")
        await claimer._raw.execute("ROLLBACK")
        await taker._raw.execute("ROLLBACK")
        assert await planning == [True]


async def test_two_nodes_are_not_drained_at_once(url: str, world: World) -> None:
    """Each would count on the other."""
    async with open_transaction(url) as first, open_transaction(url) as second:
        await leases.take_turn_to_drain(first)
        await leases.drain(first, "a", world.now)
        turn = asyncio.ensure_future(leases.take_turn_to_drain(second))
        await until_waiting(url)
        await first._raw.execute("COMMIT")
        await turn
        assert {node.name for node in (await leases.view(second, world.now)).nodes if node.drained} <= {"a"}
        assert await second._raw.fetchval("SELECT name FROM drained_nodes") == "a"


async def until_waiting(url: str) -> None:
    """Until somebody waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    watcher = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(10):
            while not await watcher.fetchval(waiting):  # noqa: ASYNC110 - a lock of another connection tells nobody
                await asyncio.sleep(0.01)
    finally:
        await watcher.close()
