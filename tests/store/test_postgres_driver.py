"""PostgreSQL alone: who may open it, how it must be set, and what many connections at once may not break."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tasktick.errors import ConfigError, Refused, StoreError, StoreLocked
from tasktick.model import change
from tasktick.model.task import NewTask
from tasktick.store import leases, postgres_database, tenants
from tasktick.store import postgres as postgres_driver
from tasktick.store.leases import Start
from tasktick.store.names import StoredAnswer
from tasktick.store.postgres_check import check
from tasktick.store.postgres_database import PostgresDatabase, home_of
from tasktick.store.postgres_links import PostgresAddress, shown
from tasktick.store.protocol import Batch, Lane, Transaction
from tasktick.store.tasks import Create, create_many
from tests import postgres
from tests.store.drivers import CLOCK_OF_THE_SERVER, opened
from tests.store.world import TENANT, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]


@pytest.fixture
async def database(url: str, tmp_path: Path) -> AsyncIterator[PostgresDatabase]:
    async with opened(PostgresAddress(url, "tests"), tmp_path) as database:
        yield database


@pytest.fixture
async def world(database: PostgresDatabase) -> AsyncIterator[World]:
    world = World(database)
    await world.start()
    yield world
    await world.check_counts()


def _create(task: NewTask) -> Create:
    return Create(task)


def _alone() -> Batch:
    """A batch that shares no transaction with another."""
    return Batch("create", Lane.CREATE, create_many)


async def test_a_folder_is_one_daemons_and_a_database_many_daemons(url: str, tmp_path: Path) -> None:
    address = PostgresAddress(url, "tests")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(address, tmp_path / "a"))
        second = await stack.enter_async_context(opened(address, tmp_path / "b"))
        assert first.shared
        assert first.home != second.home
        with pytest.raises(StoreLocked, match="process"):
            await stack.enter_async_context(opened(address, tmp_path / "a"))
    async with opened(address, tmp_path / "a") as again:
        assert again.home == first.home


async def test_stores_that_are_opened_at_once_migrate_once(url: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        opening = (opened(PostgresAddress(url, "tests"), tmp_path / name) for name in "abc")
        await asyncio.gather(*(stack.enter_async_context(one) for one in opening))
    assert (await check(PostgresAddress(url, "tests"))).ok
    assert postgres_driver.CLOCK == CLOCK_OF_THE_SERVER  # whichever closed last


def test_a_copied_folder_proves_nothing_of_the_one_that_it_was_copied_from(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    home = home_of(tmp_path / "a", "machine", "boot")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert home_of(tmp_path / "a", "machine", "boot") == home
    assert home_of(tmp_path / "b", "machine", "boot") != home
    assert home_of(tmp_path / "a", "another", "boot") != home


async def test_a_machine_that_was_cloned_with_its_folder_proves_nothing_of_the_other(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was started by itself: the lock of another boot is another's."""
    homes = []
    for boot in ("one", "one", "another"):
        (tmp_path / "boot").write_text(boot)
        monkeypatch.setattr(postgres_database, "BOOT_ID", tmp_path / "boot")
        async with opened(PostgresAddress(url, "tests"), tmp_path) as database:
            homes.append(database.home)
    assert homes[0] == homes[1] != homes[2]


async def test_a_commit_must_mean_what_it_says(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="synchronous_commit is off"):
        async with opened(PostgresAddress(f"{url}&synchronous_commit=off", "tests"), tmp_path):
            pass


async def test_a_schema_must_be_there(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="search_path"):
        async with opened(PostgresAddress(url.replace("search_path=", "search_path=no_"), "tests"), tmp_path):
            pass


async def test_no_password_is_shown(tmp_path: Path) -> None:
    address = PostgresAddress("postgresql://somebody:s3cret@127.0.0.1:1/tasks?password=s3cret", "tests")
    with pytest.raises(StoreError, match=r"postgresql://somebody@127\.0\.0\.1:1/tasks cannot be opened") as caught:
        async with opened(address, tmp_path):
            pass
    assert "s3cret" not in str(caught.value)
    assert (
        shown("postgresql:///tasks?user=a&password=s3cret&host=/run/here")
        == "postgresql:///tasks?user=a&host=/run/here"
    )


async def test_it_works_without_prepared_statements(url: str, tmp_path: Path) -> None:
    async with opened(PostgresAddress(url, "tests", keep_statements=False), tmp_path) as database:
        world = World(database)
        await world.start()
        claimed = await world.claimed(key="k")
        await world.finish(claimed)
        await world.check_counts()


async def test_a_sound_store_and_a_damaged_one(url: str, database: PostgresDatabase, world: World) -> None:
    await world.create(key="k")
    report = await check(PostgresAddress(url, "tests"))
    assert report.ok, report
    assert {"schema", "structure", "counts", "payloads", "partitions"} <= {one.name for one in report.checks}
    connection = await asyncpg.connect(url)
    await connection.execute(
        "DROP INDEX tasks_waiting_by_slot; UPDATE task_details SET payload = NULL; UPDATE counts SET tasks = 7"
    )
    wrong = {one.name for one in (await check(PostgresAddress(url, "tests"))).checks if not one.ok}
    await connection.execute("UPDATE counts SET tasks = 1")
    await connection.close()
    assert wrong == {"structure", "payloads", "counts"}


