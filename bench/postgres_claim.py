"""The claim beside ten million finished tasks, and while a snapshot is held open for ten minutes.

An empty store stands beside it in the same server, and each round asks both. A claim is what the dispatcher writes:
so many due tasks, found by the loader's near read, marked as running and committed. The open snapshot is that of a
long report: no row that has changed since may be cleared away, so what was claimed, ended and moved stays in the way.
"""

import asyncio
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

from bench.figures import Figure, at_least, per_second, ratio
from bench.postgres_stock import BATCH, SETTINGS, Stock, stock
from bench.tasks import NEXT_YEAR_MS, now_ms
from tasktick.store import due, listing, postgres_history, tasks
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Operation, Transaction
from tests.postgres import installed, own_cluster

ROWS, QUICK_ROWS = 10_000_000, 100_000
DAYS = 30
TASKS = 4_000
WAITING = 20_000
ROUNDS = 5
SNAPSHOT_S, QUICK_SNAPSHOT_S = 600.0, 10.0
LOOK_BACK_MS = 30_000
READS = 200


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, on the newest server."""
    del folder
    with own_cluster(max(installed()), SETTINGS) as server:
        return asyncio.run(_measure(asyncio.run(server.new_database()), asyncio.run(server.new_database()), quick))


async def _measure(empty_url: str, full_url: str, quick: bool) -> list[Figure]:
    rows, rounds = (QUICK_ROWS, 2) if quick else (ROWS, ROUNDS)
    async with stock(empty_url) as empty, stock(full_url) as full:
        began = time.perf_counter()
        await full.fill_history(rows, DAYS)
        filled = time.perf_counter() - began
        for one in (empty, full):
            # Some are to come, as in every store: of a table that is empty the planner believes that it stays so.
            await one.create(WAITING, NEXT_YEAR_MS)
            await one.raw.execute("ANALYZE")
            await _cycle(one, TASKS)  # plans are made, pages are there
        bare, beside = [], []
        for _ in range(rounds):
            bare.append(await _cycle(empty, TASKS))
            beside.append(await _cycle(full, TASKS))
        figures = _compared("beside", f"beside {rows:,} finished", bare, beside)
        figures += await _reads(full)
        figures += await _under_snapshot(empty, full, full_url, rounds, QUICK_SNAPSHOT_S if quick else SNAPSHOT_S)
        return [*figures, Figure("history made", "s", (filled,))]


async def _cycle(one: Stock, count: int) -> tuple[float, float]:
    """Make, find, claim, end and move so many; seconds in the claims, seconds in the reads of what is due."""
    await one.create(count)
    claiming = reading = 0.0
    left = count
    while left:
        now = now_ms()
        began = time.perf_counter()
        rows = await one.near(lambda tx, now=now: due.between(tx, due.Stretch(now - LOOK_BACK_MS, now + 2_000), BATCH))  # type: ignore[misc] # bound
        reading += time.perf_counter() - began
        began = time.perf_counter()
        claimed = await one.claim([row.id for row in rows])
        claiming += time.perf_counter() - began
        if len(claimed) != len(rows) or not rows:
            raise RuntimeError(f"{len(rows)} were due, {len(claimed)} could be claimed")
        left -= len(claimed)
        await one.succeed(claimed)
    await _move(one)
    return claiming, reading


async def _move(one: Stock) -> None:
    """Into history with what has finished, as upkeep does it."""
    place = postgres_history.Place()
    await one.raw.execute("SELECT make_history_day($1)", postgres_history.day_of(now_ms()))
    while True:
        found = await one.write(lambda tx, place=place: postgres_history.move(tx, now_ms(), place))  # type: ignore[misc] # bound
        if found is None or found.last is None:
            return
        place = found.last


def _compared(
    name: str, title: str, bare: list[tuple[float, float]], beside: list[tuple[float, float]]
) -> list[Figure]:
    """The rates of both, and their ratio."""
    ours = Figure(f"claimed in batches of {BATCH}, {title}", "/s", tuple(per_second(TASKS, one) for one, _ in beside))
    theirs = Figure(f"the same on an empty store ({name})", "/s", tuple(per_second(TASKS, one) for one, _ in bare))
    batches = TASKS / BATCH
    read = Figure(f"near read of {BATCH} due, {title}", "ms", tuple(two / batches * 1e3 for _, two in beside))
    read_bare = Figure(f"the same on an empty store ({name})", "ms", tuple(two / batches * 1e3 for _, two in bare))
    return [ours, theirs, ratio(f"claim {title} to an empty store", ours, theirs, at_least(0.8)), read, read_bare]


async def _reads(full: Stock) -> list[Figure]:
    """What clients read of history: one by its id, a page, a page of what is to come."""
    ids = [
        row["id"].hex
        for row in await full.raw.fetch("SELECT id FROM finished_tasks TABLESAMPLE SYSTEM (0.1) LIMIT $1", READS)
    ]
    by_id = [await _timed(full, partial(tasks.views, tenant="default", ids=[one])) for one in ids]
    page = [await _timed(full, _page) for _ in range(20)]
    waiting = [await _timed(full, lambda tx: _page(tx, [2, 3, 5])) for _ in range(20)]
    return [
        Figure("a finished task by its id, median", "ms", (median(by_id),)),
        Figure("first page of all tasks, median", "ms", (median(page),)),
        Figure("first page of waiting tasks, median", "ms", (median(waiting),)),
    ]


async def _page(tx: Transaction, states: list[int] | None = None) -> list[str]:
    return await listing.ids_page(tx, "default", TaskFilter(states, now_ms()), beyond=None, limit=100)


async def _timed(one: Stock, operation: Operation[Any]) -> float:
    began = time.perf_counter()
    await one.near(operation)
    return (time.perf_counter() - began) * 1e3


async def _under_snapshot(empty: Stock, full: Stock, url: str, rounds: int, seconds: float) -> list[Figure]:
    """Hold a snapshot, work on for so long, and claim again."""
    reader = await asyncpg.connect(url)
    try:
        async with reader.transaction(isolation="repeatable_read", readonly=True):
            await reader.fetchval("SELECT count(*) FROM tasks")
            began, worked = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                await _cycle(full, TASKS)
                worked += TASKS
            bare, under = [], []
            for _ in range(rounds):
                bare.append(await _cycle(empty, TASKS))
                under.append(await _cycle(full, TASKS))
            full_read = await _full_read(full)
    finally:
        await reader.close()
    title = f"under a snapshot open for {seconds:,.0f} s"
    after = await full.raw.fetchval("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'tasks'")
    return [
        *_compared("snapshot", title, bare, under),
        Figure("tasks that went through meanwhile", "", (worked,)),
        Figure("dead rows of the hot table by then", "", (after,)),
        Figure("full read of what is due, once a minute", "ms", (full_read,)),
    ]


async def _full_read(full: Stock) -> float:
    """The read without a lower bound, which walks past all that cannot be cleared away."""
    return await _timed(full, lambda tx: due.between(tx, due.Stretch(0, now_ms()), BATCH))
