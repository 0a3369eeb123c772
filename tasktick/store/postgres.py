"""The PostgreSQL driver: named statements on a connection, JSON parameters in, one JSON cell out.

An operation is awaited in one transaction. What a session would have to remember (timeouts, how to plan) is said at
the start of every transaction instead, so that any pooler may stand in between; the one message costs no more.

New tasks that nothing has to be asked about are a statement that is a transaction by itself: one message in place of
three. Where it is sent, the session has the same limits.

A commit of which the answer was lost is not looked for among the rows: what is under way is seen by nobody. Every
transaction sets a mark on a row of its writer; `was_committed` writes to that row too, and so waits for whoever still
holds it. The mark is there if, and only if, all the rest is; where it is not, it is passed over, so that a statement
which arrives later does nothing.

Rows that every writer of every node changes are locked by nobody who still has something to say: what changes them goes
in one message with the commit. Else a node that is held in a transaction would hold up all others with it.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from tasktick.errors import StoreBroken, StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from tasktick.store.connect import Fault, PostgresConnection, fault_of, is_refusal
from tasktick.store.protocol import Aborted, Alone, Operation
from tasktick.store.queries import Positional, load, positional
from tasktick.store.rows import decoder

T = TypeVar("T")

# Settings of every transaction (RULES). A partition's due rows are few among many, whatever the statistics said when
# a plan was made: a queue's statements go by index, and are not worth compiling.
STATEMENT_MOST_MS = 5_000
LIMITS = {
    "statement_timeout": str(STATEMENT_MOST_MS),
    "lock_timeout": "2000",
    "idle_in_transaction_session_timeout": "2000",
    "client_connection_check_interval": "1000",
}
_TIMEOUTS = tuple(f"SET LOCAL {name} = {value}" for name, value in LIMITS.items())
# The same for a statement that is a transaction by itself, and as long as the session lasts.
SESSION_LIMITS = "; ".join(f"SET {name} = {value}" for name, value in LIMITS.items())
# What a transaction that writes must find itself under.
WRITES_UNDER = {"transaction_isolation": "read committed", "transaction_read_only": "off", **LIMITS}
_BY_INDEX = (
    "SET LOCAL enable_seqscan = off",
    "SET LOCAL enable_hashjoin = off",
    "SET LOCAL enable_mergejoin = off",
    "SET LOCAL enable_memoize = off",  # no id is looked up twice
    "SET LOCAL jit = off",
)
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_WRITE = "; ".join(("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", *_TIMEOUTS, *_BY_INDEX))
# Claims and ends are given ids, and one plan does for whatever ids: else each session makes five before it keeps one.
BEGIN_FIRE = f"{BEGIN_WRITE}; SET LOCAL plan_cache_mode = force_generic_plan"
# What is due is read in the order of an index, as far as a page goes, and never gathered whole to be sorted.
BEGIN_NEAR = "; ".join((_SNAPSHOT, *_TIMEOUTS, *_BY_INDEX, "SET LOCAL enable_bitmapscan = off"))
BEGIN_READ = "; ".join((_SNAPSHOT, *_TIMEOUTS, "SET LOCAL jit = off"))
BEGIN_CHECK = _SNAPSHOT


def begin_term(limit_ms: int) -> str:
    """For what is of no use later."""
    limit_ms = min(limit_ms, STATEMENT_MOST_MS)
    limits = (f"SET LOCAL statement_timeout = {limit_ms}", f"SET LOCAL lock_timeout = {limit_ms}")
    return "; ".join(("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", *_TIMEOUTS, *limits, *_BY_INDEX))


# The server's own time in milliseconds, rounded down, read once in a statement and when it is run: `:clock` in SQL.
CLOCK = "(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
# The same to the part of a millisecond: `:moment`.
MOMENTS = {CLOCK: "(extract(epoch FROM clock_timestamp()) * 1000)"}
_CLOCK = re.compile(r"(?<![:\w]):(clock|moment)\b")

# What changes rows that all writers contend for.
_WITH_COMMIT = frozenset({"counts_add", "events_add"})
_encode = msgspec.json.Encoder().encode
_NUMBERED = re.compile(r"\$(\d+)")

POOLER_ADVICE = (
    "The store is behind a pooler that does not keep prepared statements: set prepared_statements = false in [store]."
)


class CommitUnknown(StoreError):
    """The answer to a commit was lost, or said less than it must."""

    def __init__(self, error: str, result: Any) -> None:
        super().__init__(error)
        self.result = result


class PostgresTransaction:
    """Runs named statements on one connection; with `last_words`, leaves to the commit what is to go with it.

    `begin` is what it was begun with, to be begun again.
    """

    def __init__(self, raw: PostgresConnection, last_words: list[str] | None = None, begin: str = BEGIN_WRITE) -> None:
        self._raw = raw
        self._queries = dialect(CLOCK)
        self._last_words = last_words
        self._begin = begin

    async def rows(self, query: str, kind: type[T], /, **parameters: Any) -> list[T]:
        *before, last = self._queries[query]
        for statement in before:
            await self._raw.execute(statement.text, *bound(statement, parameters))
        cell = await self._raw.fetchval(last.text, *bound(last, parameters))
        if cell is None:
            return []
        return decoder(kind).decode(cell)

    async def run(self, query: str, /, **parameters: Any) -> int:
        status = ""
        if self._last_words is not None and query in _WITH_COMMIT:
            self._last_words.append(written_out_as(query, **parameters))
            return 0
        for statement in self._queries[query]:
            status = await self._raw.execute(statement.text, *bound(statement, parameters))
        return int(status.rpartition(" ")[2])  # such as "INSERT 0 3"

    async def whole(self, query: str, count: int, /, **parameters: Any) -> bool:
        if await self.run(query, count=count, **parameters) == count:
            return True
        # A savepoint before each such statement would cost more than beginning anew does after the odd one.
        await self._raw.execute(f"ROLLBACK; {self._begin}")
        if self._last_words is not None:
            self._last_words.clear()
        return False

    def text(self, query: str) -> str:
        """A statement without parameters, for who runs it as it is."""
        return "; ".join(one.text for one in self._queries[query])


@cache
def dialect(clock: str = CLOCK) -> dict[str, tuple[Positional, ...]]:
    """The named statements, their parameters numbered, with this for the time."""
    times = {"clock": clock, "moment": MOMENTS.get(clock, clock)}
    return {
        name: tuple(positional(_CLOCK.sub(lambda found: times[found[1]], one)) for one in statements)
        for name, statements in load("postgres").items()
    }


def bound(statement: Positional, parameters: dict[str, Any]) -> list[Any]:
    """The values of a statement's parameters in its order; `rows__2` is the third column of `rows`, an array,
    `rows__2__joined` the same as the text of one, of values that need no quotes, and `rows__2__json` an array of their
    JSON. `rows__2__alike` is the value that all have, `rows__2__apart` the array where they have not one, and
    `rows__3__unlike_2` the array where it is not that of the other column. A column may be there already."""
    return _values(statement.names, parameters)


def bound_before(query: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The same of these alone, by the names that they have in a named statement, to be given to it with others."""
    (statement,) = dialect()[query]
    names = tuple(name for name in statement.names if name.partition("__")[0] in parameters)
    return dict(zip(names, _values(names, parameters), strict=True))


