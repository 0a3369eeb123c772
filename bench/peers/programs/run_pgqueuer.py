"""pgqueuer with batches of 100, on uvloop, posting by aiohttp; it looks for work every 100 ms."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from contract import Job, json, options, poster, run
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job as QueuedJob
from pgqueuer.queries import Queries

ENTRYPOINT = "post"
BATCH = 100
LOOK = timedelta(milliseconds=100)
CONNECTIONS = 8


def payload(job: Job) -> bytes:
    """As it is stored."""
    return json.dumps(job.data).encode()


def ahead(job: Job, now: datetime) -> timedelta:
    """pgqueuer takes a delay, which the database counts from the statement."""
    return max(job.due - now, timedelta(0))


class Client:
    """Its own client, on a pool."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def add(self, job: Job) -> None:
        await self._queries.enqueue(ENTRYPOINT, payload(job), execute_after=ahead(job, datetime.now(UTC)))

    async def add_many(self, jobs: Sequence[Job]) -> None:
        count, now = len(jobs), datetime.now(UTC)
        payloads: list[Any] = [payload(job) for job in jobs]
        await self._queries.enqueue([ENTRYPOINT] * count, payloads, [0] * count, [ahead(job, now) for job in jobs])


class Peer:
    """What the contract asks."""

    mixed_batches = True

    async def prepare(self) -> None:
        async with asyncpg.create_pool(options["store"], min_size=1, max_size=1) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    async def open(self, connections: int) -> Client:
        pool = await asyncpg.create_pool(options["store"], min_size=connections, max_size=connections)
        return Client(Queries(AsyncpgPoolDriver(pool)))

    async def work(self, ready: Callable[[], None]) -> None:
        pool = await asyncpg.create_pool(options["store"], min_size=2, max_size=CONNECTIONS)
        queuer, post = PgQueuer.from_asyncpg_pool(pool), poster(BATCH)

        @queuer.entrypoint(ENTRYPOINT)
        async def send(job: QueuedJob) -> None:
            await post(json.loads(job.payload or b"{}"))

        ready()
        await queuer.run(dequeue_timeout=LOOK, batch_size=BATCH)


run(Peer())
