"""The only module that knows the database drivers.

asyncpg is an extra, imported where a PostgreSQL is connected to and not before.
`pysqlite3`, where it is installed, takes the place of the standard library's `sqlite3` before aiosqlite
is imported: it brings a current SQLite, and every release before 3.51.3 has a race between a write and
the reset of the write-ahead log. All writes and checkpoints go through one connection in any case.
"""

import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tasktick.errors import ConfigError

try:
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
except ImportError:
    pass

import sqlite3

import aiosqlite

T = TypeVar("T")

SAFE_SQLITE = (3, 51, 3)
SQLITE_VERSION: tuple[int, ...] = sqlite3.sqlite_version_info
SQLITE_VERSION_TEXT: str = sqlite3.sqlite_version

DatabaseError = sqlite3.DatabaseError
OperationalError = sqlite3.OperationalError
IntegrityError = sqlite3.IntegrityError
RawConnection = sqlite3.Connection

POSTGRES_MISSING = (
    "store.url names a PostgreSQL, and its driver is not installed: pip install '/path/to/checkout[postgres]'."
)

# Result codes of SQLite, without their extension.
_NO_DATABASE = 26
_FULL = 13
_CORRUPT = frozenset({11, 26})
# The statement, or what it was given, is at fault; the store is as sound as before: a plain error, too big,
# a constraint, a wrong type, misuse, a parameter out of range.
_OF_THE_ROW = frozenset({1, 18, 19, 20, 21, 25})


class Link(Protocol):
    """A connection that runs a function of it, one at a time."""

    async def call(self, work: Callable[[RawConnection], T]) -> T: ...

    async def close(self) -> None: ...


class ThreadLink:
    """A connection with a thread of its own; a whole batch of work is one hop."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def call(self, work: Callable[[RawConnection], T]) -> T:
        # aiosqlite offers a hop per statement in public and one per function inside; a test pins this name.
        result: T = await self._connection._execute(work, self._connection._conn)  # type: ignore[no-untyped-call]
        return result

    async def close(self) -> None:
        await self._connection.close()


async def open_link(path: Path, pragmas: tuple[str, ...], *, read_only: bool = False) -> Link:
    """Open the file; its worker thread lives until `close`."""
    mode = "ro" if read_only else "rwc"
    connection = await aiosqlite.connect(
        f"file:{_escape(path)}?mode={mode}", uri=True, isolation_level=None, cached_statements=256
    )
    link = ThreadLink(connection)
    try:
        await link.call(lambda raw: apply_pragmas(raw, pragmas))
    except BaseException:
        await link.close()
        raise
    return link


def apply_pragmas(raw: RawConnection, pragmas: tuple[str, ...]) -> None:
    """Run the pragmas that make a connection ours."""
    for pragma in pragmas:
        raw.execute(pragma).fetchall()


def _escape(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def is_full(error: BaseException) -> bool:
    """Whether this says that the disk has no room."""
    return _code(error) == _FULL


def is_corrupt(error: BaseException) -> bool:
    """Whether this says that the file is not what it should be."""
    return _code(error) in _CORRUPT


def is_no_database(error: BaseException) -> bool:
    """Whether this says that the file is something else, from its first bytes on."""
    return _code(error) == _NO_DATABASE


def is_of_the_row(error: BaseException) -> bool:
    """Whether this is a fault of the row or the statement, not of the store."""
    return _code(error) in _OF_THE_ROW


def _code(error: BaseException) -> int | None:
    """What SQLite called it; faults that the driver itself finds have none, and are never the store's."""
    if not isinstance(error, sqlite3.DatabaseError):
        return None
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return 1 if isinstance(error, sqlite3.ProgrammingError | sqlite3.DataError) else None
    return code & 0xFF


def raw_connection(path: Path, pragmas: tuple[str, ...] = (), *, read_only: bool = False) -> RawConnection:
    """A connection without a thread: for migrations of a file at rest, checks and simulations."""
    name = f"file:{_escape(path)}?mode=ro" if read_only else str(path)
    raw: Any = sqlite3.connect(name, uri=read_only, isolation_level=None, check_same_thread=False)
    try:
        apply_pragmas(raw, pragmas)
    except BaseException:
        raw.close()
        raise
    return raw  # type: ignore[no-any-return] # pysqlite3 has no types


def statements(text: str) -> list[str]:
    """The statements of a script, one by one, so that they can share a transaction."""
    found: list[str] = []
    waiting = ""
    for line in text.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            found.append(waiting.strip())
            waiting = ""
    if waiting.strip():
        found.append(waiting.strip())
    return found


