"""The SQLite driver: named statements on a connection, one JSON parameter in, one JSON cell out.

A row fetched or bound costs a hand-over of the interpreter lock each, which under a busy event loop
is milliseconds; a batch is therefore one statement, and a result one cell. An operation is a coroutine
that never really waits here: `step` runs it to its end inside the connection's thread.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from tasktick.errors import StoreBroken, StoreCorrupt, StoreError, StoreFull
from tasktick.store.connect import (
    SQLITE_VERSION,
    DatabaseError,
    RawConnection,
    is_corrupt,
    is_full,
    is_of_the_row,
)
from tasktick.store.protocol import Operation
from tasktick.store.queries import load, positional
from tasktick.store.rows import decoder

T = TypeVar("T")

BUSY_TIMEOUT_MS = 10_000
JSONB_EACH_SINCE = (3, 51, 0)
WRITER_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # SQLite's own checkpoints ride on a commit and keep their errors to themselves; the writer makes its own.
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA cache_size = -16384",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)
READER_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA query_only = ON",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
)


class PartFailed(Exception):
    """A part of a transaction is to be undone, and nothing says where it began."""


class SqliteTransaction:
    """Runs named statements on one connection."""

    def __init__(self, raw: RawConnection) -> None:
        self._raw = raw
        self._queries = _dialect(SQLITE_VERSION)
        self.bound_chars = 0
        # Where each part begins is marked, so that it can be undone by itself.
        self.has_marks = True

    async def rows(self, query: str, kind: type[T], /, **parameters: Any) -> list[T]:
        cell = self._last(query, parameters).fetchone()
        if cell is None or cell[0] is None:
            return []
        return decoder(kind).decode(cell[0])

    async def run(self, query: str, /, **parameters: Any) -> int:
        return cast(int, self._last(query, parameters).rowcount)

    async def whole(self, query: str, count: int, /, **parameters: Any) -> bool:
        if not self.has_marks:
            if self._last(query, {**parameters, "count": count}).rowcount != count:
                raise PartFailed(query)
            return True
        self._raw.execute("SAVEPOINT whole")
        done: bool = self._last(query, {**parameters, "count": count}).rowcount == count
        if not done:
            self._raw.execute("ROLLBACK TO whole")
        self._raw.execute("RELEASE whole")
        return done

    def _last(self, query: str, parameters: dict[str, Any]) -> Any:
        bound = {name: bind(parameters[name]) for name in parameters_of(query)}
        self.bound_chars += sum(len(value) for value in bound.values() if isinstance(value, str))
        cursor: Any = None
        for statement in self._queries[query]:
            cursor = self._raw.execute(statement, bound)
        return cursor


@cache
def _dialect(version: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The named statements, for this version of SQLite.

    `jsonb_each` reads a row's columns without parsing the row for each of them, which makes a statement
    over a batch three to five times as fast. A SQLite without it gives the same result by `json_each`.
    """
    queries = load("sqlite")
    if version >= JSONB_EACH_SINCE:
        return queries
    return {
        name: tuple(one.replace("jsonb_each(", "json_each(") for one in statements)
        for name, statements in queries.items()
    }


def named(query: str) -> tuple[str, ...]:
    """The statements of a named query, for the SQLite that is here."""
    return _dialect(SQLITE_VERSION)[query]


@cache
def parameters_of(query: str) -> tuple[str, ...]:
    """The parameters of a named statement, or of all that it is."""
    found = (positional(one).names for one in load("sqlite")[query])
    return tuple(dict.fromkeys(name for names in found for name in names))


def bind(value: Any) -> Any:
    """A parameter as it travels."""
    if callable(value):  # what only one kind of database takes is made for that one alone
        value = value()
    if isinstance(value, list | tuple | dict):
        return msgspec.json.encode(value).decode()
    return value


def step(work: Awaitable[T]) -> T:
    """Run a coroutine that never waits, to its end."""
    coroutine = cast(Coroutine[Any, Any, T], work)
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    coroutine.close()
    raise RuntimeError("a store operation waited for something other than its transaction")


def read_with(raw: RawConnection, operation: Operation[T]) -> T:
    """Run an operation that only reads, in one snapshot."""
    try:
        raw.execute("BEGIN")
        return step(operation(SqliteTransaction(raw)))
    except DatabaseError as error:
        ours = known(error)
        if ours is error:
            raise
        raise ours from error
    finally:
        rollback(raw)


def write_with(raw: RawConnection, work: Callable[[SqliteTransaction], T]) -> T:
    """Run work and commit it. What is raised says whether anything may be on disk: only `StoreBroken` does."""
    try:
        raw.execute("BEGIN IMMEDIATE")
        result = work(SqliteTransaction(raw))
    except BaseException as error:
        rollback(raw)
        ours = known(error)
        if ours is error:
            raise
        raise ours from error
    try:
        raw.execute("COMMIT")
    except BaseException as error:
        if is_full(error):
            rollback(raw)
            raise StoreFull("The disk that holds the store is full.") from error
        raise StoreBroken(f"A commit failed and its fate is unknown: {error}") from error
    return result


def rollback(raw: RawConnection) -> None:
    """Undo what the open transaction has done; a connection that cannot even do that is broken."""
    if raw.in_transaction:
        try:
            raw.execute("ROLLBACK")
        except DatabaseError as error:
            raise StoreBroken(f"A rollback failed: {error}") from error


def known(error: BaseException) -> BaseException:
    """The error in our own words, where it is about the store and not about a row."""
    if is_full(error):
        return StoreFull("The disk that holds the store is full.")
    if is_corrupt(error):
        return StoreCorrupt(f"The store is damaged: {error}. Run `tasktick store check`.")
    if isinstance(error, DatabaseError) and not is_of_the_row(error):
        return StoreBroken(f"The store failed: {error}")
    return error


def in_savepoint(raw: RawConnection, tx: SqliteTransaction, operation: Operation[T]) -> T | Exception:
    """Run one caller's operation so that its failure undoes only itself."""
    raw.execute("SAVEPOINT operation")
    try:
        result = step(operation(tx))
    except Exception as error:  # handed to its caller, unless it is the store's own
        ours = known(error)
        if isinstance(ours, StoreError):
            raise
        raw.execute("ROLLBACK TO operation")
        raw.execute("RELEASE operation")
        return error
    raw.execute("RELEASE operation")
    return result


def at_once(_raw: RawConnection, tx: SqliteTransaction, operation: Operation[T]) -> T:
    """Run one caller's operation; where it fails, the transaction is made again with it in a savepoint."""
    try:
        return step(operation(tx))
    except PartFailed:
        raise
    except Exception as error:
        if isinstance(known(error), StoreError):
            raise
        raise PartFailed from error
