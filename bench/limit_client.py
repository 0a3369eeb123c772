"""Limit of `fire`: the bare aiohttp client, tuned, posts the same bodies to the same receiver and forgets them."""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Iterator

import aiohttp
import msgspec
import uvloop

from bench.tasks import body_of


async def _post(session: aiohttp.ClientSession, url: str, numbers: Iterator[int]) -> None:
    headers = {"Content-Type": "application/json"}
    for number in numbers:
        async with session.post(url, data=body_of(number), headers=headers) as answer:
            await answer.read()
            assert answer.status == 200


async def measure(url: str, count: int, connections: int) -> dict[str, float]:
    """Post so many over so many connections."""
    connector = aiohttp.TCPConnector(limit=connections)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout, auto_decompress=False
    ) as session:
        await asyncio.gather(*(_post(session, url, iter(range(1))) for _ in range(connections)))
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        numbers = iter(range(count))
        began, spent = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(_post(session, url, numbers))
        return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent}


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--connections", type=int, required=True)
    given = arguments.parse_args()
    said = uvloop.run(measure(given.url, given.count, given.connections))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
