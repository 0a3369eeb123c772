"""How many new tasks go in best on a PostgreSQL: as JSON, as arrays, by COPY.

The same tasks, in transactions of as many rows as the writer puts together, on one connection: what is made of the
program's values is counted, and the commit. The store does the first and the last (`postgres_copy`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg

from bench.figures import Figure, per_second, ratio
from bench.postgres_stock import SETTINGS, Stock, stock
from tasktick.model.task import NewTask
from tasktick.store.postgres import bound, dialect
from tasktick.store.postgres_copy import COPIES, Copy, copy_in
from tasktick.store.tasks import _detail_row, _state_row, payload_row
from tests.postgres import installed, own_cluster

TASKS, QUICK_TASKS = 20_000, 2_000
ROUNDS = 5
SIZES = (1, 50, 500)
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
    """One JSON parameter a statement, as few rows go in."""
    for name, rows in zip(COPIES, _rows(fresh), strict=True):
        [statement] = dialect()[name]
        await raw.execute(statement.text, *bound(statement, {"rows": rows}))


async def by_arrays(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """An array for each column, in binary."""
    for (name, copy), rows in zip(COPIES.items(), _rows(fresh), strict=True):
        _, *arrays = zip(*(copy.record(row) for row in rows), strict=True)
        await raw.execute(ARRAYS[name], *arrays)


async def by_copy(raw: asyncpg.Connection, fresh: Sequence[NewTask]) -> None:
    """COPY, in binary, as many rows go in."""
    for copy, rows in zip(COPIES.values(), _rows(fresh), strict=True):
        await copy_in(raw, copy, rows)


def _rows(fresh: Sequence[NewTask]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    return (
        [_state_row(task.state) for task in fresh],
        [_detail_row(task.detail) for task in fresh],
        [payload_row(task.state.id, 1, task.payload) for task in fresh],
    )


def _unnested(copy: Copy) -> str:
    given = ", ".join(f"${at}::{TYPES.get(name, 'bigint')}[]" for at, name in enumerate(copy.columns, 1))
    names = ", ".join(copy.columns)
    return (
        f"INSERT INTO {copy.table} (partition_id, {names}) SELECT partition_of({copy.key}), {names} "
        f"FROM unnest({given}) AS given ({names})"
    )


ARRAYS = {name: _unnested(copy) for name, copy in COPIES.items()}
FORMS: dict[str, Put] = {"JSON": by_json, "arrays": by_arrays, "COPY": by_copy}
