"""Every migration has its way back: up, filled, down to each version, up again, and all that must hold does."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog

from tasktick.clock import SystemClock
from tasktick.errors import StoreError
from tasktick.model.state import State
from tasktick.store import check, counts, events, leases, listing, postgres_check, postgres_migrate, tenants
from tasktick.store.connect import PostgresConnection
from tasktick.store.events import Told
from tasktick.store.leases import Start
from tasktick.store.listing import TaskFilter
from tasktick.store.migrate import Migration, Step, available
from tasktick.store.opening import Place
from tasktick.store.postgres_links import PostgresAddress, connect_patiently
from tasktick.store.protocol import Database
from tasktick.store.stopped import _file_turn
from tests import postgres
from tests.store.calendar import Calendar
from tests.store.drivers import EVER, opened, sqlite
from tests.store.told import items as told_items
from tests.store.world import TENANT, World

VERSIONS = [one.version for one in available()]
NEWEST = VERSIONS[-1]
STORES = ["sqlite", *(pytest.param(version, marks=pytest.mark.postgres) for version in sorted(postgres.installed()))]


class Store:
    """A store at rest: opened to be filled and read, turned and checked in between."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        self._folder = folder

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Database]:
        if isinstance(self.place, Path):
            async with sqlite(self._folder) as database:
                yield database
        else:
            async with opened(self.place, self._folder) as database:
                yield database
                # What has finished is in history when the way back begins.
                while await database.history.move(EVER):
                    pass

    async def turn(self, to: int, *, lose_data: bool = True) -> list[Migration]:
        if isinstance(self.place, Path):
            return _file_turn(self.place, to, lose_data=lose_data).steps
        if await postgres_check.version(self.place) <= to:
            return await postgres_check.steps(self.place, only_check=False, to=to)
        return await postgres_check.back(self.place, to, lose_data=lose_data)

    async def items(self) -> list[Any]:
        """What is told, as it is written."""
        wanted = "SELECT items FROM events ORDER BY sequence"
        if isinstance(self.place, Path):
            with closing(sqlite3.connect(self.place)) as file:
                return [json.loads(items) for (items,) in file.execute(wanted)]
        raw = await connect_patiently(self.place)
        try:
            return [json.loads(items) for (items,) in await raw.fetch(wanted)]
        finally:
            await raw.close()

    async def faults(self) -> list[check.Check]:
        report = check.check(self.place) if isinstance(self.place, Path) else await postgres_check.check(self.place)
        return [one for one in report.checks if not one.ok]


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        yield Store(tmp_path / "tasktick.db", tmp_path)
        return
    async with postgres.cluster(request.param).new_schema() as url:
        yield Store(PostgresAddress(url, "tests"), tmp_path)


async def fill(database: Database) -> list[str]:
    """Something of everything; the tasks that every version can hold."""
    world = World(database)
    await world.start()
    ended = [await world.claimed(key=f"k-{n}") for n in range(3)]
    await world.finish(ended[0])
    await world.finish(ended[1], 404)
    waiting = await world.create(key="waiting")
    calendar = Calendar(world)
    name = await calendar.create()
    fire = await calendar.run_ahead(name)
    await world.finish(fire)
    await world.database.write(lambda tx: tenants.put(tx, "acme", max_pending=5, create_rate="5/s", now=world.now))
    return [one.id for one in ended] + [waiting, fire.id]


async def there(database: Database) -> list[str]:
    return await database.read(lambda tx: listing.ids_page(tx, TENANT, TaskFilter(), beyond=None, limit=100))


