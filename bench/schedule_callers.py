"""Callers that create schedules: so many, over so many connections, the same request again and again.

`every` with a spread as long as itself: each gets an id of its own, and its fires with that their place in the spread.
"""

import argparse
import asyncio
import sys
import time

import msgspec
import uvloop

from bench.callers import Caller, Told
from bench.figures import percentile
from bench.tasks import body_of, instant

SECONDS_MAX = 600


def request_of(key: str, url: str, every_ms: int, start_ms: int) -> bytes:
    """The request of one schedule."""
    schedule = {
        "name": "bench",
        "every": every_ms / 1_000,
        "jitter": every_ms / 1_000,
        "start_at": instant(start_ms),
        "task": {"target": {"url": url, "body": msgspec.Raw(body_of(0))}},
    }
    body = msgspec.json.encode(schedule)
    head = (
        f"POST /v1/schedules HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def call(port: int, connections: int, count: int, request: bytes) -> dict[str, object]:
    """Ask so often."""
    loop = asyncio.get_running_loop()
    told = Told(count)
    began = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Caller(request, told), "127.0.0.1", port)
        for _ in range(min(connections, count))
    ]
    await asyncio.wait([caller.ended for _, caller in made], timeout=SECONDS_MAX)
    return {
        "answers": told.answers,
        "seconds": time.perf_counter() - began,
        "p99_ms": percentile(told.seconds, 0.99) * 1_000,
        "refused": told.refused[:3],
    }


def main() -> None:
    """Create once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--key", required=True)
    arguments.add_argument("--url", required=True)
    for name in ("--port", "--connections", "--count", "--every-ms", "--start-ms"):
        arguments.add_argument(name, type=int, required=True)
    given = arguments.parse_args()
    request = request_of(given.key, given.url, given.every_ms, given.start_ms)
    said = uvloop.run(call(given.port, given.connections, given.count, request))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