async def test_creates_that_race_for_a_key_end_with_one_holder(world: World) -> None:
    for number in range(20):
        tasks = [world.task(key=f"key-{number}") for _ in range(3)]
        # Together they would be one batch.
        creates = (world.database.write_batch(_alone(), [one]) for one in map(_create, tasks))
        outcomes = [one for (one,) in await asyncio.gather(*creates)]
        assert outcomes.count(None) == 1
        assert [one.code for one in outcomes if isinstance(one, Refused)] == ["key_taken"] * 2


async def test_creates_that_race_under_one_idempotency_key_get_one_answer(world: World) -> None:
    for number in range(20):
        creates = [world.idempotent(world.task(), f"name-{number}") for _ in range(3)]
        work = (world.database.write_batch(_alone(), [one]) for one in creates)
        outcomes = [one for (one,) in await asyncio.gather(*work)]
        assert outcomes.count(None) == 1
        answered = next(one for one, outcome in zip(creates, outcomes, strict=True) if outcome is None)
        assert answered.answer is not None
        assert {one.body for one in outcomes if isinstance(one, StoredAnswer)} == {answered.answer.body}


async def test_creates_that_race_for_room_never_exceed_the_quota(world: World) -> None:
    await world.database.write(lambda tx: tenants.put(tx, TENANT, max_pending=5, create_rate=None, now=world.now))
    work = (world.database.write_batch(_alone(), [_create(world.task())]) for _ in range(30))
    outcomes = [one for (one,) in await asyncio.gather(*work)]
    assert outcomes.count(None) == 5


async def test_batches_in_opposite_order_do_not_stand_in_each_others_way(world: World) -> None:
    ids = [await world.create() for _ in range(20)]
    for _ in range(5):
        states = {one: await world.state(one) for one in ids}
        changes = [change.pause(states[one], world.now) for one in ids]
        written = await asyncio.gather(world.write(*changes), world.write(*reversed(changes)), world.claim(*ids))
        assert len(written[0]) + len(written[1]) + len(written[2]) == len(ids)
        for claimed in written[2]:
            await world.give_back(claimed, sent=False)
        for one in ids:
            if (await world.state(one)).state == 6:
                await world.act("resume", one)


async def test_what_another_folder_has_and_sends_is_left_to_the_end_of_its_time(url: str, tmp_path: Path) -> None:
    address = PostgresAddress(url, "tests")

    async def start(database: PostgresDatabase, incarnation: str, now: int) -> dict[int, int]:
        start = Start(incarnation, "node", 10_000, home=database.home)
        await database.write(lambda tx: leases.start_node(tx, start, now))
        return await database.write(lambda tx: leases.acquire(tx, incarnation, now))

    async with opened(address, tmp_path / "a") as database:
        world = World(database)
        world.incarnation, world.epochs = "one", await start(database, "one", world.now)
        running = await world.claimed()
    async with opened(address, tmp_path / "b") as database:
        world.database = database
        assert await start(database, "two", world.now) == {}
        world.now += 10_000
        world.incarnation, world.epochs = "two", await start(database, "three", world.now)
        assert len(world.epochs) == 256
        assert await world.rescue(running) is None
        world.now = running.lease_until
        assert await world.rescue(running) is not None


async def test_what_this_folder_had_and_sent_is_free_at_once(url: str, tmp_path: Path) -> None:
    address = PostgresAddress(url, "tests")
    async with opened(address, tmp_path) as database:
        world = World(database)
        start = Start("one", "node", 10_000, home=database.home)
        await database.write(lambda tx: leases.start_node(tx, start, world.now))
        world.incarnation, world.epochs = "one", await database.write(lambda tx: leases.acquire(tx, "one", world.now))
        running = await world.claimed()
    async with opened(address, tmp_path) as database:
        world.database = database
        start = Start("two", "node", 10_000, home=database.home)
        await database.write(lambda tx: leases.start_node(tx, start, world.now))
        assert len(await database.write(lambda tx: leases.acquire(tx, "two", world.now))) == 256
        assert await world.rescue(running) is not None


@pytest.mark.parametrize(("callers", "shares"), [(10, [10]), (64, [32, 32]), (16, [16]), (32, [16, 16])])
async def test_many_creates_are_parted_among_the_connections(
    database: PostgresDatabase, callers: int, shares: list[int]
) -> None:
    found: list[int] = []

    async def operation(tx: Transaction, items: list[Any]) -> list[Any]:
        found.append(len(items))
        return items

    batch = Batch("parted", Lane.CREATE, operation)
    assert await asyncio.gather(*(database.write_batch(batch, [n]) for n in range(callers))) == [
        [n] for n in range(callers)
    ]
    assert found == shares