@pytest.mark.slow
@pytest.mark.parametrize("to", [0, *VERSIONS])
async def test_down_and_up_again(store: Store, to: int) -> None:
    async with store.open() as database:
        kept = await fill(database)
    assert await store.faults() == []
    undone = await store.turn(to)
    assert [one.version for one in undone] == [one for one in reversed(VERSIONS) if one > to]
    assert [one.version for one in await store.turn(NEWEST)] == [one for one in VERSIONS if one > to]
    assert await store.faults() == []
    async with store.open() as database:
        found = await there(database)
        assert set(found) >= set(kept) if to else found == []
        kept_counts = {one.state: one.tasks for one in await database.read(lambda tx: counts.read(tx, TENANT))}
        assert sum(kept_counts.values()) == len(found)
        # It is a store like any other.
        world = World(database, seed=99)
        await world.start("incarnation-2")
        assert await world.finish(await world.claimed()) is State.SUCCEEDED
    assert await store.faults() == []


async def test_a_store_that_is_behind_says_so_before_it_is_brought_up_to_date(store: Store) -> None:
    """Of a large one that takes minutes; a new one has nothing to wait for."""
    with structlog.testing.capture_logs() as logs:
        async with store.open():
            pass
    assert [one["event"] for one in logs if "migrat" in one["event"]] == ["store_migrated"]
    await store.turn(NEWEST - 1)
    with structlog.testing.capture_logs() as logs:
        async with store.open():
            pass
    told = [(one["event"], one["version"]) for one in logs if "migrat" in one["event"]]
    assert told == [("store_migrating", NEWEST - 1), ("store_migrated", NEWEST)]


