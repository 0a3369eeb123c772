"""A PostgreSQL store: opened by one daemon at a time, and closed in order.

The lock on the database, held by a transaction that stays open, keeps a second daemon out. It is no proof of death:
its connection may be lost while its holder lives. So it is taken again as soon as that is seen, and if another has it
by then, or the history of the database has gone back (a failover that lost something, a backup in its place), the
process ends: what it believes is no longer so. The lock on a data folder is proof, for those who had it.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar

import msgspec

from tasktick import logs
from tasktick.clock import Clock, wait_for_event
from tasktick.errors import ConfigError, StoreBroken, StoreError, StoreLocked, StoreUnavailable
from tasktick.service import Spawner
from tasktick.store.connect import PostgresConnection, require_postgres_driver
from tasktick.store.database import lock_file
from tasktick.store.postgres import (
    BEGIN_NEAR,
    BEGIN_READ,
    PostgresTransaction,
    known,
)
from tasktick.store.postgres_links import Gate, PostgresAddress, PostgresLink, PostgresReader
from tasktick.store.postgres_migrate import migrate
from tasktick.store.postgres_writer import PostgresWriter
from tasktick.store.protocol import Batch, Lane, Operation

T = TypeVar("T")
log = logs.get("store")

VERSION_LEAST = 140_000
WRITERS = {Lane.FIRE: 3, Lane.CREATE: 2, Lane.UPKEEP: 1}
NEAR_READERS = 2
API_READERS = 4
LOCK_NAME = "postgres"
HOME_NAME = "home.id"
LOCK_LOOK_MS = 1_000
# A daemon that was just killed has its connection for a moment more.
LOCK_PATIENCE_MS = 3_000
LOCK_RETRY_MS = 100
# The transaction that holds the lock has nothing else to do, and no snapshot that would hold up a vacuum.
BEGIN_LOCK = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 5000"


class Facts(msgspec.Struct, frozen=True):
    """How the server is set."""

    version: int
    version_text: str
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    encoding: str
    schema: str
    is_standby: bool


class History(msgspec.Struct, frozen=True, array_like=True):
    """Where the history of a database stands."""

    timeline: str
    flushed: int


class SoleLock:
    """The lock that one daemon at a time has on a database."""

    def __init__(self, gate: Gate, clock: Clock, crash: Callable[[BaseException], None]) -> None:
        self._link = PostgresLink(gate)
        self._gate = gate
        self._clock = clock
        self._crash = crash
        self._history: History | None = None
        self._closing = asyncio.Event()

    async def take(self) -> None:
        """Take it, or say who has it."""
        raw = await self._link.raw()
        give_up_ms = self._clock.monotonic_ms() + LOCK_PATIENCE_MS
        while True:
            await raw.execute(BEGIN_LOCK)
            tx = PostgresTransaction(raw)
            if await tx.rows("server_lock", bool) == [True]:
                break
            holders = await tx.rows("server_lock_holder", str)
            await raw.execute("ROLLBACK")
            if self._clock.monotonic_ms() > give_up_ms:
                raise StoreLocked(
                    f"The store {self._gate.address.shown} is in use by another TaskTick "
                    f"({', '.join(holders) or 'unknown'}). Stop that one first: one daemon has a database for itself."
                )
            await self._clock.sleep_ms(LOCK_RETRY_MS)
        self._judge((await tx.rows("server_history", History))[0])

    def _judge(self, found: History) -> None:
        last, self._history = self._history, found
        if last is not None and (found.timeline != last.timeline or found.flushed < last.flushed):
            raise StoreBroken(
                "history_regressed: the database is not the one that it was (a failover, or a backup in its place). "
                "What was acknowledged may be missing; TaskTick starts anew on what is there."
            )

    async def keep(self) -> None:
        """See that it is still ours, until closed."""
        failures = 0
        while not self._closing.is_set():
            try:
                if self._link.is_open:
                    tx = PostgresTransaction(await self._link.raw())
                    self._judge((await tx.rows("server_history", History))[0])
                else:
                    await self.take()
                    log.info("store_lock_taken_again")
                failures = 0
            except (StoreLocked, StoreBroken) as error:
                self._crash(error)
                return
            except Exception as error:
                ours = known(error)
                if not isinstance(ours, StoreError):
                    raise
                await self._link.close()
                failures += 1
                log.warning("store_lock_lost", error=str(ours))
                await self._gate.wait(failures)
                continue
            await wait_for_event(self._closing, self._clock, LOCK_LOOK_MS)

    def stop(self) -> None:
        """Look no more."""
        self._closing.set()

    async def release(self) -> None:
        """Give it back."""
        await self._link.close()


class PostgresDatabase:
    """Reads and writes; what `write` returns is committed."""

    def __init__(self, gate: Gate, clock: Clock, lock: SoleLock, home: str) -> None:
        self._writer = PostgresWriter(gate, clock, f"{home[:8]}-{secrets.token_hex(4)}", WRITERS)
        self._near = PostgresReader([PostgresLink(gate) for _ in range(NEAR_READERS)], BEGIN_NEAR)
        self._api = PostgresReader([PostgresLink(gate) for _ in range(API_READERS)], BEGIN_READ)
        self._lock = lock
        self._keeping: asyncio.Task[None] | None = None
        self._folder_lock: IO[str] | None = None
        self.home = home

    def start(self, spawn: Spawner, folder_lock: IO[str] | None = None) -> None:
        """Begin to write."""
        self._folder_lock = folder_lock
        self._writer.start(spawn)
        self._keeping = spawn(self._lock.keep(), "store_lock")

    @property
    def writer(self) -> PostgresWriter:
        """For its figures."""
        return self._writer

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that reads, for a client: it may take its time."""
        return await self._api.read(operation)

    @property
    def shared(self) -> bool:
        """In this version one daemon has a database for itself: a lock on it keeps others out."""
        return False

    @property
    def near(self) -> PostgresReader:
        """Reads what is due: never behind a client's listing."""
        return self._near

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        """Run an operation and commit it."""
        return await self._writer.write(operation, lane)

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """Run a batch and commit it, with those of others that wait."""
        return await self._writer.write_batch(batch, items)

    async def close(self) -> None:
        """Write what is queued, then close; the locks go last."""
        await self._writer.close()
        await self._near.close()
        await self._api.close()
        self._lock.stop()
        if self._keeping is not None:
            await asyncio.wait({self._keeping})
        await self._lock.release()
        if self._folder_lock is not None:
            self._folder_lock.close()


