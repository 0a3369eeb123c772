"""A writer on a connection that fails as it is told, and can be held."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tasktick.store.connect import OperationalError, RawConnection, raw_connection
from tasktick.store.protocol import Batch, Lane, Transaction
from tasktick.store.writer import SqliteWriter

T = TypeVar("T")
BAD = "bad"


class Flawed:
    """A connection on which a statement can be made to fail, or may only be watched."""

    def __init__(self) -> None:
        self.raw: Any = raw_connection(Path(":memory:"))
        self.raw.execute("CREATE TABLE counts (tenant TEXT, state INTEGER, tasks INTEGER, PRIMARY KEY (tenant, state))")
        self.fail: dict[str, BaseException] = {}
        self.executed: list[str] = []
        self.shortened = asyncio.Event()

    def execute(self, statement: str, *parameters: Any) -> Any:
        self.executed.append(statement)
        if "checkpoint" in statement:
            self.shortened.set()
        for start, error in self.fail.items():
            if statement.startswith(start):
                raise error
        return self.raw.execute(statement, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class InlineLink:
    """Runs at once, in the order of calls; while it is held, the writer's turn waits."""

    def __init__(self, raw: Flawed) -> None:
        self.raw = raw
        self.turn = asyncio.Lock()
        self.free = asyncio.Event()
        self.free.set()
        self.asked = asyncio.Event()

    async def call(self, work: Callable[[RawConnection], T]) -> T:
        self.asked.set()
        async with self.turn:
            await self.free.wait()
            return work(self.raw)  # type: ignore[arg-type] # it stands in for one

    async def close(self) -> None:
        self.raw.close()


class Bench:
    """A writer, its connection, and what crashed it."""

    def __init__(self) -> None:
        self.raw = Flawed()
        self.link = InlineLink(self.raw)
        self.crashes: list[BaseException] = []
        self.writer = SqliteWriter(self.link, self.crashes.append)
        self.order: list[str] = []
        self.turns: list[list[str]] = []
        self.loop = asyncio.create_task(self.writer.run())

    def batch(self, name: str = "add", lane: Lane = Lane.CREATE, rows_max: int = 500) -> Batch:
        async def operation(tx: Transaction, items: list[Any]) -> list[Any]:
            self.turns.append(items)
            if BAD in items:
                raise ValueError("a bad row")
            await tx.run("counts_add", rows=[[item, 2, 1] for item in items])
            return [f"{item}!" for item in items]

        return Batch(name, lane, operation, rows_max)

    def noting(self, name: str) -> Callable[[Transaction], Awaitable[str]]:
        async def operation(tx: Transaction) -> str:
            self.order.append(name)
            await tx.run("counts_add", rows=[[name, 2, 1]])
            return name

        return operation

    @property
    def kept(self) -> dict[str, int]:
        return dict(self.raw.raw.execute("SELECT tenant, tasks FROM counts ORDER BY tenant").fetchall())

    async def has_shortened(self) -> None:
        """Wait until the log was shortened, or that was tried."""
        await asyncio.wait_for(self.raw.shortened.wait(), 5)

    async def settle(self) -> None:
        self.writer.close()
        await self.loop


def full() -> OperationalError:
    return _coded("database or disk is full", 13)


def broken() -> OperationalError:
    return _coded("disk I/O error", 10)


def _coded(text: str, code: int) -> OperationalError:
    error = OperationalError(text)
    error.sqlite_errorcode = code
    return error


async def waiting(bench: Bench, *work: Awaitable[Any]) -> list[Any]:
    """Queue all of it behind a held connection, then let go; every outcome, raised or returned."""
    bench.link.free.clear()
    first = asyncio.ensure_future(bench.writer.write(bench.noting("first")))
    await bench.link.asked.wait()
    tasks = []
    for one in work:
        tasks.append(asyncio.ensure_future(one))
        await asyncio.sleep(0)
    bench.link.free.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)
