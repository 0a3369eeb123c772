"""A PostgreSQL store beside sessions that each stand where a test wants them: writers, numberers, others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from tasktick.store import events
from tasktick.store.events import Numbered
from tasktick.store.postgres import BEGIN_WRITE, PostgresTransaction
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import PostgresAddress
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import TENANT

# What somebody else writes in the same database, and does not end.
FOREIGN = "CREATE TABLE IF NOT EXISTS foreign_to_us (n integer); BEGIN; INSERT INTO foreign_to_us VALUES (1)"


class Place:
    """A store, and further sessions on its server, each held where a test wants it."""

    def __init__(self, url: str, database: PostgresDatabase) -> None:
        self.url = url
        self.database = database
        self.raws: list[asyncpg.Connection] = []

    async def session(self, begin: str = "") -> asyncpg.Connection:
        raw = await asyncpg.connect(self.url)
        self.raws.append(raw)
        if begin:
            await raw.execute(begin)
        return raw

    async def writer(self, *names: str) -> asyncpg.Connection:
        """A transaction that has told of these and has not been committed."""
        raw = await self.session("BEGIN")
        for name in names:
            await tell(raw, name)
        return raw

    async def told(self, *names: str) -> None:
        """The same, committed."""
        await (await self.writer(*names)).execute("COMMIT")

    async def numbered(self) -> list[str]:
        """All that has a number, in order; numbers follow on one another."""
        found: list[str] = []
        at = 1
        while rows := await self.database.read(partial(events.page, sequence=at)):
            assert [row.sequence for row in rows] == list(range(at, at + len(rows)))
            found += [item.id for row in rows for item in row.of(TENANT)]
            at += len(rows)
        return found

    async def read(self) -> list[str]:
        """All that a reader comes to now."""
        await self.database.number_events()
        return await self.numbered()

    async def head(self) -> tuple[int, int]:
        """Up to where nobody looks, and up to where nobody will soon."""
        (row,) = await self.raws[0].fetch("SELECT settled, seen FROM event_head")
        return tuple(row)


async def tell(raw: asyncpg.Connection, *names: str) -> None:
    items: list[Any] = [(name, 0, 0, 0, None, "test.told", {}) for name in names]
    await events.record(PostgresTransaction(raw), {TENANT: items}, 0)


async def take(raw: asyncpg.Connection) -> Numbered:
    """Number some, in a transaction that stays open."""
    await raw.execute(BEGIN_WRITE)
    return await events.number(PostgresTransaction(raw), fresh=True)


@asynccontextmanager
async def placed(version: str, folder: Path) -> AsyncIterator[Place]:
    """An empty store with one session beside it."""
    async with postgres.cluster(version).new_schema() as url, opened(PostgresAddress(url, "tests"), folder) as database:
        place = Place(url, database)
        await place.session()
        try:
            yield place
        finally:
            for raw in place.raws:
                await raw.close()
