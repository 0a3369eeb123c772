"""Limit of `lateness`: a timer of uvloop for each instant, and a bare aiohttp post. No store, no queue, nothing kept.

Says how many it sent; how late they were is the receiver's to say.
"""

import argparse
import asyncio
import gc
import sys

import aiohttp
import msgspec
import uvloop

from bench.tasks import body_of, instant, now_ms


async def measure(url: str, per_second: int, seconds: int, ahead_ms: int) -> dict[str, int]:
    """Arm a timer for each instant, and wait until all are sent."""
    loop = asyncio.get_running_loop()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    running: set[asyncio.Task[None]] = set()
    count = per_second * seconds
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout, auto_decompress=False
    ) as session:

        async def send(number: int, due_ms: int) -> None:
            while (early_ms := due_ms - now_ms()) > 0:  # noqa: ASYNC110 # uvloop wakes up to half a ms early
                await asyncio.sleep(early_ms / 1_000)
            headers = {"Content-Type": "application/json", "TaskTick-Scheduled-At": instant(due_ms)}
            async with session.post(url, data=body_of(number), headers=headers) as answer:
                await answer.read()

        def begin(number: int, due_ms: int) -> None:
            running.add(loop.create_task(send(number, due_ms)))

        first_ms = now_ms() + ahead_ms
        for number in range(count):
            due_ms = first_ms + number * 1_000 // per_second
            loop.call_later((due_ms - now_ms()) / 1_000, begin, number, due_ms)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        await asyncio.sleep(ahead_ms / 1_000 + seconds + 1)
        await asyncio.wait(running, timeout=30)
    return {"sent": sum(1 for task in running if task.done())}


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    for name in ("--per-second", "--seconds", "--ahead-ms"):
        arguments.add_argument(name, type=int, required=True)
    given = arguments.parse_args()
    said = uvloop.run(measure(given.url, given.per_second, given.seconds, given.ahead_ms))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
