"""A SQLite file as one end of a move. Its lock is held from `hold` on, so nobody else writes to it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from tasktick.errors import StoreError
from tasktick.store import leases, migrate, whereabouts
from tasktick.store.connect import DatabaseError, RawConnection, is_no_database, raw_connection
from tasktick.store.database import URL_START, cannot_open, lock_file, make_private, require_file
from tasktick.store.moving_ends import BYTES_MAX, ROWS_MAX, Change, Chunk, carried, require_current, require_unused
from tasktick.store.moving_tables import TABLES, Row, Statements, Table, lowest, sqlite_statements
from tasktick.store.protocol import Transaction
from tasktick.store.sqlite import READER_PRAGMAS, WRITER_PRAGMAS, known, read_with, step, write_with
from tasktick.store.whereabouts import Whereabouts

T = TypeVar("T")

# Nobody else checkpoints while a move fills the file.
FILLING_PRAGMAS = (*WRITER_PRAGMAS, "PRAGMA wal_autocheckpoint = 4000")
# Between two looks at how much it is by now.
FETCHED_AT_ONCE = 100
LARGE_AT_ONCE = 8


class SqliteEnd:
    """A file; `may_make` says that it may be a new one."""

    patience_ms = 0

    def __init__(self, path: Path, *, may_make: bool) -> None:
        self._path = path.resolve()
        self._may_make = may_make
        self._lock: IO[str] | None = None
        self._raw: RawConnection | None = None
        self._types: dict[str, Mapping[str, str]] = {}
        self._statements: dict[str, Statements] = {}

    @property
    def shown(self) -> str:
        return f"{URL_START}{self._path}"

    def _require_place(self) -> None:
        """Raise unless this is a SQLite file, or one may be made there; nothing is made yet."""
        if not self._may_make or self._path.exists():
            require_file(self._path)
        elif not self._path.parent.is_dir():
            raise StoreError(f"There is no folder {self._path.parent}. Make it first, or name another place with --to.")

    async def look(self) -> None:
        self._require_place()
        self._raw = self._tried(lambda: raw_connection(self._path, READER_PRAGMAS, read_only=True))
        require_current(migrate.available(), self._tried(lambda: migrate.applied(self._connection)), self.shown)

    async def hold(self) -> None:
        if self._lock is not None:
            return
        self._require_place()
        self._lock = lock_file(self._path, "Stop that one first.")
        self._forget_connection()
        self._raw = self._tried(self._opened)

    def _opened(self) -> RawConnection:
        make_private(self._path)
        raw = raw_connection(self._path, FILLING_PRAGMAS)
        try:
            if not migrate.applied(raw):
                names = raw.execute("SELECT name FROM sqlite_master WHERE name != 'schema_history'").fetchall()
                require_unused([name for (name,) in names], self.shown, may_make=self._may_make)
            migrate.migrate(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    @property
    def _connection(self) -> RawConnection:
        assert self._raw is not None, "it is opened first"
        return self._raw

    def _tried(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (DatabaseError, OSError) as error:
            if is_no_database(error):
                raise StoreError(
                    f"{self._path} is no SQLite database. Name a store, or with --to a file that is not there."
                ) from error
            ours = known(error)
            raise (ours if isinstance(ours, StoreError) else cannot_open(self._path, error)) from error

    async def whereabouts(self) -> Whereabouts:
        return read_with(self._connection, whereabouts.read)

    async def is_empty(self) -> bool:
        return not any(self._cell(f"SELECT EXISTS (SELECT 1 FROM {one.name})") for one in TABLES if not one.preset)  # noqa: S608 - our own names

    def _cell(self, statement: str) -> Any:
        return self._tried(lambda: self._connection.execute(statement).fetchone()[0])

    async def columns(self, table: Table) -> Sequence[str]:
        rows = self._tried(
            lambda: self._connection.execute("SELECT name, type FROM pragma_table_info(?)", (table.name,)).fetchall()
        )
        self._types[table.name] = types = dict(rows)
        columns = carried(table, types)
        self._statements[table.name] = sqlite_statements(table, columns)
        return columns

    async def count(self, table: Table) -> int:
        return int(self._cell(self._statements[table.name].count))

    async def chunk(self, table: Table, after: Row | None) -> Chunk:
        return await self._aside(lambda: self._next(table, after))

    def _next(self, table: Table, after: Row | None) -> Chunk:
        cursor = self._connection.execute(self._statements[table.name].after, (*self._low(table, after), ROWS_MAX))
        rows: list[Row] = []
        size = 0
        try:
            while part := cursor.fetchmany(LARGE_AT_ONCE if table.wide else FETCHED_AT_ONCE):
                rows += part
                if table.wide:
                    size += sum(len(value) for row in part for value in row if isinstance(value, str))
                if size > BYTES_MAX:
                    break
        finally:
            cursor.close()
        is_end = len(rows) < ROWS_MAX and size <= BYTES_MAX
        return Chunk(rows, None if is_end else rows[-1][: len(table.keys)])

    def _low(self, table: Table, after: Row | None) -> Row:
        return lowest(table, self._types[table.name]) if after is None else after

    async def between(self, table: Table, after: Row | None, upto: Row | None, limit: int) -> list[Row]:
        statements = self._statements[table.name]
        low = self._low(table, after)
        statement, bounds = (statements.after, low) if upto is None else (statements.between, (*low, *upto))
        return await self._aside(lambda: self._connection.execute(statement, (*bounds, limit)).fetchall())

    async def put(self, table: Table, change: Change) -> None:
        statements = self._statements[table.name]
        low = self._low(table, change.after)

        async def operation(tx: Transaction) -> None:
            if change.replace:
                upto = change.chunk.upto
                remove = statements.remove_after if upto is None else statements.remove_between
                self._connection.execute(remove, (*low, *(upto or ())))
            self._connection.executemany(statements.insert, change.chunk.rows)
            await whereabouts.reached(tx, change.progress, change.run)

        await self._aside(lambda: self._write(operation))

    async def _aside(self, work: Callable[[], T]) -> T:
        """In a thread, so that the other end is busy meanwhile."""
        return await asyncio.to_thread(self._tried, work)

    def _write(self, operation: Callable[[Transaction], Awaitable[T]]) -> T:
        return write_with(self._connection, lambda tx: step(operation(tx)))

    async def begin(self, place: str, store_id: str, run: str, *, clear: bool) -> None:
        async def operation(tx: Transaction) -> None:
            for table in TABLES if clear else ():
                self._connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - our own names
            await whereabouts.fill(tx, place, store_id, run)

        self._write(operation)

    async def go_on(self, store_id: str, run: str) -> None:
        self._write(lambda tx: whereabouts.go_on(tx, store_id, run))

    async def move_away(self, place: str, store_id: str, now: int) -> None:
        async def operation(tx: Transaction) -> None:
            # The lock is ours: who had the file before is dead, and what it was at may be taken up at once.
            await leases.prove_dead(tx, now)
            await whereabouts.moved(tx, place, store_id, now)

        self._write(operation)

    async def come_back(self) -> None:
        self._write(whereabouts.stays)

    async def open_up(self, run: str) -> None:
        self._write(lambda tx: whereabouts.opens(tx, run))

    def _forget_connection(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    async def close(self) -> None:
        self._forget_connection()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
