"""A PostgreSQL store: shared by the nodes that open it, and closed in order.

Each has the lock of a data folder of its own, for as long as it lives: who had that very folder before is dead. Of
those of other folders nothing is known but what their rows say.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar

import msgspec

from tasktick import logs
from tasktick.clock import Clock, StoreClock
from tasktick.errors import ConfigError, StoreError
from tasktick.service import Spawner
from tasktick.store import leases, whereabouts
from tasktick.store.connect import PostgresConnection, require_postgres_driver
from tasktick.store.database import lock_file
from tasktick.store.migrate import available, pending
from tasktick.store.postgres import (
    BEGIN_NEAR,
    BEGIN_READ,
    BEGIN_WRITE,
    WRITES_UNDER,
    PostgresTransaction,
    bound_before,
)
from tasktick.store.postgres_history import PostgresHistory
from tasktick.store.postgres_inbox import PostgresInbox
from tasktick.store.postgres_links import (
    Gate,
    PostgresAddress,
    PostgresLink,
    PostgresReader,
    PostgresTerm,
    connect_patiently,
)
from tasktick.store.postgres_migrate import DIALECT, applied, migrate
from tasktick.store.postgres_refusals import raise_as_ours
from tasktick.store.postgres_writer import PostgresWriter
from tasktick.store.protocol import Batch, Lane, Operation

T = TypeVar("T")
log = logs.get("store")

VERSION_LEAST = 140_000
WRITERS = {Lane.FIRE: 3, Lane.CREATE: 2, Lane.UPKEEP: 1}
NEAR_READERS = 2
API_READERS = 4
RENEWALS_PER_TTL = 3
LOCK_NAME = "postgres"
HOME_NAME = "home.id"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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


class PostgresDatabase:
    """Reads and writes; what `write` returns is committed."""

    def __init__(self, gate: Gate, clock: Clock, home: str, ttl_ms: int) -> None:
        self._gate = gate
        self._term = PostgresTerm(gate, ttl_ms // RENEWALS_PER_TTL)
        name = f"{home[:8]}-{secrets.token_hex(4)}"
        self._writer = PostgresWriter(gate, clock, name, WRITERS)
        self._inbox = PostgresInbox(PostgresLink(gate), f"{name}-events")
        self._near = PostgresReader([PostgresLink(gate) for _ in range(NEAR_READERS)], BEGIN_NEAR)
        self._api = PostgresReader([PostgresLink(gate) for _ in range(API_READERS)], BEGIN_READ)
        self.history = PostgresHistory(self._writer, PostgresLink(gate))
        self._folder_lock: IO[str] | None = None
        self.home = home

    def start(self, spawn: Spawner, folder_lock: IO[str] | None = None) -> None:
        """Begin to write."""
        self._folder_lock = folder_lock
        self._writer.start(spawn)

    @property
    def writer(self) -> PostgresWriter:
        """For its figures."""
        return self._writer

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that reads, for a client: it may take its time."""
        return await self._api.read(operation)

    @property
    def shared(self) -> bool:
        """Other nodes may have it open too."""
        return True

    @property
    def near(self) -> PostgresReader:
        """Reads what is due: never behind a client's listing."""
        return self._near

    @property
    def term(self) -> PostgresTerm:
        """Renews a node's term."""
        return self._term

    def when_lost(self, told: Callable[[], None]) -> None:
        """Tell this one when a connection that writes was lost, before another is used in its place."""
        self._gate.lost = told

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        """Run an operation and commit it."""
        return await self._writer.write(operation, lane)

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """Run a batch and commit it, with those of others that wait."""
        return await self._writer.write_batch(batch, items)

    def begin(self, batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        """Write one item of a batch; its result, or the error, is told when it is committed."""
        self._writer.begin(batch, item, told)

    @property
    def slice_rows(self) -> int:
        """Half of a thousand: the others are read while the server writes these."""
        return 500

    def bind(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """By column."""
        return bound_before(query, parameters)

    async def tidy(self, now: int, before: int) -> bool:
        """Move what has finished into history, and let the days of history go that ended before."""
        return await self.history.step(now, before)

    async def number_events(self) -> bool:
        """Number what has been told by now."""
        return await self._inbox.number()

    async def close(self) -> None:
        """Write what is queued, then close; the lock goes last."""
        await self._writer.close()
        await self._inbox.close()
        await self.history.close()
        await self._term.close()
        await self._near.close()
        await self._api.close()
        if self._folder_lock is not None:
            self._folder_lock.close()


async def open_postgres(
    address: PostgresAddress,
    data: Path,
    *,
    spawn: Spawner,
    clock: StoreClock,
    random: Random,
    ttl_ms: int,
    folder_lock: int | None = None,
) -> PostgresDatabase:
    """Lock the folder, look how the server is set, migrate, start the writer. The clock is told the server's time."""
    require_postgres_driver()
    # One that was taken before is handed down, and held by all who have it: it is free when the last has ended.
    held = lock_file(data / LOCK_NAME) if folder_lock is None else os.fdopen(folder_lock, "r+")
    os.set_inheritable(held.fileno(), False)
    # A server that is there no more is noticed while the term still lasts.
    address = msgspec.structs.replace(address, silence_ms=ttl_ms * 2 // 3)
    gate = Gate(address, clock, random)
    raw: PostgresConnection | None = None
    try:
        home = home_of(data, socket.gethostname(), boot_id())
        raw = await connect_patiently(address)
        judge_server(await facts_of(raw))
        await judge_settings(raw)
        gate.is_known = True
        await tell_time(raw, clock)
        theirs = await applied(raw)
        if theirs and pending(available(DIALECT), theirs):
            log.info("store_migrating", version=theirs[-1].version, store=address.shown)
        done = await migrate(raw, connect=lambda: connect_patiently(address))
        await whereabouts.require_home(PostgresTransaction(raw), address.shown)
        await raw.execute(PostgresTransaction(raw).text("marks_forget"))
        if done:
            log.info("store_migrated", version=done[-1].version, store=address.shown)
    except BaseException as error:
        held.close()
        raise_as_ours(address, error)
        raise
    finally:
        if raw is not None:
            await raw.close()
    database = PostgresDatabase(gate, clock, home, ttl_ms)
    database.start(spawn, held)
    await database.history.make_ahead(clock.now_ms())
    return database


async def tell_time(raw: PostgresConnection, clock: StoreClock) -> None:
    """Let the clock know what time it is there."""
    asked_ms = clock.monotonic_ms()
    told = await leases.time(PostgresTransaction(raw), clock.now_ms())
    clock.learn(told, asked_ms, clock.monotonic_ms())


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


async def judge_settings(raw: PostgresConnection) -> None:
    """Refuse a server, or a pooler before it, on which a transaction is not under the limits that it asks for."""
    await raw.execute(BEGIN_WRITE)
    try:
        rows = await PostgresTransaction(raw).rows("server_settings", tuple[str, str], names=list(WRITES_UNDER))
    finally:
        await raw.execute("ROLLBACK")
    found = dict(rows)
    wrong = [
        f"{name} is {found.get(name)}, not {must}" for name, must in WRITES_UNDER.items() if found.get(name) != must
    ]
    if wrong:
        raise ConfigError(
            f"store.url: what a transaction sets does not take effect there: {'; '.join(wrong)}. A pooler in between "
            "must pool by transaction or by session, and pass SET LOCAL on."
        )


def application_name() -> str:
    """What we are called in pg_stat_activity."""
    return f"tasktick on {socket.gethostname()[:32]} ({os.getpid()})"


def boot_id() -> str:
    """What the kernel calls this start of the machine; nothing where it has no name for it."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def home_of(data: Path, machine: str, boot: str) -> str:
    """What the lock on this data folder is proof for: this very folder on this machine, since it was started.

    A folder that was copied, to bring its keys to another node, has another home than the one it was copied from. A
    machine that was cloned with its folder, which is the same in all else, was started by itself.
    """
    path = data / HOME_NAME
    if not path.exists():
        path.write_text(f"{secrets.token_hex(8)}\n")
        path.chmod(0o600)
    told = f"{path.read_text().strip()} {path.stat().st_ino} {machine} {boot}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]