@pytest.mark.slow
@pytest.mark.postgres
async def test_what_was_cut_off_on_its_way_up_begins_anew_after_a_way_back(
    newest_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are gone, and with them the indexes of the step that had been taken."""
    store = Store(PostgresAddress(newest_server, "tests"), tmp_path)
    async with store.open() as database:
        await fill(database)
    await store.turn(NEWEST - 1)
    with monkeypatch.context() as patched:
        patched.setattr(postgres_migrate, "_inside", _cut_off)
        with pytest.raises(StoreError, match="nowhere"):
            await store.turn(NEWEST)
    await store.turn(0)
    assert [one.version for one in await store.turn(NEWEST)] == VERSIONS
    assert await store.faults() == []


def _cut_off(step: Step) -> str:
    del step
    return "SELECT 1 FROM nowhere"


@pytest.mark.slow
async def test_what_would_be_lost_is_named_and_nothing_is_done(store: Store) -> None:
    async with store.open() as database:
        await fill(database)
    assert [one.version for one in await store.turn(NEWEST - 1, lose_data=False)] == [NEWEST]
    await store.turn(NEWEST)
    with pytest.raises(StoreError, match=r"to version 2 would lose .*1 schedules.*--lose-data"):
        await store.turn(2, lose_data=False)
    assert await store.turn(NEWEST) == []
    assert await store.faults() == []


@pytest.mark.slow
async def test_a_way_back_that_was_cut_off_goes_on(store: Store) -> None:
    async with store.open() as database:
        kept = await fill(database)
    if isinstance(store.place, Path):
        pytest.skip("a file goes back in one transaction")
    raw = await connect_patiently(store.place)
    try:
        await raw.execute("BEGIN; LOCK TABLE schema_steps IN SHARE MODE")
        other = await connect_patiently(store.place)
        await other.execute("SET lock_timeout = '300ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await postgres_migrate.migrate_back(other, 5, lose_data=False)
        await other.close()
    finally:
        await raw.close()
    assert [one.version for one in await store.turn(5, lose_data=False)] == list(range(NEWEST, 5, -1))
    await store.turn(NEWEST)
    async with store.open() as database:
        assert set(await there(database)) >= set(kept)
    assert await store.faults() == []


@pytest.mark.slow
@pytest.mark.postgres
async def test_what_came_since_a_way_back_was_cut_off_goes_back_too(newest_server: str, tmp_path: Path) -> None:
    """A view of somebody's own is in the way; the store is served again, and finishes more; then it is tried again."""
    place = PostgresAddress(newest_server, "tests")
    store = Store(place, tmp_path)
    async with store.open() as database:
        kept = await fill(database)
    raw = await connect_patiently(place)
    try:
        await raw.execute("CREATE VIEW of_mine AS SELECT id FROM all_tasks")
        with pytest.raises(StoreError, match=r"cannot be migrated: .*of_mine.*run the command again"):
            await store.turn(5)
        async with store.open() as database:
            world = World(database, seed=99)
            await world.start("incarnation-2")
            later = await world.claimed()
            assert await world.finish(later) is State.SUCCEEDED
        assert await raw.fetchval("SELECT count(*) FROM finished_tasks") > 0
        await raw.execute("DROP VIEW of_mine")
        await store.turn(5)
        await store.turn(NEWEST)
        async with store.open() as database:
            assert set(await there(database)) >= {*kept, later.id}
        assert await store.faults() == []
    finally:
        await raw.close()


@pytest.mark.slow
@pytest.mark.postgres
async def test_what_a_sleeping_node_moves_during_the_way_back_is_not_dropped(
    newest_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PostgresAddress(newest_server, "tests")
    store = Store(place, tmp_path)
    async with store.open() as database:
        kept = await fill(database)
    with monkeypatch.context() as patched:
        patched.setattr(postgres_migrate, "_outside", _but_batches)
        with pytest.raises(StoreError, match="a node has moved tasks meanwhile"):
            await store.turn(5)
    await store.turn(5)
    await store.turn(NEWEST)
    async with store.open() as database:
        assert set(await there(database)) >= set(kept)


_outside = postgres_migrate._outside


async def _but_batches(raw: PostgresConnection, step: Step) -> None:
    """As if the node had moved all of it back meanwhile."""
    if step.kind != "batches":
        await _outside(raw, step)


TEXT = """-- min_reader: 1
CREATE TABLE extra (n integer);
INSERT INTO extra SELECT generate_series(1, 1200);
-- step: batches
DELETE FROM extra WHERE ctid IN (SELECT ctid FROM extra WHERE n > 100 LIMIT 500);
-- step: alone
DROP INDEX CONCURRENTLY IF EXISTS extra_n;
CREATE INDEX CONCURRENTLY extra_n ON extra (n);
"""


@pytest.mark.slow
@pytest.mark.postgres
async def test_steps_run_outside_a_transaction_and_go_on_where_they_stood(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(store.place, Path):
        pytest.skip("a file is migrated in one transaction")
    async with store.open():
        pass
    ours = available("postgres")
    brings: Callable[[str], None] = lambda text: monkeypatch.setattr(  # noqa: E731 - a word for the test
        postgres_migrate, "available", lambda dialect: [*ours, Migration(NEWEST + 1, "extra", text, 1)]
    )
    broken = TEXT + "SELECT 1 / 0;\n"
    brings(broken)
    raw, holder = await connect_patiently(store.place), await connect_patiently(store.place)
    try:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await postgres_migrate.migrate(raw)
        assert await raw.fetchval("SELECT count(*) FROM extra") == 100
        assert len(await postgres_migrate.applied(raw)) == len(VERSIONS)
        await raw.execute("INSERT INTO extra VALUES (200)")
        monkeypatch.setattr(Migration, "checksum", property(lambda self: self.name))
        await raw.execute("UPDATE schema_steps SET checksum = 'extra'")
        await raw.execute("UPDATE schema_history SET checksum = name")
        brings(TEXT)
        assert [one.name for one in await postgres_migrate.migrate(raw)] == ["extra"]
        assert await raw.fetchval("SELECT count(*) FROM extra") == 101, "the batches were done, and are not done again"
        assert await raw.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid = 'extra_n'::regclass")
        assert await raw.fetchval("SELECT count(*) FROM schema_steps") == 0
    finally:
        await raw.close()
        await holder.close()


@pytest.mark.slow
@pytest.mark.postgres
async def test_events_without_a_number_have_theirs_on_the_way_back(newest_server: str, tmp_path: Path) -> None:
    place = PostgresAddress(newest_server, "tests")
    store = Store(place, tmp_path)
    async with store.open() as database:
        await fill(database)
        await database.number_events()
        numbered = (await database.read(events.edges)).newest
        for tenant in ("a", "b"):
            items = {tenant: [(tenant, 2, 4, 0, 1)] * 3}
            await database.write(lambda tx, items=items: events.record(tx, items, 0))  # type: ignore[misc] # bound
    await store.turn(10)
    raw = await connect_patiently(place)
    try:
        rows = await raw.fetch("SELECT sequence, upto, items FROM events ORDER BY sequence DESC LIMIT 3")
        assert [row[0] for row in rows] == [numbered + 2, numbered + 1, numbered]
        assert [row[1] - rows[2][1] for row in rows] == [6, 3, 0]
        assert [next(iter(json.loads(row[2]))) for row in rows[:2]] == ["b", "a"]
        (head,) = await raw.fetch("SELECT sequence, upto FROM event_head")
        assert tuple(head) == tuple(rows[0])[:2]
    finally:
        await raw.close()
    await store.turn(NEWEST)
    async with store.open() as database:
        world = World(database, seed=99)
        await world.start("incarnation-2")
        await world.create()
        assert not await database.number_events()
        assert (await database.read(events.edges)).newest == numbered + 3
    assert await store.faults() == []


async def test_nothing_that_they_could_not_read_is_made_under_nodes_that_run(
    newest_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = available("postgres")
    address = PostgresAddress(newest_server, "tests")
    async with opened(address, tmp_path) as database:
        start = Start("incarnation", "node-a", 10_000)
        now = SystemClock().now_ms()
        await database.write(lambda tx: leases.join(tx, start, now))
    raw = await connect_patiently(address)
    try:
        for min_reader, may in ((NEWEST + 1, False), (NEWEST, True)):
            extra = Migration(NEWEST + 1, "extra", "CREATE TABLE extra (n integer)", min_reader)
            with monkeypatch.context() as patched:
                patched.setattr(postgres_migrate, "available", lambda dialect, extra=extra: [*ours, extra])
                if may:
                    assert [one.name for one in await postgres_migrate.migrate(raw)] == ["extra"]
                else:
                    with pytest.raises(StoreError, match="node-a"):
                        await postgres_migrate.migrate(raw)
                    assert await raw.fetchval("SELECT to_regclass('extra')") is None
    finally:
        await raw.close()


async def test_what_was_told_together_is_told_apart_on_the_way_back(store: Store) -> None:
    a, b, c, d = (f"{n:032x}" for n in range(4))
    told = Told(7)
    told.add("y", "schedule.created", f"sch_{d}", x=[1, "2"])
    together: dict[str, list[Any]] = {
        "x": [(a + b, 2, 4, 7, 1), (c, 4, 5, 7, 1), (c + a + b, 5, 4, 8, None)],
        "y": [(d, 4, 10, 7, 1)],
    }
    async with store.open() as database:
        await database.write(lambda tx: events.record(tx, together, 7))
        await database.write(told.write)
        await database.number_events()
        before = await database.read(told_items)
    await store.turn(20)
    assert await store.items() == [
        {
            "x": [
                *([a, 2, 4, 7, 1], [b, 2, 4, 7, 1], [c, 4, 5, 7, 1]),
                *([c, 5, 4, 8, None], [a, 5, 4, 8, None], [b, 5, 4, 8, None]),
            ],
            "y": [[d, 4, 10, 7, 1]],
        },
        {"y": [[f"sch_{d}", 0, 0, 7, None, "schedule.created", {"x": [1, "2"]}]]},
    ]
    await store.turn(NEWEST)
    async with store.open() as database:
        assert await database.read(told_items) == before
