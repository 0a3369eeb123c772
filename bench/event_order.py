"""What it costs that events are told in the order of commits: 8 connections that create tasks, batch by batch.

The same transactions three times. As they are: each writes to the inbox, and beside them one numbers what is committed
and reads it, as a node does to which somebody listens. With a number from a sequence, for which nobody waits and which
is in no order: the limit. And numbered with the commit, from one row that is held until it is on disk: what else there
would be. On this machine's disk, and as if a commit took two milliseconds more, as on a network's disk or with a
synchronous standby.
"""

import asyncio
import time
from functools import partial
from pathlib import Path
from random import Random

import asyncpg
import uvloop

from bench.figures import Figure, at_least, per_second, ratio
from bench.limit_store import new_task
from tasktick.api.event_feed import PACE_MS
from tasktick.model.ids import IdMaker
from tasktick.store import events
from tasktick.store.postgres import BEGIN_READ, BEGIN_WRITE, CLOCK, dialect, read_with, write_unmarked, write_with
from tasktick.store.postgres_migrate import migrate
from tasktick.store.queries import Positional
from tasktick.store.tasks import Create, create_many
from tests.postgres import installed, own_cluster

ROUNDS, CONNECTIONS, SECONDS = 3, 8, 4.0
SIZES = (1, 20)
SEQUENCE = "CREATE SEQUENCE IF NOT EXISTS bench_events"
NAMES = ("at", "events", "items")
OURS, FREE, HELD = "as it is, and read", "in no order", "numbered with the commit"
STATEMENTS = {
    FREE: """
        INSERT INTO events (sequence, at, upto, items)
        SELECT nextval('bench_events'), $1::bigint, $2::bigint, $3::text
    """,
    HELD: """
        WITH head AS (
            UPDATE event_head SET sequence = sequence + 1, upto = upto + $2::bigint RETURNING sequence, upto
        )
        INSERT INTO events (sequence, at, upto, items) SELECT sequence, $1::bigint, upto, $3::text FROM head
    """,
}
EMPTY = "TRUNCATE events, event_inbox, tasks, task_details; UPDATE event_head SET sequence = 0, upto = 0"
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


async def _listen(url: str) -> None:
    """Number and read what is committed, as often as a feed does, until it is ended."""
    raw, at = await asyncpg.connect(url), 1
    try:
        while True:
            while (await write_unmarked(raw, lambda tx: events.number(tx, fresh=True), BEGIN_WRITE)).more:
                pass
            while rows := await read_with(raw, partial(events.page, sequence=at), BEGIN_READ):
                at = rows[-1].sequence + 1
            await asyncio.sleep(PACE_MS / 1_000)
    finally:
        raw.terminate()


async def _heard(url: str, size: int, seconds: float) -> float:
    listening = asyncio.create_task(_listen(url))
    try:
        return await _round(url, size, seconds)
    finally:
        listening.cancel()
        await asyncio.wait([listening])


async def _all(url: str, where: str, *, quick: bool) -> list[Figure]:
    raw = await asyncpg.connect(url)
    await migrate(raw)
    await raw.execute(SEQUENCE)
    statements = dialect(CLOCK)
    kinds = {OURS: statements["events_add"]} | {name: (Positional(text, NAMES),) for name, text in STATEMENTS.items()}
    figures = []
    for size in SIZES:
        rates: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(1 if quick else ROUNDS):
            for name, kind in kinds.items():
                await raw.execute(EMPTY)
                statements["events_add"] = kind
                try:
                    one_round = _heard if name == OURS else _round
                    rates[name].append(await one_round(url, size, 1.0 if quick else SECONDS))
                finally:
                    statements["events_add"] = kinds[OURS]
        of = f"{where}, transactions of {size}"
        ours, free, held = (Figure(f"{of}, {name}", "/s", tuple(found)) for name, found in rates.items())
        figures += [ours, free, held, ratio(f"{of}: ordered / not", ours, free, at_least(0.8))]
        figures += [ratio(f"{of}: numbered with the commit / not ordered", held, free)]
    await raw.close()
    return figures


def measure(_: Path, quick: bool) -> list[Figure]:
    """On a server that syncs each commit to its disk."""
    figures = []
    for where, settings in PLACES.items():
        with own_cluster(max(installed()), (*SERVER, *settings)) as cluster:
            figures += uvloop.run(_all(cluster.url("postgres"), where, quick=quick))
    return figures
