"""History on a PostgreSQL: what has finished moves, comes back when it is wanted, and goes by the day.

That it is found wherever it is, is the whole suite's matter (the driver `history-…`, `make test-history`); here it
moves in the middle of things.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tasktick.errors import StoreError
from tasktick.model import change
from tasktick.model.state import State
from tasktick.store import attempts, counts, listing, postgres_history, tasks
from tasktick.store.listing import TaskFilter
from tasktick.store.postgres_check import check
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_history import DAY_MS, Place, day_of
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Lane
from tests import postgres
from tests.store.drivers import EVER, opened
from tests.store.world import NOW, TENANT, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
TODAY = day_of(NOW)


class Archive:
    """A world on a PostgreSQL whose history moves when it is told to."""

    def __init__(self, database: PostgresDatabase, address: PostgresAddress) -> None:
        self.world = World(database)
        self.database = database
        self.address = address

    async def move(self, before: int = EVER) -> int:
        """Move what finished by then; how many are in history."""
        self.database.history.restart()
        while await self.database.history.move(before):
            pass
        return await self.rows("finished_tasks")

    async def rows(self, table: str) -> int:
        """How many rows a table has."""
        (found,) = await self.fetch(f"SELECT count(*) AS rows FROM {table}")
        return int(found["rows"])

    async def let_go(self, before: int) -> list[int]:
        """Let the days go that were over by then; which ones."""
        gone: list[int] = []
        while (day := await self.database.write(lambda tx: postgres_history.let_go(tx, before))) is not None:
            gone.append(day)
        return gone

    async def days_from(self, first: int) -> int:
        """How many days have tables, from this one on: those of the machine's own time are earlier."""
        return await self.rows(f"history_days WHERE from_at >= {first}")

    async def fetch(self, text: str) -> list[asyncpg.Record]:
        """What a statement of the test's own finds."""
        raw = await asyncpg.connect(self.address.url)
        try:
            found: list[asyncpg.Record] = await raw.fetch(text)
            return found
        finally:
            await raw.close()

    async def someone_waits(self) -> None:
        """Return once a connection waits for a lock."""
        async with asyncio.timeout(10):
            while not await self.fetch("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                pass

    async def finished(self, count: int, status: int = 200) -> list[str]:
        """So many tasks that have ended, a second apart."""
        ids = []
        for _ in range(count):
            claimed = await self.world.claimed()
            await self.world.finish(claimed, status)
            ids.append(claimed.id)
            self.world.now += 1_000
        return ids

    async def page(self, beyond: str | None = None, limit: int = 100, **by: object) -> list[str]:
        """A page of a client's list."""
        wanted = TaskFilter(**by)  # type: ignore[arg-type] # as a client's words
        return await self.database.read(lambda tx: listing.ids_page(tx, TENANT, wanted, beyond=beyond, limit=limit))

    async def check(self) -> None:
        """All that must hold, does."""
        await self.world.check_counts()
        report = await check(self.address)
        assert report.ok, [one for one in report.checks if not one.ok]


@pytest.fixture(params=sorted(postgres.installed()))
async def archive(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Archive]:
    async with postgres.cluster(request.param).new_schema() as url:
        address = PostgresAddress(url, "tests")
        async with opened(address, tmp_path) as database:
            archive = Archive(database, address)
            await archive.world.start()
            yield archive
            await archive.check()


@pytest.mark.slow
async def test_what_has_finished_moves_with_all_that_hangs_on_it(archive: Archive) -> None:
    ids = await archive.finished(3)
    waiting = await archive.world.create()
    assert await archive.move() == 3
    assert await archive.rows("tasks") == await archive.rows("task_details") == 1
    assert (await archive.rows("attempts"), await archive.rows("finished_attempts")) == (0, 3)
    assert await archive.page() == [waiting, *reversed(ids)]
    assert await archive.page(states=[int(State.SUCCEEDED)]) == ids[::-1]
    assert await archive.page(states=[int(State.SCHEDULED), 3]) == [waiting]
    views = await archive.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [(view.state.id, view.payload.target.body) for view in views] == [(one, '{"n": 1}') for one in ids]


@pytest.mark.slow
async def test_what_ended_a_moment_ago_and_the_dead_stay(archive: Archive) -> None:
    ids = await archive.finished(2)
    dead = await archive.world.claimed()
    await archive.world.finish(dead, 404)
    assert await archive.move((await archive.world.state(ids[0])).completed_at or 0) == 1
    assert await archive.move() == 2
    assert [row.state for row in (await archive.world.state(dead.id), await archive.world.state(ids[1]))] == [11, 10]
    assert len(await archive.world.dead_letters()) == 1


@pytest.mark.slow
async def test_pages_neither_lose_nor_repeat_what_moves_between_them(archive: Archive) -> None:
    ids = await archive.finished(5) + [await archive.world.create()] + await archive.finished(4)
    seen: list[str] = []
    for nth in range(5):
        seen += await archive.page(seen[-1] if seen else None, limit=2)
        await archive.move(NOW + nth * 2_500)
    assert seen == ids[::-1]


@pytest.mark.slow
async def test_a_snapshot_has_each_task_once_while_all_of_them_move(archive: Archive) -> None:
    ids = await archive.finished(12)
    done = asyncio.Event()

    async def look() -> int:
        looks = 0
        while not done.is_set():
            assert await archive.page() == ids[::-1]
            looks += 1
        return looks

    looking = asyncio.create_task(look())
    for at in range(12):
        await archive.move(NOW + at * 1_000)
    done.set()
    assert await looking > 0


@pytest.mark.slow
async def test_a_finished_task_comes_back_to_be_run_again(archive: Archive) -> None:
    (task_id,) = await archive.finished(1)
    await archive.move()
    after = await archive.world.act("run", task_id)
    assert after.state is State.SCHEDULED
    assert (await archive.rows("tasks"), await archive.rows("finished_tasks")) == (1, 0)
    assert len(await archive.world.attempts(task_id)) == 1
    (again,) = await archive.world.claim(task_id)
    await archive.world.finish(again)
    await archive.move()
    assert [one.attempt for one in await archive.world.attempts(task_id)] == [1, 2]


@pytest.mark.slow
async def test_who_changes_what_is_being_moved_waits_and_finds_it(archive: Archive) -> None:
    """The move is open when the change begins: it waits, and takes the row back from where it is by then."""
    (task_id,) = await archive.finished(1)
    await archive.database.history.make_days([TODAY])
    made = change.ACTIONS["run"](await archive.world.state(task_id), archive.world.now)
    is_moved = asyncio.Event()
    may_commit = asyncio.Event()

    async def slow_move(tx: object) -> None:
        found = await postgres_history.move(tx, EVER, Place())  # type: ignore[arg-type] # a transaction
        assert found is not None
        assert found.rows == 1
        is_moved.set()
        await may_commit.wait()

    moving = asyncio.create_task(archive.database.write(slow_move, Lane.UPKEEP))
    await is_moved.wait()
    changing = asyncio.create_task(archive.world.write(made))
    await archive.someone_waits()
    may_commit.set()
    await moving
    assert await changing == [task_id]
    assert (await archive.world.state(task_id)).state is State.SCHEDULED


@pytest.mark.slow
async def test_what_is_in_history_is_deleted_like_any_other(archive: Archive) -> None:
    ids = await archive.finished(3)
    await archive.move()
    rows = [(one, TENANT, int(State.SUCCEEDED)) for one in ids[:2]]
    await archive.database.write(lambda tx: tasks.delete(tx, rows, at=archive.world.now))
    assert await archive.page() == [ids[2]]
    with pytest.raises(StoreError):
        await archive.database.write(lambda tx: tasks.delete(tx, rows[:1], at=archive.world.now))


@pytest.mark.slow
async def test_a_day_goes_at_once_with_its_counts_and_then_its_tables(archive: Archive) -> None:
    old = await archive.finished(3)
    archive.world.now += 2 * DAY_MS
    young = await archive.finished(2)
    assert await archive.move() == 5
    assert TODAY not in await archive.let_go(TODAY + DAY_MS - 1)
    assert await archive.let_go(TODAY + DAY_MS) == [TODAY]
    assert await archive.page() == young[::-1]
    assert await archive.database.read(lambda tx: tasks.states(tx, old)) == []
    assert await archive.database.read(lambda tx: attempts.of_task(tx, old[0])) == []
    assert (await archive.world.counted())[TENANT, counts.PURGED] == 3
    await archive.check()
    while await archive.fetch("SELECT 1 FROM history_days WHERE gone"):
        await archive.database.history.drop_leftovers()
    assert await archive.rows("finished_tasks") == 2


@pytest.mark.slow
async def test_a_day_of_long_ago_does_not_come_again(archive: Archive) -> None:
    """A row that ended on a day that is gone stays in the hot tables, for retention to remove by its age."""
    await archive.finished(1)
    await archive.move()
    assert TODAY in await archive.let_go(TODAY + DAY_MS)
    late = await archive.finished(1)
    assert await archive.move() == 1, "the row of the day that is gone, of which nobody is told"
    assert await archive.page() == late
    while await archive.fetch("SELECT 1 FROM history_days WHERE gone"):
        await archive.database.history.drop_leftovers()
    assert await archive.move() == 0


@pytest.mark.slow
async def test_days_are_made_ahead_and_a_wrong_clock_stands_in_nobodys_way(archive: Archive) -> None:
    assert not await archive.database.tidy(NOW, 0)
    assert await archive.days_from(TODAY) == 15
    archive.world.now += 400 * 365 * DAY_MS
    late = await archive.finished(1)
    assert not await archive.database.tidy(NOW + DAY_MS, 0)
    assert (await archive.days_from(TODAY), await archive.page()) == (16, late)


@pytest.mark.slow
async def test_no_more_is_moved_at_once_than_there_is_time_for(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred of the largest bodies take longer than a statement may: they go a few at a time."""
    ids = await archive.finished(5)
    monkeypatch.setattr(postgres_history, "BYTES_MAX", 1)
    await archive.database.history.make_days([TODAY])
    archive.database.history.restart()
    for moved in range(1, 6):
        assert await archive.database.history.move(EVER) == (moved < 5)
        assert await archive.rows("finished_tasks") == moved
    assert await archive.page() == ids[::-1]


@pytest.mark.slow
async def test_readers_are_not_waited_for_when_days_are_made(archive: Archive) -> None:
    raw = await asyncpg.connect(archive.address.url)
    try:
        async with raw.transaction(isolation="repeatable_read", readonly=True):
            await raw.fetch("SELECT count(*) FROM finished_tasks")
            await archive.database.history.make_days([TODAY])
            assert await archive.days_from(TODAY) == 1
    finally:
        await raw.close()
    assert await archive.page() == []
