"""A SQLite and a PostgreSQL store, open beside each other, and what is compared of them."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import asyncpg
import msgspec

from tasktick.errors import IllegalTransition, Refused
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Database
from tests import postgres
from tests.store.drivers import opened, sqlite
from tests.store.world import World

T = TypeVar("T")
# What a client may be told, and what there is when a row is gone.
TOLD = (Refused, IllegalTransition, IndexError, KeyError)
# Not a task's: the steps that the schema has taken, the marks of the writers that stay open, the days of history.
KEPT = frozenset({"schema_history", "schema_steps", "marks", "history", "history_days"})
LEASES_NEW = "UPDATE leases SET epoch = 0, incarnation = NULL, wanted_by = NULL, free_since = NULL"
HEAD_NEW = "UPDATE event_head SET sequence = 0, upto = 0"
TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') AND NOT relispartition
"""


class Stage:
    """Both stores. The server's is emptied for each play; the file is a new one."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._loop = asyncio.new_event_loop()
        self._folder = Path(tempfile.mkdtemp(prefix="tasktick-beside-"))
        self._stack = AsyncExitStack()
        self._play = AsyncExitStack()
        self._tables: list[str] = []

    def __enter__(self) -> "Stage":
        self.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self.run(self._play.aclose())
            self.run(self._stack.aclose())
        finally:
            self._loop.close()
            shutil.rmtree(self._folder)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it on the loop of both stores."""
        return self._loop.run_until_complete(work)

    async def _open(self) -> None:
        url = await self._stack.enter_async_context(postgres.cluster(self._version).new_schema())
        self.server: PostgresDatabase = await self._stack.enter_async_context(
            opened(PostgresAddress(url, "beside"), self._folder / "server")
        )
        self._raw = await asyncpg.connect(url)
        self._stack.push_async_callback(self._raw.close)
        names = [row[0] for row in await self._raw.fetch(TABLES)]
        self._tables = sorted(set(names) - KEPT - {"leases", "event_head"})
        assert "tasks" in self._tables

    async def _emptied(self) -> tuple[Database, Database]:
        await self._play.aclose()
        folder = self._folder / "file"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        file = await self._play.enter_async_context(sqlite(folder))
        await self._raw.execute("; ".join([*(f"DELETE FROM {one}" for one in self._tables), LEASES_NEW, HEAD_NEW]))
        return file, self.server

    async def _move(self, before: int) -> None:
        self.server.history.restart()
        while await self.server.history.move(before):
            pass

    def move_to_history(self, before: int) -> None:
        """On the server alone: what finished by then goes where finished tasks are."""
        self.run(self._move(before))

    def play(self) -> tuple[World, World]:
        """Both stores, empty, with a node on each."""
        file, server = self.run(self._emptied())
        return World(file), World(server)


def plain(value: Any) -> Any:
    """A value as what it says: what was refused by its code and words."""
    match value:
        case Refused():
            return ("refused", value.code, value.detail, value.errors, value.retry_after_ms)
        case BaseException():
            return (type(value).__name__, str(value))
        case msgspec.Struct():
            return {"": type(value).__name__} | {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return {key: plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value


async def told(work: Callable[[World], Awaitable[T]], world: World) -> tuple[T | None, BaseException | None]:
    """What it came to, or what was said against it."""
    try:
        return await work(world), None
    except TOLD as error:
        return None, error


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two plain values are not the same, for a person to read."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other}, key=str)
        return [line for name in names for line in differences(one.get(name), other.get(name), f"{path}/{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line for at, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{path}/{at}")
        ]
    return [] if one == other else [f"{path or '/'}: SQLite {one!r}, PostgreSQL {other!r}"]
