"""How a hot batch travels best to a PostgreSQL: one JSON parameter, or an array for each column.

The statement of an end, as it is, beside the same with `unnest`; creates are asked about by
`postgres-import`. Encoding what is sent is part of it. Each batch is undone by a statement that is not measured.
"""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import asyncpg
import uvloop

from bench.figures import Figure, ratio
from bench.limit_store import new_task
from bench.tasks import now_ms
from tasktick.clock import StoreClock, SystemClock
from tasktick.model.ids import IdMaker
from tasktick.model.state import State
from tasktick.service import Services
from tasktick.store import leases
from tasktick.store.leases import Start
from tasktick.store.postgres import bound, dialect
from tasktick.store.postgres_database import open_postgres
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.queries import Positional, positional
from tasktick.store.tasks import CREATE, Create
from tests.postgres import installed, own_cluster

ROUNDS, REPEATS = 3, 40
SIZES = (20, 500)
WHO = "bench"
END_COLUMNS = {
    "id": "uuid[]", "fence": "bigint[]", "claim_id": "bigint[]", "state": "smallint[]", "now": "bigint[]",
    "attempt": "integer[]", "due_at": "bigint[]", "new_fence": "bigint[]", "interruptions": "integer[]",
    "uncounted": "integer[]", "started_at": "bigint[]", "sla_met": "boolean[]", "completed_at": "bigint[]",
    "reason": "text[]",
}  # fmt: skip
END = "task_end"
UNDO_END = "UPDATE tasks SET state = 4"


def _unnested(types: dict[str, str]) -> str:
    arrays = ", ".join(f":{name}::{kind}" for name, kind in types.items())
    return f"unnest({arrays}) AS given ({', '.join(types)})"


def with_arrays() -> Positional:
    """The statement with arrays in place of its JSON parameter; said once again by hand where it is read."""
    one = _text()
    changed = re.sub(
        r"SELECT\s+\(row->>0\).*?AS rows \(row\)", f"SELECT * FROM {_unnested(END_COLUMNS)}", one, flags=re.S
    )
    assert changed != one
    return positional(changed)


def _text() -> str:
    """The statement with its parameters by name again."""
    [statement] = dialect(":now")[END]
    return re.sub(r"\$(\d+)", lambda found: f":{statement.names[int(found[1]) - 1]}", statement.text)


class Bench:
    """A connection, and batches of tasks on it."""

    def __init__(self, raw: Any, tasks: list[Any]) -> None:
        self._raw = raw
        self._ids = [one.state.id for one in tasks]
        [self._by_json] = dialect(":now")[END]
        self._by_array = with_arrays()

    async def _timed(self, values: Callable[[], dict[str, Any]], statement: Positional, *, arrays: bool) -> float:
        began = time.perf_counter()
        given = values()
        said = [given[name] for name in statement.names] if arrays else bound(statement, given)
        await self._raw.fetchval(statement.text, *said)
        took = time.perf_counter() - began
        done = await self._raw.fetchval("SELECT count(*) FROM tasks WHERE state = $1", State.SUCCEEDED)
        if done != len(self._ids):
            raise RuntimeError(f"a batch of {len(self._ids)} came to {done}")
        return took

    async def end(self, *, arrays: bool) -> float:
        await self._raw.execute(UNDO_END)
        fences = {row[0].hex: row[1] for row in await self._raw.fetch("SELECT id, fence FROM tasks")}
        now = now_ms()
        rows = [[one, fences[one], 1, 10, now, 1, None, None, 0, 0, now, True, now, None] for one in self._ids]

        def by_array() -> dict[str, Any]:
            columns = dict(zip(END_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
            return columns | {"id": [UUID(row[0]) for row in rows]}

        if arrays:
            return await self._timed(by_array, self._by_array, arrays=True)
        return await self._timed(lambda: {"rows": rows}, self._by_json, arrays=False)


async def _measure(url: str, folder: Path, repeats: int) -> dict[tuple[int, bool], float]:
    """Microseconds a row: by size, and whether by arrays; the median of the batches."""
    clock = StoreClock(SystemClock())
    spawn = Services(clock).spawn
    database = await open_postgres(
        PostgresAddress(url, WHO), folder, spawn=spawn, clock=clock, random=Random(1), ttl_ms=10_000
    )
    raw = await asyncpg.connect(url)
    found: dict[tuple[int, bool], float] = {}
    try:
        await database.write(lambda tx: leases.start_node(tx, Start(WHO, WHO), now_ms()))
        await database.write(lambda tx: leases.acquire(tx, WHO, now_ms()))
        random = Random(7)
        ids = IdMaker(random)
        for size in SIZES:
            await raw.execute("DELETE FROM tasks; DELETE FROM task_details")
            tasks = [new_task(ids, random, number) for number in range(size)]
            await database.write_batch(CREATE, [Create(one) for one in tasks])
            bench = Bench(raw, tasks)
            took: dict[bool, list[float]] = {True: [], False: []}
            for number in range(2 * repeats):
                arrays = number % 2 == 0
                took[arrays].append(await bench.end(arrays=arrays))
                if number % 10 == 9:
                    await raw.execute("VACUUM tasks")
            for arrays, times in took.items():
                found[size, arrays] = sorted(times)[len(times) // 2] / size * 1e6
    finally:
        await raw.close()
        await database.close()
    return found


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on the newest version."""
    rounds, repeats = (1, REPEATS // 4) if quick else (ROUNDS, REPEATS)
    found = []
    with own_cluster(max(installed())) as server:
        for number in range(rounds):
            url = asyncio.run(server.new_database())
            found.append(uvloop.run(_measure(url, folder / str(number), repeats)))
    figures: list[Figure] = []
    for size in SIZES:
        json, arrays = (
            Figure(f"end of {size}, a row, {how}", "µs", tuple(one[size, by] for one in found))
            for how, by in (("one JSON parameter", False), ("arrays", True))
        )
        figures += [json, arrays, ratio(f"end of {size}, arrays to JSON", arrays, json)]
    return figures