async def open_postgres(
    address: PostgresAddress,
    data: Path,
    *,
    spawn: Spawner,
    crash: Callable[[BaseException], None],
    clock: Clock,
    random: Random,
    folder_lock: int | None = None,
) -> PostgresDatabase:
    """Lock the folder and the database, look how the server is set, migrate, start the writer."""
    require_postgres_driver()
    # One that was taken before is handed down, and held by all who have it: it is free when the last has ended.
    held = lock_file(data / LOCK_NAME) if folder_lock is None else os.fdopen(folder_lock, "r+")
    os.set_inheritable(held.fileno(), False)
    gate = Gate(address, clock, random)
    lock = SoleLock(gate, clock, crash)
    first = PostgresLink(gate)
    try:
        home = _home_of(data)
        raw = await first.raw()
        judge_server(await facts_of(raw))
        await lock.take()
        done = await migrate(raw)
        await raw.execute(PostgresTransaction(raw).text("marks_forget"))
        if done:
            log.info("store_migrated", version=done[-1].version, store=address.shown)
    except BaseException as error:
        await lock.release()
        held.close()
        raise_as_ours(address, error)
        raise
    finally:
        await first.close()
    database = PostgresDatabase(gate, clock, lock, home)
    database.start(spawn, held)
    return database


def raise_as_ours(address: PostgresAddress, error: BaseException) -> None:
    """Raise what a person can do something about, if this is about the store."""
    ours = known(error)
    if isinstance(ours, StoreUnavailable) or (isinstance(error, ValueError) and ours is error):
        reason = str(ours).removeprefix("The store cannot be reached: ")
        raise StoreError(
            f"The store {address.shown} cannot be opened: {reason}. Check that the server runs, the URL, and who may "
            "log in."
        ) from error
    if ours is not error:
        raise ours from error


async def facts_of(raw: PostgresConnection) -> Facts:
    """How the server is set."""
    return (await PostgresTransaction(raw).rows("server_facts", Facts))[0]


def judge_server(facts: Facts) -> None:
    """Refuse a server on which a commit means less than it must."""
    if facts.version < VERSION_LEAST:
        raise ConfigError(f"store.url: this is PostgreSQL {facts.version_text}; TaskTick needs 14 or later.")
    if facts.is_standby:
        raise StoreError("The store's server is a standby, which takes no writes. Name the primary in store.url.")
    if facts.synchronous_commit == "off":
        raise ConfigError(
            "store.url: synchronous_commit is off there, so an acknowledged task could be lost. Set it to on for this "
            "role: ALTER ROLE … SET synchronous_commit = on."
        )
    if facts.encoding != "UTF8":
        raise ConfigError(f"store.url: the database is encoded as {facts.encoding}; make one with ENCODING 'UTF8'.")
    if not facts.schema:
        raise ConfigError("store.url: no schema of the search_path is there. Make one, or set the role's search_path.")
    if facts.fsync == "off" or facts.full_page_writes == "off":
        log.warning(
            "postgres_not_durable",
            fsync=facts.fsync,
            full_page_writes=facts.full_page_writes,
            advice="a power cut may destroy this database: set both to on",
        )


def application_name() -> str:
    """What we are called in pg_stat_activity."""
    return f"tasktick on {socket.gethostname()[:32]} ({os.getpid()})"


def _home_of(data: Path) -> str:
    """The name of the data folder, made once: it goes with the lock on it."""
    path = data / HOME_NAME
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        home = secrets.token_hex(8)
        path.write_text(f"{home}\n")
        path.chmod(0o600)
        return home
