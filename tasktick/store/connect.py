"""The only module that knows the database drivers.

`pysqlite3`, where it is installed, takes the place of the standard library's `sqlite3` before aiosqlite
is imported: it brings a current SQLite, and every release before 3.51.3 has a race between a write and
the reset of the write-ahead log. All writes and checkpoints go through one connection in any case.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
RawConnection = sqlite3.Connection

# Result codes of SQLite, without their extension.
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
