"""What the guard of a claim costs, and whom it makes wait: 16 writers, renewals, requests, and an open snapshot.

The same statement three times: without the lock on the lease rows (which would let another take a partition under a
claim that is on its way), with it FOR KEY SHARE as it is, and FOR SHARE, for which every change of such a row waits.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import asyncpg
import msgspec
import uvloop

from bench.figures import Figure, at_least, at_most, per_second, percentile, ratio
from bench.limit_store import new_task
from bench.tasks import NEXT_YEAR_MS, now_ms
from tasktick.clock import StoreClock, SystemClock
from tasktick.model.ids import PARTITIONS, IdMaker
from tasktick.service import Services
from tasktick.store import leases
from tasktick.store.leases import Start
from tasktick.store.postgres import BEGIN_WRITE, begin_term, bound, dialect
from tasktick.store.postgres_database import PostgresDatabase, open_postgres
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.tasks import CREATE, Create
from tests.postgres import installed, own_cluster

ROUNDS = 3
WRITERS, BATCH, TASKS = 16, 25, 16_000
TTL_MS = 1_500
PAUSE_SECONDS = 0.02
GUARDS = {"no guard": "", "FOR KEY SHARE": "FOR KEY SHARE", "FOR SHARE": "FOR SHARE"}
INCARNATION = "bench"
KIND = re.compile(r"FOR KEY SHARE")


async def _filled(database: PostgresDatabase, count: int) -> list[str]:
    """Tasks that wait, of all partitions."""
    random = Random(7)
    ids = IdMaker(random)
    made = [new_task(ids, random, number) for number in range(count)]
    await database.write_batch(CREATE, [Create(one) for one in made])
    return [one.state.id for one in made]


def _claim(guard: str) -> tuple[str, tuple[str, ...]]:
    """The statement under this guard; it counts the time of the caller."""
    [statement] = dialect(":now")["task_claim"]
    assert KIND.search(statement.text)
    return KIND.sub(guard, statement.text), statement.names


class Asked:
    """What came of the round."""

    def __init__(self) -> None:
        self.waits: dict[str, list[float]] = {"renewal": [], "request": []}
        self.aborted = 0
        self.claimed = 0


async def _write(url: str, text: str, names: Sequence[str], batches: list[list[str]], asked: Asked) -> None:
    raw = await asyncpg.connect(url)
    try:
        while batches:
            ids = batches.pop()
            values = {
                "rows__0": ids,
                "epochs": f"{{{','.join(['1'] * PARTITIONS)}}}",
                "was_due": None,
                "incarnation": INCARNATION,
                "node": INCARNATION,
                "claim_id": len(batches) + 1,
                "beat": 0,
                "now": now_ms() + 2 * NEXT_YEAR_MS,
                "early_ms": 15,
                "start_delay_ms": 2_000,
                "margin_ms": 2_000,
                "chars_max": 0,
            }
            try:
                await raw.execute(BEGIN_WRITE)
                said = await raw.fetchval(text, *(values[name] for name in names))
                await raw.execute("COMMIT")
                asked.claimed += len(msgspec.json.decode(said, type=list[msgspec.Raw]))
            except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                await raw.execute("ROLLBACK")
                asked.aborted += 1
                batches.append(ids)
    finally:
        await raw.close()


async def _renew(url: str, asked: Asked, stop: asyncio.Event) -> None:
    """Renew the node's term, and ask for some partitions, again and again."""
    raw = await asyncpg.connect(url)
    [renewal] = dialect(":now")["node_renew"]
    [request] = dialect(":now")["leases_request"]
    beat, at = 0, 0
    try:
        while not stop.is_set():
            partitions = [(at + n) % PARTITIONS for n in range(8)]
            at += 8
            given = {"incarnation": INCARNATION, "beat": beat, "ttl_ms": TTL_MS, "now": now_ms()}
            given |= {"clock_offset_ms": None, "history_regressed": 0}
            for name, statement, values in (
                ("renewal", renewal, given),
                ("request", request, {**given, "partitions": partitions}),
            ):
                began = time.perf_counter()
                await raw.execute(begin_term(5_000))
                try:
                    await raw.execute(statement.text, *bound(statement, values))
                    await raw.execute("COMMIT")
                except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                    await raw.execute("ROLLBACK")
                    asked.aborted += 1
                asked.waits[name].append((time.perf_counter() - began) * 1_000)
            beat += 1
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        await raw.close()


async def _round(url: str, folder: Path, guard: str, count: int) -> tuple[float, Asked]:
    """Claims a second, and what others waited for."""
    clock = StoreClock(SystemClock())
    services = Services(clock)
    address = PostgresAddress(url, "bench")
    database = await open_postgres(address, folder, spawn=services.spawn, clock=clock, random=Random(1), ttl_ms=TTL_MS)
    snapshot = await asyncpg.connect(url)
    try:
        await database.write(lambda tx: leases.start_node(tx, Start(INCARNATION, INCARNATION), now_ms()))
        await database.write(lambda tx: leases.acquire(tx, INCARNATION, now_ms()))
        ids = await _filled(database, count)
        await snapshot.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM leases")
        text, names = _claim(guard)
        Random(3).shuffle(ids)
        batches = [sorted(ids[at : at + BATCH]) for at in range(0, count, BATCH)]
        asked, stop = Asked(), asyncio.Event()
        renewing = asyncio.create_task(_renew(url, asked, stop))
        began = time.perf_counter()
        await asyncio.gather(*(_write(url, text, names, batches, asked) for _ in range(WRITERS)))
        took = time.perf_counter() - began
        stop.set()
        await renewing
        if asked.claimed != count:
            raise RuntimeError(f"of {count} tasks {asked.claimed} were claimed")
        return per_second(count, took), asked
    finally:
        await snapshot.close()
        await database.close()


def measure(folder: Path, quick: bool = False) -> list[Figure]:
    """The question, the three in turn."""
    count, rounds = (TASKS // 4, 1) if quick else (TASKS, ROUNDS)
    rates: dict[str, list[float]] = {name: [] for name in GUARDS}
    told: dict[str, list[Asked]] = {name: [] for name in GUARDS}
    with own_cluster(max(installed())) as server:
        for number in range(rounds):
            for name, guard in GUARDS.items():
                url = asyncio.run(server.new_database())
                inside = folder / f"{guard.replace(' ', '-')}-{number}"
                rate, asked = uvloop.run(_round(url, inside, guard, count))
                rates[name].append(rate)
                told[name].append(asked)
    figures = {name: Figure(f"claims, {name}", "/s", tuple(rates[name])) for name in GUARDS}
    bare, ours, share = figures.values()
    found = [bare, ours, share, ratio("FOR KEY SHARE to no guard", ours, bare, at_least(0.9))]
    found += [ratio("FOR SHARE to no guard", share, bare)]
    for kind in ("renewal", "request"):
        for name, rounds_of in told.items():
            waits = tuple(percentile(one.waits[kind], 0.99) for one in rounds_of)
            target = at_most(TTL_MS / 3) if name == "FOR KEY SHARE" else None
            found.append(Figure(f"{kind} beside it, p99, {name}", "ms", waits, target))
    found += [
        Figure(f"transactions undone, {name}", "", tuple(float(one.aborted) for one in rounds_of))
        for name, rounds_of in told.items()
    ]
    return found
