"""A database server that nodes reach over wires of their own, in virtual time: the real SQL, with a clock of its own.

What a node has of it is the product's: its gate, its links, its readers and its writer, which ask, wait, try again and
find out what became of a commit. Beneath them stands a connection that may be slow, lost or cut in the middle of a
commit. One transaction at a time writes, on a file that readers see as it was committed: a commit whose answer is lost
may hold what it has locked for a while, and only then be there, or not.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from tasktick.errors import StoreUnavailable
from tasktick.store import postgres_links, postgres_writer
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.migrate import migrate
from tasktick.store.postgres import CommitUnknown
from tasktick.store.protocol import Aborted, Operation
from tasktick.store.queries import load
from tasktick.store.sqlite import SqliteTransaction, read_with, rollback, step
from tests.sim.world import EPOCH_MS, PRAGMAS

T = TypeVar("T")
HOP_S = 0.002
# Who hangs on a dead wire gives up after so long.
HANGS_S = 1.5
LOCK_LOOK_S = 0.004
TABLES = (
    "CREATE TABLE sim_marks (writer TEXT PRIMARY KEY, mark INTEGER NOT NULL)",
    "CREATE TABLE sim_homes (incarnation TEXT PRIMARY KEY, home TEXT NOT NULL)",
)
PROVE_DEAD = """
    UPDATE nodes SET dead_at = :now WHERE dead_at IS NULL AND incarnation <> :incarnation
        AND incarnation IN (SELECT incarnation FROM sim_homes WHERE home = :home)
"""
SET_MARK = "INSERT INTO sim_marks VALUES (?, ?) ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark"
FATES = ("aborted", "answer_lost", "undone", "late", "late_undone")


class Issue(msgspec.Struct, frozen=True):
    """When the node decided to ask for something, by the server's clock, and what it may have relied on."""

    at: int
    true_ms: float
    # The end of its term as the database had it then; None if it had none.
    term_ends_at: int | None
    is_claim: bool


