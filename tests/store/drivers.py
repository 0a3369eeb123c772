"""The databases that the behaviour suite runs on, and one that needs no event loop.

A driver is an async context manager: given an empty folder it yields a store that is open, and closes it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

from tasktick.clock import StoreClock, SystemClock
from tasktick.store import postgres as postgres_driver
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.database import SqliteDatabase, open_sqlite
from tasktick.store.migrate import migrate
from tasktick.store.postgres_database import PostgresDatabase, open_postgres
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Batch, Database, Lane, Operation
from tasktick.store.sqlite import WRITER_PRAGMAS, read_with, step, write_with
from tests import pooler, postgres

T = TypeVar("T")
EVER = 2**62
CLOCK_OF_THE_SERVER = postgres_driver.CLOCK
_ask_for_time: set[object] = set()
_models: dict[postgres.Cluster, str] = {}
Driver = Callable[[Path], AbstractAsyncContextManager[Database]]


def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a loop that the test itself ends."""
    return asyncio.create_task(work, name=name)


def unexpected(error: BaseException) -> None:
    """A store that breaks fails the test that did not mean to break it."""
    raise AssertionError(f"the store broke: {error}")


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[SqliteDatabase]:
    """The embedded store as the daemon opens it."""
    database = await open_sqlite(folder / "tasktick.db", spawn, unexpected)
    try:
        yield database
    finally:
        await database.close()


@contextmanager
def clock_of_the_caller() -> Iterator[None]:
    """Statements go by the time that they are given, as they do on SQLite, until the last who asked has left."""
    asking = object()
    _ask_for_time.add(asking)
    postgres_driver.CLOCK = ":now"
    try:
        yield
    finally:
        _ask_for_time.discard(asking)
        if not _ask_for_time:
            postgres_driver.CLOCK = CLOCK_OF_THE_SERVER


@asynccontextmanager
async def empty_store(version: str) -> AsyncIterator[str]:
    """The URL of a database on the session's cluster that was opened once: a copy of the first, a tenth of the work."""
    cluster = postgres.cluster(version)
    if cluster not in _models:
        model = await cluster.new_database()
        with TemporaryDirectory() as folder:
            async with opened(PostgresAddress(model, "tests"), Path(folder)):
                _models[cluster] = model
    async with cluster.copied(_models[cluster]) as url:
        yield url


@asynccontextmanager
async def on_server(version: str, folder: Path) -> AsyncIterator[PostgresDatabase]:
    """A database of its own on the session's cluster."""
    async with empty_store(version) as url, opened(PostgresAddress(url, "tests"), folder) as database:
        yield database


@asynccontextmanager
async def opened(
    address: PostgresAddress, folder: Path, clock: StoreClock | None = None, ttl_ms: int = 10_000
) -> AsyncIterator[PostgresDatabase]:
    """A PostgreSQL store as the daemon opens it; without a clock to be told the server's time, the caller's counts."""
    if clock is None:
        clock = StoreClock(SystemClock())
        with clock_of_the_caller():
            async with opened(address, folder, clock, ttl_ms) as database:
                yield database
        return
    database = await open_postgres(address, folder, spawn=spawn, clock=clock, random=Random(7), ttl_ms=ttl_ms)
    try:
        yield database
    finally:
        await database.close()


class MovingDatabase:
    """A PostgreSQL store in which whatever has finished is in history as soon as it is committed."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.history = database.history

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        result = await self._database.write(operation, lane)
        await self._move()
        return result

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        results = await self._database.write_batch(batch, items)
        await self._move()
        return results

    async def _move(self) -> None:
        self.history.restart()
        while await self.history.move(EVER):
            pass


@asynccontextmanager
async def moving(version: str, folder: Path) -> AsyncIterator[Database]:
    """The same, with history as busy as it can be."""
    async with on_server(version, folder) as database:
        yield MovingDatabase(database)


def skip_where_history_moves(database: Database) -> None:
    """For tests of what is removed row by row: from history it goes by the day."""
    if isinstance(database, MovingDatabase):
        pytest.skip("what has finished is in history")


DRIVERS: dict[str, Driver] = {"sqlite": sqlite} | {
    f"postgres-{version}": partial(on_server, version) for version in postgres.installed()
}
# Not among the versions: chosen by name, and for the suites that must not see where a finished task is.
MOVING: dict[str, Driver] = {
    f"history-{version}": partial(moving, version) for version in sorted(postgres.installed())[-1:]
}
if os.environ.get("TASKTICK_AT_LENGTH"):  # the whole suite once more, longer than CI has time for
    DRIVERS |= MOVING


@asynccontextmanager
async def through_pooler(version: str, folder: Path) -> AsyncIterator[PostgresDatabase]:
    """A database of its own, behind pgbouncer: `TASKTICK_TEST_POOLER=1` lets the suite run on it too."""
    cluster = postgres.cluster(version)
    with pooler.pooled(cluster) as port:
        url = await cluster.new_database()
        address = PostgresAddress(pooler.through(url, port), "tests", keep_statements=False)
        async with opened(address, folder) as database:
            yield database


if os.environ.get("TASKTICK_TEST_POOLER"):
    DRIVERS |= {f"pooler-{version}": partial(through_pooler, version) for version in sorted(postgres.installed())[-1:]}


def chosen() -> Driver:
    """The store for suites that run on one: SQLite, or what TASKTICK_TEST_STORE names (`postgres`: the newest)."""
    name = os.environ.get("TASKTICK_TEST_STORE", "sqlite")
    return DRIVERS[max(DRIVERS.keys() - {"sqlite"}, default=name) if name == "postgres" else name]


class InlineDatabase:
    """The real SQL on a connection in memory, in the caller's own thread: its coroutines never wait."""

    def __init__(self, raw: RawConnection | None = None, *, shared: bool = False) -> None:
        self.shared = shared
        self.raw = raw or raw_connection(Path(":memory:"), WRITER_PRAGMAS)
        migrate(self.raw)

    @property
    def near(self) -> "InlineDatabase":
        return self

    @property
    def term(self) -> "InlineDatabase":
        return self

    @property
    def home(self) -> str:
        return ""

    async def read(self, operation: Operation[T]) -> T:
        return read_with(self.raw, operation)

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        del lane
        return write_with(self.raw, lambda tx: step(operation(tx)))

    async def tidy(self, now: int, before: int) -> bool:
        del now, before
        return False

    async def number_events(self) -> bool:
        return False

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        return await self.write(lambda tx: batch.operation(tx, items))
