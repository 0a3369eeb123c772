"""Where a daemon under measurement keeps its tasks: a file, or a database of a server here; and filling it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import msgspec

from bench import postgres_stock, stock
from bench.daemon import Ledger, ServerLedger, running
from bench.tasks import NEXT_YEAR_MS, now_ms
from tests.postgres import Cluster, installed, own_cluster

TARGET_URL = "http://127.0.0.1:9/never"
HISTORY_DAYS = 4


class Place(msgspec.Struct, frozen=True):
    """One store."""

    data: Path
    store: str | None = None
    # The first process of the server.
    server_pid: int | None = None

    def ledger(self) -> Ledger | ServerLedger:
        """What is recorded there."""
        return Ledger(self.data) if self.store is None else ServerLedger(self.store)

    def fill(self, url: str, count: int, first_at_ms: int, span_ms: int, tenants: int = 1) -> None:
        """So many tasks, due evenly over a span, of so many tenants in turn."""
        with running(self.data, self.store) as daemon:
            daemon.create(url, [now_ms() + NEXT_YEAR_MS])
        if self.store is None:
            stock.fill(self.data, count, first_at_ms, span_ms, tenants)
        else:
            self._on_server(lambda raw: postgres_stock.fill(raw, count, first_at_ms, span_ms, tenants))

    def fill_schedules(
        self, schedule: bytes, count: int, first_at_ms: int, span_ms: int, groups: int = 1, group_ms: int = 0
    ) -> None:
        """So many schedules like this one, whose fires ahead are due evenly over a span, in so many groups."""
        with running(self.data, self.store) as daemon:
            status, answer = daemon.call("POST", "/v1/schedules", schedule)
            if status != 201:
                raise RuntimeError(f"the daemon refused a schedule: {status} {answer[:500]!r}")
        if self.store is None:
            stock.fill_schedules(self.data, count, first_at_ms, span_ms, groups, group_ms)
        else:
            given = (count, first_at_ms, span_ms, groups, group_ms)
            self._on_server(lambda raw: postgres_stock.fill_schedules(raw, *given))

    def fill_finished(self, count: int) -> None:
        """So many that have succeeded: where they were, or in history, as the store keeps them."""
        with running(self.data, self.store) as daemon:
            daemon.create(TARGET_URL, [now_ms() + NEXT_YEAR_MS])
        if self.store is None:
            stock.fill(self.data, count, now_ms(), 1, finished=True)
            return
        self._on_server(lambda raw: postgres_stock.fill_history(raw, count, HISTORY_DAYS))

    def _on_server(self, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
        async def connected() -> None:
            raw = await asyncpg.connect(self.store)
            try:
                await work(raw)
            finally:
                await raw.close()

        asyncio.run(connected())


class Places:
    """Makes new ones of one kind."""

    def __init__(self, folder: Path, cluster: Cluster | None) -> None:
        self._folder = folder
        self._cluster = cluster

    def new(self, name: str) -> Place:
        """An empty one."""
        data = self._folder / name
        if self._cluster is None:
            return Place(data)
        first = (self._cluster.log.parent / "data" / "postmaster.pid").read_text().split()[0]
        return Place(data, asyncio.run(self._cluster.new_database()), int(first))

    def drop(self, place: Place) -> None:
        """Nobody needs it any more."""
        shutil.rmtree(place.data, ignore_errors=True)
        if self._cluster is not None and place.store is not None:
            name = place.store.partition("@/")[2].partition("?")[0]
            asyncio.run(self._cluster.run(f"DROP DATABASE {name} WITH (FORCE)"))


KINDS = ("SQLite", "PostgreSQL")
# The oldest that is here is what distributions bring.
VERSION = min(installed(), key=int, default="")


def kinds() -> list[str]:
    """Those that this machine has."""
    return [kind for kind in KINDS if kind == "SQLite" or VERSION]


@contextmanager
def places(kind: str, folder: Path) -> Iterator[Places]:
    """Stores of this kind; a server is there for as long as they are."""
    (folder / kind).mkdir(parents=True)
    if kind == "SQLite":
        yield Places(folder / kind, None)
        return
    with own_cluster(VERSION) as server:
        yield Places(folder / kind, server)
