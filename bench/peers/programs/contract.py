"""What every Python program here has in common: how it is asked, what it posts, when it ends.

    python program.py prepare|fill|create|work '{"store": ..., ...}'

It is run by the Python of its peer, says what came of it as one line of JSON, and ends when its standard input
does, or after an hour.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import aiohttp
import uvloop

from bench.parents import until_parent_is_gone

LIFE_SECONDS = 3_600
CALLERS = 32
BATCH = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

options: dict[str, Any] = json.loads(sys.argv[2])


@dataclass(frozen=True)
class Job:
    """When, and what."""

    due: datetime
    data: dict[str, Any]


def say(value: dict[str, Any]) -> None:
    """Tell who asked."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def job(number: int) -> Job:
    """Number n of a load: due at first_ms, and one more each step_us."""
    due = EPOCH + timedelta(milliseconds=options["first_ms"] + number * options["step_us"] // 1_000)
    text = due.isoformat(timespec="milliseconds")
    return Job(due, {"url": options["url"], "due": text, "number": number, "body": options["body"]})


def headers_of(data: dict[str, Any]) -> dict[str, str]:
    """What a post says of itself."""
    return {
        "Content-Type": "application/json",
        "Webhook-Id": str(data["number"]),
        "Tasktick-Scheduled-At": data["due"],
    }


def poster(connections: int) -> Callable[[dict[str, Any]], Awaitable[None]]:
    """Posts over so many connections, by aiohttp, tuned as the limit of `make bench` is."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        auto_decompress=False,
    )

    async def post(data: dict[str, Any]) -> None:
        async with session.post(data["url"], data=data["body"].encode(), headers=headers_of(data)) as answer:
            await answer.read()
            if answer.status != 200:
                raise RuntimeError(f"answered with {answer.status}")

    return post


class Client(Protocol):
    """How jobs are made."""

    async def add(self, job: Job) -> None: ...

    async def add_many(self, jobs: Sequence[Job]) -> None: ...


class Peer(Protocol):
    """`prepare` makes its tables; `open` gives a client; `work` tells when its worker is ready, and serves."""

    mixed_batches: bool  # one call may make jobs that are due at different instants

    async def prepare(self) -> None: ...

    async def open(self, connections: int) -> Client: ...

    async def work(self, ready: Callable[[], None]) -> None: ...


def _jobs(first: int, count: int) -> list[Job]:
    return [job(number) for number in range(first, first + count)]


async def _prepare(peer: Peer) -> None:
    await peer.prepare()
    say({})


async def _fill(peer: Peer) -> None:
    client, count = await peer.open(CALLERS), options["count"]
    if peer.mixed_batches or options["step_us"] == 0:
        for at in range(0, count, BATCH):
            await client.add_many(_jobs(at, min(BATCH, count - at)))
    else:
        numbers = iter(range(count))

        async def caller() -> None:
            for number in numbers:
                await client.add(job(number))

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
    say({"created": count})


async def _create(peer: Peer) -> None:
    """So many callers, each with one call under way, for so long; calls under way at the end are waited for.

    Each calls once before that: connections are made and statements prepared by then.
    """
    client, per_call = await peer.open(options["callers"]), options["per_call"]
    created = numbers = 0

    async def call() -> None:
        nonlocal created, numbers
        first, numbers = numbers, numbers + per_call
        await (client.add(job(first)) if per_call == 1 else client.add_many(_jobs(first, per_call)))
        created += per_call

    async def caller(until: float) -> None:
        while time.perf_counter() < until:
            await call()

    await asyncio.gather(*(call() for _ in range(options["callers"])))
    before, began = created, time.perf_counter()
    await asyncio.gather(*(caller(began + options["seconds"]) for _ in range(options["callers"])))
    say({"created": created, "timed": created - before, "seconds": time.perf_counter() - began})


async def _work(peer: Peer) -> None:
    working = asyncio.create_task(peer.work(lambda: say({"ready": True})))
    orphaned = asyncio.create_task(until_parent_is_gone(LIFE_SECONDS))
    done, _ = await asyncio.wait({working, orphaned}, return_when=asyncio.FIRST_COMPLETED)
    if working in done:
        await working


def run(peer: Peer) -> None:
    """Do what was asked."""
    asked: dict[str, Callable[[], Any]] = {
        "prepare": lambda: _prepare(peer),
        "fill": lambda: _fill(peer),
        "create": lambda: _create(peer),
        "work": lambda: _work(peer),
    }
    uvloop.run(_bounded(asked[sys.argv[1]]()))


async def _bounded(work: Awaitable[None]) -> None:
    async with asyncio.timeout(LIFE_SECONDS):
        await work
