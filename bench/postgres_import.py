"""How many new tasks go in best on a PostgreSQL: as the store puts them, as arrays of all columns, by COPY.

The same tasks, in transactions of as many rows as the writer puts together, on one connection: what is made of the
program's values is counted, and the commit; beside it, what of that is the program's own processor time, which the
event loop lacks for everything else. The store sends arrays too, but says once what the tasks share.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from bench.figures import Figure, per_second, ratio
from bench.postgres_stock import SETTINGS, Stock, stock
from tasktick.model.task import NewTask
from tasktick.store.postgres import bound, dialect
from tasktick.store.task_rows import (
    NEW_DETAIL_COLUMNS,
    NEW_STATE_COLUMNS,
    SHAPE,
    detail_row,
    new_row,
    state_row,
)
from tests.postgres import installed, own_cluster

TASKS, QUICK_TASKS = 20_000, 2_000
ROUNDS = 5
SIZES = (1, 50, 500)
TABLES = {
    "tasks": NEW_STATE_COLUMNS,
    "task_details": NEW_DETAIL_COLUMNS,
}
UUIDS = {"id"}
TYPES = {"state": "smallint", "priority": "integer", "max_attempts": "integer"}
TYPES |= dict.fromkeys(("tenant", "queue", "host", "key", "name", "type", "tags", "payload"), "text")
TYPES |= {"at_most_once": "boolean", "keyed": "boolean", **dict.fromkeys(UUIDS, "uuid")}
Put = Callable[[asyncpg.Connection, Sequence[NewTask]], Awaitable[None]]
Row = tuple[Any, ...]


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on the newest server."""
    del folder
    with own_cluster(max(installed()), SETTINGS) as server:
        return asyncio.run(_measure(asyncio.run(server.new_database()), quick))


async def _measure(url: str, quick: bool) -> list[Figure]:
    count, rounds = (QUICK_TASKS, 1) if quick else (TASKS, ROUNDS)
    rates: dict[tuple[str, int], list[float]] = {(name, size): [] for size in SIZES for name in FORMS}
    own: dict[tuple[str, int], list[float]] = {of: [] for of in rates}
    async with stock(url) as one:
        await _round(one, by_store, 500, 1_000)
        for _ in range(rounds):
            for name, size in rates:
                rate, processor_us = await _round(one, FORMS[name], size, count if size > 1 else count // 20)
                rates[name, size].append(rate)
                own[name, size].append(processor_us)
                await one.raw.execute("TRUNCATE tasks, task_details")
    figures = []
    for size in SIZES:
        base, *others = [Figure(f"{name}, {size} a transaction", "/s", tuple(rates[name, size])) for name in FORMS]
        figures += [base, *others, *(ratio(f"{figure.name}, to the store's", figure, base) for figure in others)]
        figures += [
            Figure(f"{name}, {size} a transaction, own processor a row", "µs", tuple(own[name, size])) for name in FORMS
        ]
    return figures


async def _round(one: Stock, put: Put, size: int, count: int) -> tuple[float, float]:
    """Rows a second, and microseconds of this process's processor for each."""
    fresh = [one.new(number, 3_600_000) for number in range(count)]
    began, spent = time.perf_counter(), time.process_time()
    for at in range(0, count, size):
        async with one.raw.transaction():
            await put(one.raw, fresh[at : at + size])
    return per_second(count, time.perf_counter() - began), (time.process_time() - spent) / count * 1e6


def _rows(fresh: Sequence[NewTask]) -> tuple[list[Row], list[Row]]:
    return (
        [state_row(task.state)[: len(NEW_STATE_COLUMNS)] for task in fresh],
        [detail_row(task)[: len(NEW_DETAIL_COLUMNS)] for task in fresh],
    )


def _records(table: str, rows: Sequence[Row]) -> list[Row]:
    """Rows as the driver takes them in binary; the partition is read off the id."""
    uuids = [name in UUIDS for name in TABLES[table]]
    return [
        (
            int(row[0][-2:], 16),
            *(UUID(value) if is_uuid and value else value for value, is_uuid in zip(row, uuids, strict=True)),
        )
        for row in rows
    ]


async def by_store(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """An array for each column in which they differ, in one statement."""
    [statement] = dialect()["task_insert_alike"]
    new = [row for row in map(new_row, fresh) if row is not None]
    alike = dict(zip(SHAPE, new[0].shape, strict=True))
    given = {"rows": [(*one.row, one.payload) for one in new], "unlimited": [], **alike}
    await raw.execute(statement.text, *bound(statement, given))


async def by_arrays(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """An array for each column, in binary."""
    for table, rows in zip(TABLES, _rows(fresh), strict=True):
        _, *arrays = zip(*_records(table, rows), strict=True)
        await raw.execute(ARRAYS[table], *arrays)


async def by_copy(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """COPY, in binary."""
    for (table, columns), rows in zip(TABLES.items(), _rows(fresh), strict=True):
        await raw.copy_records_to_table(table, records=_records(table, rows), columns=["partition_id", *columns])


def _unnested(table: str) -> str:
    columns = TABLES[table]
    given = ", ".join(f"${at}::{TYPES.get(name, 'bigint')}[]" for at, name in enumerate(columns, 1))
    names = ", ".join(columns)
    return (
        f"INSERT INTO {table} (partition_id, {names}) SELECT partition_of({columns[0]}), {names} "
        f"FROM unnest({given}) AS given ({names})"
    )


ARRAYS = {table: _unnested(table) for table in TABLES}
FORMS: dict[str, Put] = {"as the store": by_store, "arrays": by_arrays, "COPY": by_copy}