def _values(names: Sequence[str], parameters: dict[str, Any]) -> list[Any]:
    columns: dict[str, list[tuple[Any, ...]]] = {}
    values: list[Any] = []
    for name in names:
        table, _, place = name.partition("__")
        if not place:
            values.append(_bind(parameters[name]))
            continue
        if name in parameters:
            values.append(parameters[name])
            continue
        if table not in columns:
            columns[table] = list(zip(*_made(parameters[table]), strict=True))
        number, _, way = place.partition("__")
        way, _, other = way.partition("_")
        made = columns[table]
        column = made[int(number)] if made else ()
        values.append(_WAYS[way](column, made[int(other)] if made and other else ()))
    return values


_Column = tuple[Any, ...]


def _array(column: _Column, _: _Column) -> _Column | None:
    """An array that is shorter than those beside it is filled with NULL: where there is nothing else none is sent."""
    return None if column.count(None) == len(column) else column


def _texts(column: _Column, _: _Column) -> list[str]:
    return [_json(one) for one in column]


def _joined(column: _Column, _: _Column) -> str:
    texts = ("NULL" if one is None else str(one) for one in column) if None in column else map(str, column)
    return f"{{{','.join(texts)}}}"


def _has_one_value(column: _Column) -> bool:
    return column.count(column[0]) == len(column)


def _alike(column: _Column, _: _Column) -> Any:
    return column[0] if column and _has_one_value(column) else None


def _apart(column: _Column, _: _Column) -> _Column | None:
    return column if column and not _has_one_value(column) else None


def _unlike(column: _Column, other: _Column) -> _Column | None:
    return None if column == other else column


_WAYS: dict[str, Callable[[_Column, _Column], Any]] = {
    "": _array,
    "json": _texts,
    "joined": _joined,
    "alike": _alike,
    "apart": _apart,
    "unlike": _unlike,
}


def written_out(statement: Positional, parameters: dict[str, Any]) -> str:
    """A statement with its values in it, as a message of several statements must have them."""
    values = [_literal(value) for value in bound(statement, parameters)]
    return _NUMBERED.sub(lambda number: values[int(number[1]) - 1], statement.text)


def written_out_as(query: str, /, **parameters: Any) -> str:
    """A named statement with its parameters in it, for who runs it with others in one message."""
    return "; ".join(written_out(one, parameters) for one in dialect()[query])


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        # The same whatever `standard_conforming_strings` says.
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"({int(value)})"


def _made(value: Any) -> Any:
    """What only one kind of database takes is made for that one alone."""
    return value() if callable(value) else value


def _bind(value: Any) -> Any:
    value = _made(value)
    return _json(value) if isinstance(value, list | tuple | dict) else value


