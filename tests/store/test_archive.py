"""The archive: what ended on a day is written whole, once, and dropped only if a file holds it."""

import gzip
import json
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from tasktick.errors import StoreError
from tasktick.model.state import State
from tasktick.store import archiving, counts, listing
from tasktick.store.archive import Folder
from tasktick.store.archiving import Access, Done, FileAccess, ServerAccess
from tasktick.store.connect import raw_connection
from tasktick.store.listing import TaskFilter
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import PostgresAddress, connect_patiently
from tasktick.store.sqlite import WRITER_PRAGMAS
from tests import postgres
from tests.store.drivers import EVER, opened, sqlite
from tests.store.world import TENANT, World

DAY = date(2027, 1, 15)  # of NOW
DAY_MS = 86_400_000
PARAMETERS = ["sqlite", *(pytest.param(one, marks=pytest.mark.postgres) for one in sorted(postgres.installed()))]


class Stock:
    """A store with two days of finished tasks, and the command's hands on it."""

    def __init__(self, world: World, access: Access, out: Path) -> None:
        self.world = world
        self.access = access
        self.out = out

    async def fill(self) -> list[str]:
        """Two that ended, one of them dead, then a day later another; one that is to come."""
        first = [await self.world.claimed() for _ in range(3)]
        await self.world.finish(first[0])
        await self.world.finish(first[1], 404)
        await self.world.finish(first[2], 500)
        self.world.now += DAY_MS
        (again,) = await self.world.claim(first[2].id)
        await self.world.finish(again)
        await self.world.create()
        await self.settle()
        return [one.id for one in first]

    async def settle(self) -> None:
        """Move what is finished, where there is a place for it."""
        database = self.world.database
        if isinstance(database, PostgresDatabase):
            database.history.restart()
            while await database.history.move(EVER):
                pass

    async def archive(self, days: int, *, drop: bool = False) -> list[Done]:
        """What the command does, up to so many days after the first."""
        folder = Folder(self.out, "store")
        before = DAY + timedelta(days=days)
        return await archiving.archive(self.access, folder, before, drop=drop, told=lambda one: None)

    async def left(self) -> set[str]:
        """The tasks in the store."""
        pages = await self.world.database.read(
            lambda tx: listing.ids_page(tx, TENANT, TaskFilter(), beyond=None, limit=100)
        )
        return set(pages)


def lines(path: Path) -> list[dict[str, object]]:
    with gzip.open(path) as packed:
        return [json.loads(line) for line in packed]


@pytest.fixture(params=PARAMETERS)
async def stock(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stock]:
    out = tmp_path / "archive"
    if request.param == "sqlite":
        async with sqlite(tmp_path) as database:
            raw = raw_connection(tmp_path / "tasktick.db", WRITER_PRAGMAS)
            world = World(database)
            await world.start()
            yield Stock(world, FileAccess(raw), out)
            raw.close()
            await world.check_counts()
        return
    async with postgres.cluster(request.param).new_schema() as url:
        address = PostgresAddress(url, "tests")
        async with opened(address, tmp_path) as server:
            connection = await connect_patiently(address)
            world = World(server)
            await world.start()
            yield Stock(world, ServerAccess(connection), out)
            await connection.close()
            await world.check_counts()


@pytest.mark.slow
async def test_a_day_is_written_whole_and_once(stock: Stock) -> None:
    first, dead, late = await stock.fill()
    (done,) = await stock.archive(1)
    assert (done.day, done.file.tasks, done.file.attempts, done.was_there) == ("2027-01-15", 2, 2, False)
    found = {str(one["id"]): one for one in lines(stock.out / done.name)}
    assert {one: str(found[f"tsk_{one}"]["outcome"]) for one in (first, dead)} == {first: "succeeded", dead: "dead"}
    assert len(found[f"tsk_{dead}"]["dead_letters"]) == 1  # type: ignore[arg-type] # a list
    assert found[f"tsk_{first}"]["payload"]["target"]["body"] == '{"n": 1}'  # type: ignore[index] # an object
    again, more = await stock.archive(2)
    assert (again.was_there, again.file) == (True, done.file)
    assert [one["attempts"][-1]["attempt"] for one in lines(stock.out / more.name)] == [2]  # type: ignore[index] # a list
    assert late in str(lines(stock.out / more.name)[0]["id"])
    assert len(await stock.left()) == 4


