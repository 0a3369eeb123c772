"""How many new tasks go in best on a PostgreSQL: as JSON, as arrays, by COPY.

The same tasks, in transactions of as many rows as the writer puts together, on one connection: what is made of the
program's values is counted, and the commit. JSON is what the store does (`tasks.insert`, but for names and counts,
which every form would need).
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
from tasktick.store.postgres import PostgresTransaction
from tasktick.store.tasks import INSERTED, _detail_row, _state_row, payload_row
from tests.postgres import installed, own_cluster

TASKS, QUICK_TASKS = 20_000, 2_000
ROUNDS = 5
SIZES = (1, 50, 500)
STATE = ("state", *INSERTED)
DETAIL = (
    *("id", "tenant", "created_at", "key", "name", "type", "tags", "sla_ms", "expires_in_ms", "schedule_id"),
    *("workflow_id", "step"),
)
UUIDS = {"id", "task_id", "template_id", "after_id"}
TYPES = {"state": "smallint", "priority": "integer", "max_attempts": "integer", "payload_version": "integer"}
TYPES |= dict.fromkeys(("tenant", "queue", "host", "reason", "key", "name", "type", "tags", "payload"), "text")
TYPES |= dict.fromkeys(("schedule_id", "workflow_id", "step"), "text")
TYPES |= {"version": "integer", "at_most_once": "boolean", "keyed": "boolean", **dict.fromkeys(UUIDS, "uuid")}
Put = Callable[[asyncpg.Connection, Sequence[NewTask]], Awaitable[None]]


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on the newest server."""
    del folder
    with own_cluster(max(installed()), SETTINGS) as server:
        return asyncio.run(_measure(asyncio.run(server.new_database()), quick))


async def _measure(url: str, quick: bool) -> list[Figure]:
    count, rounds = (QUICK_TASKS, 1) if quick else (TASKS, ROUNDS)
    found: dict[tuple[str, int], list[float]] = {(name, size): [] for size in SIZES for name in FORMS}
    async with stock(url) as one:
        await _round(one, by_json, 500, 1_000)
        for _ in range(rounds):
            for (name, size), rates in found.items():
                rates.append(await _round(one, FORMS[name], size, count if size > 1 else count // 20))
                await one.raw.execute("TRUNCATE tasks, task_details, payloads")
    figures = []
    for size in SIZES:
        base, *others = [Figure(f"{name}, {size} a transaction", "/s", tuple(found[name, size])) for name in FORMS]
        figures += [base, *others, *(ratio(f"{figure.name}, to JSON", figure, base) for figure in others)]
    return figures


async def _round(one: Stock, put: Put, size: int, count: int) -> float:
    """Rows a second."""
    fresh = [one.new(number, 3_600_000) for number in range(count)]
    began = time.perf_counter()
    for at in range(0, count, size):
        async with one.raw.transaction():
            await put(one.raw, fresh[at : at + size])
    return per_second(count, time.perf_counter() - began)


async def by_json(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """One JSON parameter a statement."""
    tx = PostgresTransaction(raw)
    for name, rows in zip(("task_insert", "task_detail_insert", "payload_insert"), _rows(fresh), strict=True):
        await tx.run(name, rows=rows)


async def by_arrays(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """An array for each column, in binary."""
    for (table, columns, key), rows in zip(TABLES, _rows(fresh), strict=True):
        arrays = [[_value(name, row[name]) for row in rows] for name in columns]
        await raw.execute(ARRAYS[table, key], *arrays)


async def by_copy(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """COPY, in binary; the partition is read off the id here."""
    for (table, columns, key), rows in zip(TABLES, _rows(fresh), strict=True):
        records = [(int(row[key][-2:], 16), *(_value(name, row[name]) for name in columns)) for row in rows]
        await raw.copy_records_to_table(table, records=records, columns=["partition_id", *columns])


def _rows(fresh: Sequence[NewTask]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    return (
        [_state_row(task.state) for task in fresh],
        [_detail_row(task.detail) for task in fresh],
        [payload_row(task.state.id, 1, task.payload) for task in fresh],
    )


def _value(name: str, value: Any) -> Any:
    return UUID(value) if name in UUIDS and value is not None else value


TABLES = (
    ("tasks", STATE, "id"),
    ("task_details", DETAIL, "id"),
    ("payloads", ("task_id", "version", "payload"), "task_id"),
)


def _unnested(table: str, columns: Sequence[str], key: str) -> str:
    given = ", ".join(f"${at}::{TYPES.get(name, 'bigint')}[]" for at, name in enumerate(columns, 1))
    names = ", ".join(columns)
    return (
        f"INSERT INTO {table} (partition_id, {names}) SELECT partition_of({key}), {names} "
        f"FROM unnest({given}) AS given ({names})"
    )


ARRAYS = {(table, key): _unnested(table, columns, key) for table, columns, key in TABLES}
FORMS: dict[str, Put] = {"JSON": by_json, "arrays": by_arrays, "COPY": by_copy}
