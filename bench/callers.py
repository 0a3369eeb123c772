"""Callers: so many connections, each with one request under way at any time. A process of its own.

Requests are bytes that were made before; of an answer only the status and the length are read, so that what is
measured is the other side.
"""

import argparse
import asyncio
import sys
import time
from typing import cast

import msgspec
import uvloop

from bench.figures import percentile
from bench.tasks import NEXT_YEAR_MS, now_ms, task

HEAD_END = b"\r\n\r\n"
TARGET_URL = "http://127.0.0.1:9/never"


class Told:
    """What came of it; who asks stops after so many."""

    def __init__(self, asks_max: float = float("inf")) -> None:
        self.asks_max = asks_max
        self.answers = 0
        self.asked = 0
        self.seconds: list[float] = []
        self.refused: list[str] = []
        self.stopped = False


class Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, request: bytes, told: Told) -> None:
        self._request = request
        self._told = told
        self._waiting = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, by behaviour
        self._ask()

    def _ask(self) -> None:
        self._told.asked += 1
        self._told.stopped = self._told.stopped or self._told.asked >= self._told.asks_max
        self._asked_at = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        end = self._waiting.find(HEAD_END)
        if end < 0:
            return
        head = self._waiting[: end + 2].lower()
        start = head.find(b"content-length:")
        length = int(head[start + 15 : head.index(b"\r\n", start)]) if start >= 0 else 0
        if len(self._waiting) < end + len(HEAD_END) + length:
            return
        if not self._waiting.startswith(b"HTTP/1.1 20") or b'"error":{' in self._waiting:
            self._told.refused.append(self._waiting[:300].decode(errors="replace"))
        self._waiting = b""
        self._told.answers += 1
        self._told.seconds.append(time.perf_counter() - self._asked_at)
        if self._told.stopped:
            self._transport.close()
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def request_of(path: str, key: str, tasks: int) -> bytes:
    """One task, or a batch of so many."""
    at_ms = now_ms() + NEXT_YEAR_MS
    made = [task(TARGET_URL, at_ms + number, number) for number in range(tasks)]
    body = msgspec.json.encode(made[0] if path == "/v1/tasks" else {"tasks": made})
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def call(port: int, connections: int, seconds: float, request: bytes) -> dict[str, object]:
    """Ask for so long; answers to requests that were under way at the end are waited for."""
    loop = asyncio.get_running_loop()
    told = Told()
    began = time.perf_counter()
    made = [await loop.create_connection(lambda: Caller(request, told), "127.0.0.1", port) for _ in range(connections)]
    await asyncio.sleep(seconds)
    told.stopped = True
    await asyncio.wait([caller.ended for _, caller in made], timeout=30)
    took = time.perf_counter() - began
    return {
        "answers": told.answers,
        "seconds": took,
        "p50_ms": percentile(told.seconds, 0.5) * 1_000,
        "p99_ms": percentile(told.seconds, 0.99) * 1_000,
        "refused": told.refused[:3],
    }


def main() -> None:
    """Call once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--path", required=True)
    arguments.add_argument("--key", required=True)
    arguments.add_argument("--seconds", type=float, required=True)
    for name in ("--port", "--connections", "--tasks"):
        arguments.add_argument(name, type=int, required=True)
    given = arguments.parse_args()
    request = request_of(given.path, given.key, given.tasks)
    said = uvloop.run(call(given.port, given.connections, given.seconds, request))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