@pytest.mark.slow
async def test_what_is_dropped_is_what_a_file_holds(stock: Stock) -> None:
    first, dead, late = await stock.fill()
    (done,) = await stock.archive(1, drop=True)
    assert done.file.dropped
    assert await stock.left() & {first, dead, late} == {late}
    kept = await stock.world.database.read(lambda tx: counts.read(tx, TENANT))
    assert {one.state: one.tasks for one in kept if one.tasks}[counts.PURGED] == 2
    assert await stock.archive(1, drop=True) == []
    assert await stock.world.dead_letters(unresolved=None) == []


@pytest.mark.slow
async def test_what_has_changed_since_it_was_written_stays(stock: Stock) -> None:
    first, dead, late = await stock.fill()
    await stock.archive(1)
    for one in (first, dead):
        await stock.world.act("run" if one == first else "retry", one)
    kept = sorted(one.name for one in stock.out.iterdir())
    done = await stock.archive(2, drop=True)
    assert await stock.left() >= {first, dead}
    assert late not in await stock.left()
    assert (await stock.world.state(first)).state is State.SCHEDULED
    assert [one.day for one in done] == ["2027-01-16"]
    assert {one.name for one in stock.out.iterdir()} >= set(kept), "what was written once is kept"


@pytest.mark.slow
async def test_a_file_that_was_touched_drops_nothing(stock: Stock) -> None:
    first, dead, _ = await stock.fill()
    stock_file = (await stock.archive(1))[0].name
    with (stock.out / stock_file).open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match="not as it was written"):
        await stock.archive(1, drop=True)
    assert await stock.left() >= {first, dead}


@pytest.mark.slow
async def test_what_was_cut_off_begins_again(stock: Stock) -> None:
    await stock.fill()
    stock.out.mkdir()
    (stock.out / "finished-2027-01-15.jsonl.gz.part").write_bytes(b"half")
    (stock.out / "finished-2027-01-15.jsonl.gz").write_bytes(b"renamed, but not in the manifest")
    (done,) = await stock.archive(1)
    assert len(lines(stock.out / done.name)) == 2
    assert sorted(one.name for one in stock.out.iterdir()) == [done.name, "manifest.json"]


@pytest.mark.slow
async def test_a_day_with_as_many_other_tasks_is_written_again(stock: Stock) -> None:
    """One that was written is run again and goes; one that a wrong clock dates back to that day comes."""
    first, dead, _ = await stock.fill()
    await stock.archive(1)
    now, stock.world.now = stock.world.now, stock.world.now - DAY_MS
    dated_back = await stock.world.claimed()
    await stock.world.finish(dated_back)
    stock.world.now = now
    await stock.world.act("run", first)
    await stock.settle()
    await stock.archive(1, drop=True)
    written = "".join(str(lines(one)) for one in stock.out.iterdir() if one.suffix == ".gz")
    assert dated_back.id in written or dated_back.id in await stock.left()
    assert await stock.left() & {first, dead} == {first}


@pytest.mark.slow
async def test_what_is_written_is_private_and_by_one_at_a_time(stock: Stock) -> None:
    await stock.fill()
    (done,) = await stock.archive(1)
    assert {one.stat().st_mode & 0o777 for one in stock.out.iterdir()} == {0o600}
    assert stock.out.stat().st_mode & 0o777 == 0o700
    (stock.out / f"{done.name}.part").symlink_to(stock.out / done.name)
    with Folder(stock.out, "store").held(), pytest.raises(StoreError, match="Another archive"):
        await stock.archive(2)
    assert len(await stock.archive(2)) == 2


def test_another_store_has_its_own_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "one")
    (tmp_path / "manifest.json").write_bytes(b'{"store": "two", "format": "tasktick-archive/1"}')
    assert folder.manifest.files == {}
    with pytest.raises(StoreError, match="archive of two"):
        Folder(tmp_path, "one")
    (tmp_path / "manifest.json").write_bytes(b"[]")
    with pytest.raises(StoreError, match="no manifest"):
        Folder(tmp_path, "one")