class PostgresConnection(Protocol):
    """A connection to a PostgreSQL."""

    async def execute(self, query: str, *arguments: Any) -> str: ...

    async def fetchval(self, query: str, *arguments: Any) -> Any: ...

    async def fetch(self, query: str, *arguments: Any) -> Sequence[Any]: ...

    async def copy_records_to_table(
        self, table: str, *, records: Iterable[tuple[Any, ...]], columns: Sequence[str]
    ) -> str: ...

    async def close(self, *, timeout: float | None = None) -> None: ...  # noqa: ASYNC109 - asyncpg's

    def terminate(self) -> None: ...

    def is_closed(self) -> bool: ...

    def get_server_pid(self) -> int: ...

    def add_log_listener(self, callback: Any) -> None: ...

    def remove_log_listener(self, callback: Any) -> None: ...


class Fault(Enum):
    """What an error of a PostgreSQL is about, and so what is to be done about it."""

    ROW = "the statement, or what it was given"
    ABORTED = "others, who were in the way: the same again is right"
    LOST = "the connection, or a server that takes no work now"
    FULL = "the disk"
    CORRUPT = "what is on the disk"
    POOLER = "a pooler that does not keep prepared statements"
    REFUSED = "who we are, or what the database is called"


# By SQLSTATE, or by its class. Serialization, deadlock, lock not to be had, cancelled by a timeout.
_POSTGRES_ABORTED = frozenset({"40001", "40P01", "55P03", "57014"})
# Read-only (a standby, or a server that was demoted), sessions that a timeout ended.
_POSTGRES_LOST = frozenset({"25006", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05", "57P04"})
_POSTGRES_POOLER = frozenset({"26000", "42P05", "08P01"})
_POSTGRES_CLASSES = {"08": Fault.LOST, "53": Fault.LOST, "28": Fault.REFUSED, "3D": Fault.REFUSED, "XX": Fault.CORRUPT}
_POSTGRES_FULL = "53100"
_POSTGRES_IO = "58"


def require_postgres_driver() -> None:
    """Raise unless PostgreSQL can be spoken to."""
    try:
        import asyncpg  # noqa: F401
    except ImportError as error:
        raise ConfigError(POSTGRES_MISSING) from error


async def connect_postgres(
    url: str,
    *,
    application: str,
    timeout_ms: float,
    command_timeout_ms: float | None,
    keep_statements: bool,
    silence_ms: int,
) -> PostgresConnection:
    """Connect; statements that are used again are kept prepared, unless a pooler stands in between."""
    require_postgres_driver()
    import asyncpg

    connection: PostgresConnection = await asyncpg.connect(
        url,
        timeout=timeout_ms / 1_000,
        command_timeout=None if command_timeout_ms is None else command_timeout_ms / 1_000,
        statement_cache_size=512 if keep_statements else 0,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=0,
        server_settings={"application_name": application},
    )
    _notice_silence(connection, silence_ms)
    return connection


def _notice_silence(connection: Any, silence_ms: int) -> None:
    """Let the kernel end a TCP connection whose other side is gone without a word, whether it is in use or idle.

    Said of our own socket, and not to the server: a pooler in between refuses settings that it does not know.
    """
    made: socket.socket | None = connection._transport.get_extra_info("socket")  # a test pins this name
    if made is None or made.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    # Asked after a quarter of it, and each quarter again; the third question without an answer is the last.
    quarter_s = max(1, silence_ms // 4_000)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": quarter_s,
        "TCP_KEEPINTVL": quarter_s,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": max(silence_ms, 1_000),
    }
    for name, value in wanted.items():
        if hasattr(socket, name):  # not every system has every one
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_refusal(error: BaseException) -> bool:
    """Whether it says by this that what was asked was not done; not so where a server, or a pooler that has lost one,
    ends the session. What the driver itself refuses was never sent."""
    severity = getattr(error, "severity_en", None)
    return severity == "ERROR" or (severity is None and fault_of(error) not in {None, Fault.LOST})


def fault_of(error: BaseException) -> Fault | None:
    """What this error of a PostgreSQL is about; None if it is none of a database."""
    if isinstance(error, OSError | EOFError):  # TimeoutError is an OSError
        return Fault.LOST
    if "asyncpg" not in sys.modules:
        return None
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _fault_of_state(error.sqlstate or "")
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return Fault.ROW if isinstance(error, ValueError) else Fault.LOST
    return None


def _fault_of_state(state: str) -> Fault:
    if state in _POSTGRES_ABORTED or (state == "0A000"):  # a plan that a change of the schema has made stale
        return Fault.ABORTED
    if state in _POSTGRES_LOST:
        return Fault.LOST
    if state in _POSTGRES_POOLER:
        return Fault.POOLER
    if state == _POSTGRES_FULL or state.startswith(_POSTGRES_IO):
        return Fault.FULL if state == _POSTGRES_FULL else Fault.CORRUPT
    return _POSTGRES_CLASSES.get(state[:2], Fault.ROW)