def _json(value: Any) -> str:
    return _encode(value).decode()


async def read_with(raw: PostgresConnection, operation: Operation[T], begin: str) -> T:
    """Run an operation that only reads, in one snapshot."""
    try:
        await raw.execute(begin)
        result = await operation(PostgresTransaction(raw))
        await raw.execute("COMMIT")
        return result
    except BaseException as error:
        await _undo(raw, error)
        raise


async def write_with(
    raw: PostgresConnection, work: Operation[T], writer: str, mark: int, begin: str = BEGIN_WRITE
) -> T:
    """Run work and commit it under this mark. `CommitUnknown` alone leaves open whether it is written."""
    last_words: list[str] = []
    # In one message. Not with the commit: who finds out about a commit that is still on its way waits for the mark.
    begin = f"{begin}; {written_out_as('mark_set', writer=writer, mark=mark)}"
    try:
        await raw.execute(begin)
        result = await work(PostgresTransaction(raw, last_words, begin))
    except BaseException as error:
        await _undo(raw, error)
        raise
    await _commit(raw, result, last_words)
    return result


async def write_alone(raw: PostgresConnection, alone: Alone, results: Any, writer: str, mark: int) -> bool:
    """Write what is one statement, a transaction by itself, under this mark; false if it wrote nothing."""
    asked = {"writer": writer, "mark": mark, **alone.parameters}
    tx = PostgresTransaction(raw)
    (written,) = await _surely(raw, tx.rows(alone.query, int, **asked), results)
    assert written in {0, alone.rows}, f"{alone.query} writes all or none"
    return bool(written)


async def was_committed(raw: PostgresConnection, writer: str, mark: int) -> bool:
    """Whether the transaction that set this mark is in the store, now that nobody can add it any more."""
    tx = PostgresTransaction(raw)
    try:
        await raw.execute(BEGIN_WRITE)
        found = await tx.rows("mark_settle", int, writer=writer, mark=mark)
    except BaseException as error:
        await _undo(raw, error)
        raise
    try:
        await _commit(raw, None)
    except CommitUnknown as error:
        raise StoreUnavailable(str(error)) from error
    return found == [mark]


async def write_unmarked(raw: PostgresConnection, operation: Operation[T], begin: str) -> T:
    """Run an operation that may be run again, whatever has become of it."""
    try:
        await raw.execute(begin)
        result = await operation(PostgresTransaction(raw, begin=begin))
    except BaseException as error:
        await _undo(raw, error)
        raise
    await _commit(raw, result)
    return result


async def _commit(raw: PostgresConnection, result: Any, last_words: Sequence[str] = ()) -> None:
    """Commit, with these before."""

    async def commit() -> None:
        if await raw.execute("; ".join((*last_words, "COMMIT"))) != "COMMIT":
            raise Aborted("The transaction was undone at its commit.")

    await _surely(raw, commit(), result)


async def _surely(raw: PostgresConnection, committing: Awaitable[T], result: Any) -> T:
    """The answer to what commits; what a synchronous standby may not have got is not known to be committed."""
    warnings: list[str] = []

    def heard(_: Any, message: Any) -> None:
        if message.severity_en == "WARNING":
            warnings.append(str(message))

    raw.add_log_listener(heard)
    try:
        answer = await committing
    except Aborted:
        raise
    except BaseException as error:
        if is_refusal(error):  # the server says what is wrong: nothing of it is there
            await _undo(raw, error)
            raise
        raw.terminate()
        if not isinstance(error, Exception):
            raise
        raise CommitUnknown(f"The answer to a commit was lost: {str(error) or type(error).__name__}", result) from error
    finally:
        raw.remove_log_listener(heard)
    if warnings:
        raw.terminate()
        raise CommitUnknown(f"A commit came with a warning: {warnings[0]}", result)
    return answer


async def _undo(raw: PostgresConnection, error: BaseException) -> None:
    """Undo what the open transaction has done, and raise the error in our own words if it is the store's."""
    if not isinstance(error, Exception) or fault_of(error) is Fault.LOST:
        raw.terminate()
    else:
        try:
            await raw.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the server undoes what a lost connection had begun
            raw.terminate()
    ours = known(error)
    if ours is not error:
        raise ours from error


def known(error: BaseException) -> BaseException:
    """The error in our own words, where it is about the store and not about a row."""
    if isinstance(error, StoreError):
        return error
    match fault_of(error):
        case Fault.ABORTED:
            return Aborted(f"Others were in the way: {error}")
        case Fault.LOST | Fault.REFUSED:
            return StoreUnavailable(f"The store cannot be reached: {str(error) or type(error).__name__}")
        case Fault.FULL:
            return StoreFull("The disk that holds the store is full.")
        case Fault.CORRUPT:
            return StoreCorrupt(f"The store is damaged: {error}. See the log of the PostgreSQL.")
        case Fault.POOLER:
            return StoreBroken(f"{POOLER_ADVICE} ({error})")
        case _:
            return error