class ServerTransaction:
    """The statements of a server that has a clock and knows of homes: those of PostgreSQL that ask its clock.

    Everything else is as the node says, its belief of the time too.
    """

    def __init__(self, raw: RawConnection, now: int, timeline: int) -> None:
        self._raw = raw
        self._inner = SqliteTransaction(raw)
        self._now = now
        self._timeline = timeline

    async def rows(self, query: str, kind: type[T], /, **parameters: Any) -> list[T]:
        if query == "history_read":
            return [f"{self._timeline:08X}"]  # type: ignore[list-item] # its kind
        return await self._inner.rows(query, kind, **self._told(query, parameters))

    async def run(self, query: str, /, **parameters: Any) -> int:
        told = self._told(query, parameters)
        if query == "nodes_prove_dead":
            return self._raw.execute(PROVE_DEAD, told).rowcount
        if query == "node_insert":
            self._raw.execute("INSERT OR IGNORE INTO sim_homes VALUES (:incarnation, :home)", told)
        return await self._inner.run(query, **told)

    async def whole(self, query: str, count: int, /, **parameters: Any) -> bool:
        return await self._inner.whole(query, count, **self._told(query, parameters))

    def _told(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        return parameters | {"now": self._now} if "now" in parameters and query in by_its_clock() else parameters


@cache
def by_its_clock() -> frozenset[str]:
    """The statements that ask the server what time it is."""
    asks = (":clock", ":moment")
    return frozenset(
        name for name, found in load("postgres").items() if any(ask in one for one in found for ask in asks)
    )


class Wire:
    """The way of one process to the server. `cut`: what is on it is lost; `hangs`: and nobody is told soon."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cut = False
        self.hangs = False
        self.slow_s = 0.0

    async def hop(self) -> None:
        """One way."""
        await asyncio.sleep(self.random.random() * (HOP_S + self.slow_s))
        if self.cut:
            if self.hangs:
                await asyncio.sleep(HANGS_S * self.random.random())
            raise StoreUnavailable("The connection is lost.")


class Server:
    """The database."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self._loop = loop
        self.random = random
        path = folder / "ring.db"
        self.raw = raw_connection(path, PRAGMAS)
        migrate(self.raw)
        for table in TABLES:
            self.raw.execute(table)
        self.reader = raw_connection(path, PRAGMAS)
        self.offset_ms = 0
        self.set_at_ms = float("-inf")
        self._highest = 0
        self.away = False
        # Each failover begins another; connections to the one before are dead.
        self.timeline = 1
        self._standby: RawConnection | None = None
        # How often a commit meets each of `FATES`.
        self.fates: dict[str, float] = {}
        self.late_s = 0.6
        self._held = False
        # Told of each commit: who had issued what is in it.
        self.committed: Callable[[Issue | None], None] = lambda issue: None
        self.noted: Callable[[str], None] = lambda what: None
        self.issue: Issue | None = None
        self.claims_marked: set[tuple[str, int]] = set()

    def now_ms(self) -> int:
        """The database's clock."""
        return EPOCH_MS + self.offset_ms + int(self._loop.time() * 1_000)

    @property
    def highest_ms(self) -> int:
        """The latest time that it has shown."""
        return max(self._highest, self.now_ms())

    @property
    def true_ms(self) -> float:
        """Time that nobody sets."""
        return self._loop.time() * 1_000

    def set_clock(self, by_ms: int) -> None:
        """Somebody sets it. What was due before stays due."""
        self._highest = max(self._highest, self.now_ms())
        self.offset_ms += by_ms
        self.set_at_ms = self.true_ms

    def look(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What is committed, for who watches."""
        return self.reader.execute(sql, parameters).fetchall()

    @property
    def is_held(self) -> bool:
        """Whether a commit that nobody hears of holds its locks."""
        return self._held

    async def turn(self) -> None:
        """Wait for who holds the locks."""
        while self._held:  # noqa: ASYNC110 - they are given up outside of any process
            await asyncio.sleep(LOCK_LOOK_S * (0.5 + self.random.random()))

    def write(self, work: Operation[T], writer: str | None = None, mark: int = 0) -> T:
        """Run it and commit it, unless its fate is another."""
        raw = self.raw
        self.issue = None
        raw.execute("BEGIN IMMEDIATE")
        try:
            result = step(work(ServerTransaction(raw, self.now_ms(), self.timeline)))
            if writer is not None:
                raw.execute(SET_MARK, (writer, mark))
        except BaseException:
            rollback(raw)
            raise
        fate, issue = self._fate(), self._issued()
        if fate == "aborted":
            rollback(raw)
            self.noted("commit aborted")
            raise Aborted("A deadlock was broken.")
        if fate == "undone":
            rollback(raw)
        elif fate in {"late", "late_undone"}:
            self._held = True
            wait_s = self.late_s * self.random.random()
            self._loop.call_later(wait_s, self._settle, self.timeline, fate == "late", issue, context=Context())
        else:
            raw.execute("COMMIT")
            self.committed(issue)
        if issue is not None and issue.is_claim:
            self.claims_marked.add((writer or "", mark))
        if fate is not None:
            self.noted(f"commit {fate}")
            raise CommitUnknown(f"The answer to a commit was lost: {fate}", result)
        return result

    def _issued(self) -> Issue | None:
        """What was noted while the operation ran."""
        return self.issue

    def _fate(self) -> str | None:
        drawn = self.random.random()
        for fate, share in self.fates.items():
            drawn -= share
            if drawn < 0:
                return fate
        return None

    def _settle(self, timeline: int, commits: bool, issue: Issue | None) -> None:
        if timeline != self.timeline:  # it went down with its server
            return
        self._held = False
        if commits:
            self.raw.execute("COMMIT")
            self.committed(issue)
        else:
            rollback(self.raw)

    def read(self, operation: Operation[T]) -> T:
        """In a snapshot of what is committed."""
        return read_with(
            self.reader, lambda tx: operation(ServerTransaction(self.reader, self.now_ms(), self.timeline))
        )

    def fall_behind(self) -> None:
        """From now on the standby gets nothing more."""
        if self._standby is None:
            self._standby = raw_connection(Path(":memory:"))
            self.reader.backup(self._standby)

    @property
    def is_behind(self) -> bool:
        """Whether there is something that the standby has not got."""
        return self._standby is not None

    def fail_over(self) -> None:
        """The server is lost, and the standby takes its place: what it did not get has never been."""
        assert self._standby is not None
        rollback(self.raw)
        self._held = False
        self._standby.backup(self.raw)
        self._standby.close()
        self._standby = None
        self.timeline += 1

    def has_mark(self, writer: str, mark: int) -> bool:
        """Whether this transaction is committed, as far as one sees who does not wait."""
        return self.look("SELECT mark FROM sim_marks WHERE writer = ?", writer) == [(mark,)]

    def close(self) -> None:
        """Close the file."""
        rollback(self.raw)
        self.raw.close()
        self.reader.close()
        if self._standby is not None:
            self._standby.close()


class Connection:
    """One connection to it, as the links of the product hold it."""

    def __init__(self, server: Server, wire: Wire) -> None:
        self.server = server
        self._wire = wire
        self._timeline = server.timeline
        self._closed = False

    def is_closed(self) -> bool:
        return self._closed

    def terminate(self) -> None:
        self._closed = True

    async def close(self, timeout: float = 0) -> None:  # noqa: ASYNC109 - the driver's own
        del timeout
        self._closed = True

    async def hop(self) -> None:
        """One way; whoever finds it cut has lost it."""
        try:
            await self._wire.hop()
            if self.server.away or self._closed or self._timeline != self.server.timeline:
                raise StoreUnavailable("The server is not there.")
        except StoreUnavailable:
            self._closed = True
            raise

    async def write(self, work: Operation[T], writer: str | None = None, mark: int = 0) -> T:
        """Run it and commit it, under a mark if there is one."""
        try:
            await self.hop()
            await self.server.turn()
            result = self.server.write(work, writer, mark)
            try:
                await self.hop()
            except StoreUnavailable as error:
                self.server.noted("commit answer lost on the wire")
                raise CommitUnknown(f"The answer to a commit was lost: {error}", result) from error
        except (CommitUnknown, asyncio.CancelledError):
            self._closed = True
            raise
        return result

    async def was_committed(self, writer: str, mark: int) -> bool:
        await self.hop()
        await self.server.turn()
        found = self.server.has_mark(writer, mark)
        await self.hop()
        self.server.noted("unknown commit found" if found else "unknown commit not there")
        if found and (writer, mark) in self.server.claims_marked:
            self.server.noted("unknown claim resolved as ours")
        return found

    async def read(self, operation: Operation[T]) -> T:
        await self.hop()
        result = self.server.read(operation)
        await self.hop()
        return result


@contextmanager
def reached_by(wires: dict[str, tuple[Server, Wire]]) -> Iterator[None]:
    """Connections go to these servers, by their URL, as long as this lasts."""

    async def connect(url: str, **options: Any) -> Connection:
        del options
        server, wire = wires[url]
        await wire.hop()
        if server.away:
            raise StoreUnavailable("The server is not there.")
        return Connection(server, wire)

    async def read(raw: Connection, operation: Operation[T], begin: str) -> T:
        del begin
        return await raw.read(operation)

    async def write(raw: Connection, work: Operation[T], writer: str, mark: int, begin: str) -> T:
        del begin
        return await raw.write(work, writer, mark)

    async def write_unmarked(raw: Connection, operation: Operation[T], begin: str) -> T:
        del begin
        return await raw.write(operation)

    async def was_committed(raw: Connection, writer: str, mark: int) -> bool:
        return await raw.was_committed(writer, mark)

    seams: list[tuple[Any, str, Any]] = [
        (postgres_links, "connect_postgres", connect),
        (postgres_links, "read_with", read),
        (postgres_links, "write_unmarked", write_unmarked),
        (postgres_writer, "write_with", write),
        (postgres_writer, "was_committed", was_committed),
    ]
    before = [getattr(owner, name) for owner, name, _ in seams]
    for owner, name, ours in seams:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for (owner, name, _), theirs in zip(seams, before, strict=True):
            setattr(owner, name, theirs)
