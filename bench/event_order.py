"""What it costs that events are numbered in the order of commits: 8 connections that create tasks, batch by batch.

The same transactions twice. As they are: each takes the next number from one row with its commit, and holds that row
until the commit is on disk. And with a number from a sequence, for which nobody waits and which is in no order.
On this machine's disk, and as if a commit took two milliseconds more, as on a network's disk or with a synchronous
standby.
"""

import asyncio
import time
from pathlib import Path
from random import Random

import asyncpg
import uvloop

from bench.figures import Figure, at_least, per_second, ratio
from bench.limit_store import new_task
from tasktick.model.ids import IdMaker
from tasktick.store.postgres import CLOCK, dialect, write_with
from tasktick.store.postgres_migrate import migrate
from tasktick.store.queries import Positional
from tasktick.store.tasks import Create, create_many
from tests.postgres import installed, own_cluster

ROUNDS, CONNECTIONS, SECONDS = 3, 8, 4.0
SIZES = (1, 20)
SEQUENCE = "CREATE SEQUENCE IF NOT EXISTS bench_events"
UNORDERED = (
    "INSERT INTO events (sequence, at, upto, items) SELECT nextval('bench_events'), $1::bigint, $2::bigint, $3::text"
)
NAMES = ("at", "events", "items")
PLACES = {"this disk": (), "2 ms a commit": ("commit_delay=2000", "commit_siblings=0")}
SERVER = ("max_connections=100", "shared_buffers=128MB")


async def _write(raw: asyncpg.Connection, number: int, size: int, until: float) -> int:
    """Create tasks until then; how many transactions that took."""
    random = Random(f"{number} {size} {until}")
    ids, done = IdMaker(random), 0
    while time.perf_counter() < until:
        creates = [Create(new_task(ids, random, one)) for one in range(size)]
        await write_with(raw, lambda tx, creates=creates: create_many(tx, creates), f"bench-{number}", done)  # type: ignore[misc] # bound
        done += 1
    return done


async def _round(url: str, size: int, seconds: float) -> float:
    """Transactions a second, of all connections."""
    links = [await asyncpg.connect(url) for _ in range(CONNECTIONS)]
    try:
        began = time.perf_counter()
        counts = await asyncio.gather(*(_write(raw, number, size, began + seconds) for number, raw in enumerate(links)))
        return per_second(sum(counts), time.perf_counter() - began)
    finally:
        for raw in links:
            await raw.close()


async def _all(url: str, where: str, *, quick: bool) -> list[Figure]:
    raw = await asyncpg.connect(url)
    await migrate(raw)
    await raw.execute(SEQUENCE)
    statements = dialect(CLOCK)
    ordered = statements["events_add"]
    unordered = (Positional(UNORDERED, NAMES),)
    figures = []
    for size in SIZES:
        rates: dict[str, list[float]] = {"in the order of commits": [], "in no order": []}
        for _ in range(1 if quick else ROUNDS):
            for found, kind in zip(rates.values(), (ordered, unordered), strict=True):
                await raw.execute("TRUNCATE events, tasks, task_details, payloads")
                statements["events_add"] = kind
                try:
                    found.append(await _round(url, size, 1.0 if quick else SECONDS))
                finally:
                    statements["events_add"] = ordered
        of = f"{where}, transactions of {size}"
        ours, free = (Figure(f"{of}, {name}", "/s", tuple(found)) for name, found in rates.items())
        figures += [ours, free, ratio(f"{of}: ordered / not", ours, free, at_least(0.8))]
    await raw.close()
    return figures


def measure(_: Path, quick: bool) -> list[Figure]:
    """On a server that syncs each commit to its disk."""
    figures = []
    for where, settings in PLACES.items():
        with own_cluster(max(installed()), (*SERVER, *settings)) as cluster:
            figures += uvloop.run(_all(cluster.url("postgres"), where, quick=quick))
    return figures
