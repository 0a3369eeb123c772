"""A PostgreSQL as one end of a move. No lock keeps nodes out: a trigger on what each of their transactions writes does.

Statements go by index, whatever the statistics of a table that was empty a moment ago; they are a session's, so there
must be no pooler in between.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tasktick.errors import StoreError, StoreLocked
from tasktick.model.ids import partition_of
from tasktick.store import events, migrate, whereabouts
from tasktick.store.connect import PostgresConnection, fault_of
from tasktick.store.moving_ends import BYTES_MAX, ROWS_MAX, Change, Chunk, carried, require_current, require_unused
from tasktick.store.moving_tables import (
    EMPTIED,
    PARTITION,
    TABLES,
    Row,
    Statements,
    Table,
    lowest,
    postgres_statements,
    walked,
)
from tasktick.store.postgres import PostgresTransaction, known
from tasktick.store.postgres_database import facts_of, judge_server
from tasktick.store.postgres_links import PostgresAddress, connect_patiently
from tasktick.store.postgres_migrate import DIALECT, applied
from tasktick.store.postgres_migrate import migrate as bring_up_to_date
from tasktick.store.postgres_refusals import raise_as_ours, raise_misset
from tasktick.store.protocol import Transaction
from tasktick.store.whereabouts import Whereabouts

T = TypeVar("T")

SESSION = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
    "SET jit = off; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 60000; "
    "SET lock_timeout = 30000"
)
# The keys that are looked at to find the next chunk: so many of each partition at first, so many at most.
KEYS_EACH = 40
KEYS_MAX = 20_000
# A term lasts 10 s by default, and that of a node which was killed has to end by itself.
PATIENCE_MS = 15_000


class PostgresEnd:
    """A database on a server; `may_make` says that a store may be made there."""

    patience_ms = PATIENCE_MS

    def __init__(self, address: PostgresAddress, *, may_make: bool) -> None:
        self._address = address
        self._may_make = may_make
        self._raw: PostgresConnection | None = None
        self._types: dict[str, Mapping[str, str]] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self._statements: dict[str, Statements] = {}
        self._keys_each = KEYS_EACH

    @property
    def shown(self) -> str:
        return self._address.shown

    async def look(self) -> None:
        await self._connect()
        require_current(migrate.available(DIALECT), await applied(self._connection), self.shown)

    async def hold(self) -> None:
        await self._connect()
        await self._tried(self._bring_up_to_date())
        await self._require_idle(self._transaction)

    async def _bring_up_to_date(self) -> None:
        if not await applied(self._connection):
            require_unused(await self._transaction.rows("moving_foreign", str), self.shown, may_make=self._may_make)
        try:
            await bring_up_to_date(self._connection, connect=lambda: connect_patiently(self._address))
        except Exception as error:
            raise_misset(self._address, error)
            raise

    async def _require_idle(self, tx: Transaction) -> None:
        living = await tx.rows("moving_living", str)
        if living:
            names = ", ".join(living)
            raise StoreLocked(f"The store {self.shown} is in use by {names}. Stop that first.", holder=names)

    async def _connect(self) -> None:
        if self._raw is not None:
            return
        try:
            self._raw = await connect_patiently(self._address)
            judge_server(await facts_of(self._raw))
            await self._raw.execute(SESSION)
        except Exception as error:
            raise_as_ours(self._address, error)
            raise

    @property
    def _connection(self) -> PostgresConnection:
        assert self._raw is not None, "it is opened first"
        return self._raw

    @property
    def _transaction(self) -> PostgresTransaction:
        return PostgresTransaction(self._connection)

    async def _tried(self, work: Awaitable[T], about: str = "") -> T:
        try:
            return await work
        except Exception as error:
            ours = known(error)
            if ours is not error:
                raise ours from error
            # The driver finds by itself what is no number of that size.
            if fault_of(error) is not None or isinstance(error, OverflowError):
                raise StoreError(
                    f"The store {self.shown} refused a part of the move{about}: {error}. Run `tasktick store check` on "
                    "the other; then the same command goes on."
                ) from error
            raise

    async def whereabouts(self) -> Whereabouts:
        return await self._tried(whereabouts.read(self._transaction))

    async def is_empty(self) -> bool:
        for name in (*(table.name for table in TABLES if not table.preset), *EMPTIED):
            if await self._tried(self._connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {name})")):  # noqa: S608 - our own names
                return False
        return True

    async def columns(self, table: Table) -> Sequence[str]:
        rows = await self._tried(self._transaction.rows("moving_columns", tuple[str, str], name=table.name))
        self._types[table.name] = types = dict(rows)
        self._columns[table.name] = columns = carried(table, types)
        self._statements[table.name] = postgres_statements(table, columns, types)
        return columns

    async def count(self, table: Table) -> int:
        return int(await self._tried(self._connection.fetchval(self._statements[table.name].count)))

    async def chunk(self, table: Table, after: Row | None) -> Chunk:
        upto = await self._edge(table, after)
        return Chunk(await self.between(table, after, upto, KEYS_MAX), upto)

    async def _edge(self, table: Table, after: Row | None) -> Row | None:
        """How far the next chunk goes: not beyond where one partition has more than was looked at."""
        by_partition, place = walked(table), table.keys.index(table.of) if table.of else 0
        each = self._keys_each if by_partition else ROWS_MAX
        asked = (KEYS_MAX, each) if by_partition else (ROWS_MAX,)
        low = self._low(table, after)
        found = await self._fetch(self._statements[table.name].keys_after, *low, *asked)
        seen: Counter[int] = Counter()
        size = taken = 0
        edge: Row | None = None
        for *key, row_size in found:
            taken, size = taken + 1, size + row_size
            partition = partition_of(key[place]) if by_partition else 0
            seen[partition] += 1
            if seen[partition] == each or taken == ROWS_MAX or size > BYTES_MAX:
                edge = tuple(key)
                break
        if by_partition:
            self._look_further_or_less(len(found), taken, size)
        return edge

    def _look_further_or_less(self, found: int, taken: int, size: int) -> None:
        """Where few partitions hold most, looking at few keys of each brings little."""
        if taken < ROWS_MAX // 5 and size < BYTES_MAX // 5:
            self._keys_each = min(2 * self._keys_each, ROWS_MAX)
        elif found > 4 * taken:
            self._keys_each = max(self._keys_each // 2, KEYS_EACH)

    def _low(self, table: Table, after: Row | None) -> Row:
        return lowest(table, self._types[table.name]) if after is None else after

    async def between(self, table: Table, after: Row | None, upto: Row | None, limit: int) -> list[Row]:
        statements = self._statements[table.name]
        low = self._low(table, after)
        if upto is None:
            return await self._fetch(statements.after, *low, limit)
        return await self._fetch(statements.between, *low, *upto, limit)

    async def _fetch(self, statement: str, *values: Any) -> list[Row]:
        return [tuple(row) for row in await self._tried(self._connection.fetch(statement, *values))]

    async def put(self, table: Table, change: Change) -> None:
        statements = self._statements[table.name]
        low, upto = self._low(table, change.after), change.chunk.upto
        columns = self._columns[table.name]
        front = (PARTITION,) if table.of else ()

        async def operation(tx: Transaction) -> None:
            if change.replace:
                remove = statements.remove_after if upto is None else statements.remove_between
                await self._connection.execute(remove, *low, *(upto or ()))
            await self._connection.copy_records_to_table(
                table.name, records=self._records(table, change.chunk.rows), columns=(*front, *columns, *table.added)
            )
            await whereabouts.reached(tx, change.progress, change.run)

        beyond = "" if change.after is None else f", beyond {'/'.join(map(str, change.after))}"
        await self._write(operation, f" (table {table.name}{beyond})")

    def _records(self, table: Table, rows: Sequence[Row]) -> Iterator[Row]:
        types = self._types[table.name]
        flags = [at for at, column in enumerate(self._columns[table.name]) if types[column] == "boolean"]
        added = tuple(table.added.values())
        at_id = self._columns[table.name].index(table.of) if table.of else 0
        for row in rows:
            values = list(row)
            for at in flags:
                values[at] = None if values[at] is None else bool(values[at])
            front = (partition_of(row[at_id]),) if table.of else ()
            yield (*front, *values, *added)

    async def _write(self, operation: Callable[[Transaction], Awaitable[None]], about: str = "") -> None:
        await self._tried(self._in_transaction(operation), about)

    async def _in_transaction(self, operation: Callable[[Transaction], Awaitable[None]]) -> None:
        raw = self._connection
        await raw.execute("BEGIN")
        try:
            await operation(self._transaction)
        except BaseException:
            if not raw.is_closed():
                await raw.execute("ROLLBACK")
            raise
        await raw.execute("COMMIT")

    async def _say(self, query: str) -> None:
        await self._connection.execute(self._transaction.text(query))

    async def begin(self, place: str, store_id: str, run: str, *, clear: bool) -> None:
        async def operation(tx: Transaction) -> None:
            await self._say("moving_shut")
            await self._require_idle(tx)
            for name in (*(table.name for table in TABLES), *EMPTIED) if clear else ():
                await self._connection.execute(f"TRUNCATE {name}")
            await whereabouts.fill(tx, place, store_id, run)

        await self._write(operation)

    async def go_on(self, store_id: str, run: str) -> None:
        await self._write(lambda tx: whereabouts.go_on(tx, store_id, run))

    async def move_away(self, place: str, store_id: str, now: int) -> None:
        async def operation(tx: Transaction) -> None:
            await self._say("moving_shut")
            await self._require_idle(tx)
            await self._say("moving_event_turn")
            while (await events.number(tx)).more:
                pass
            await whereabouts.moved(tx, place, store_id, now)

        await self._write(operation)

    async def come_back(self) -> None:
        async def operation(tx: Transaction) -> None:
            await self._say("moving_unshut")
            await whereabouts.stays(tx)

        await self._write(operation)

    async def open_up(self, run: str) -> None:
        async def operation(tx: Transaction) -> None:
            await self._say("moving_event_head")
            await self._say("moving_unshut")
            await whereabouts.opens(tx, run)

        await self._write(operation)

    async def close(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None and not raw.is_closed():
            try:
                await raw.close(timeout=2.0)
            except Exception:  # noqa: BLE001 - a server that is not there cannot be told
                raw.terminate()
