"""Sends the same requests in one way of many, with so many in flight, and says what that took.

`session` and `wire` are TaskTick's senders. `own-bytes` stands between them: the guarded pool and its protocol, with
aiohttp's parser, but bytes of our own in place of the session; it bounds and forgives nothing, so it is a limit of
that way rather than a sender. `protocol` is the limit of any way in Python: a protocol that writes the same bytes and
lets httptools tell it that the answer has ended, with no pool, no clock, no bounds and no outcome.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import msgspec
import uvloop
from aiohttp import ClientRequest, ClientTimeout
from httptools import HttpResponseParser
from yarl import URL

from bench.tasks import body_of
from tasktick.clock import StoreClock, SystemClock
from tasktick.dispatch.bounded_handler import BoundedHandler, SessionConnector
from tasktick.dispatch.connector import SystemResolver
from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import Outcome, Request
from tasktick.dispatch.request_bytes import request_bytes, target_of
from tasktick.dispatch.sender import SenderLimits
from tasktick.dispatch.senders import SENDERS, AnySender
from tasktick.dispatch.tls import system_context

LOOPBACK = AddressPolicy.of(["127.0.0.0/8"])
DEADLINE_MS = 30_000
# As many as an attempt has, and as long.
HEADERS = [
    ("webhook-id", "tsk_01hzy3v5m2qk8r4n7w9x0c6d1f"),
    ("webhook-timestamp", "1770710401"),
    ("webhook-signature", "v1," + "q" * 44),
    ("TaskTick-Attempt", "1"),
    ("TaskTick-Max-Attempts", "5"),
    ("TaskTick-Scheduled-At", "2030-03-17T17:46:40.123Z"),
    ("TaskTick-Fence", "1"),
    ("Idempotency-Key", "tsk_01hzy3v5m2qk8r4n7w9x0c6d1f"),
    ("User-Agent", "TaskTick/0.1.0"),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
    ("Content-Type", "application/json"),
]
Work = Callable[[str, Iterator[bytes], int], Coroutine[Any, Any, None]]
clock = StoreClock(SystemClock())


def _request(url: str, body: bytes) -> Request:
    now_ms = clock.monotonic_ms()
    return Request("POST", url, HEADERS, body, now_ms + DEADLINE_MS, now_ms + DEADLINE_MS)


class _Begun:
    """Keeps so many calls in flight by beginning one as another ends."""

    def __init__(self, sender: AnySender, url: str, bodies: Iterator[bytes], in_flight: int) -> None:
        self._sender = sender
        self._url = url
        self._bodies = bodies
        self._open = in_flight
        self.ended = asyncio.Event()

    def done(self, outcome: Outcome) -> None:
        """One more, if there is one."""
        assert outcome.status == 200, outcome
        self.next()

    def next(self) -> None:
        """Begin."""
        body = next(self._bodies, None)
        if body is not None:
            self._sender.begin(_request(self._url, body), self.done)
            return
        self._open -= 1
        if not self._open:
            self.ended.set()


def _sending(kind: str) -> Work:
    async def work(url: str, bodies: Iterator[bytes], in_flight: int) -> None:
        sender = SENDERS[kind](LOOPBACK, clock.monotonic_ms, SenderLimits(connections_max=in_flight))
        await sender.start()
        begun = _Begun(sender, url, bodies, in_flight)
        for _ in range(in_flight):
            begun.next()
        await begun.ended.wait()
        await sender.close()

    return work


async def _own_bytes(url: str, bodies: Iterator[bytes], in_flight: int) -> None:
    connector = SessionConnector(
        LOOPBACK, SystemResolver(), lambda handler: None, limit=in_flight, ssl=system_context()
    )
    asked = ClientRequest("POST", URL(url), loop=asyncio.get_running_loop())
    timeout = ClientTimeout(total=None)
    target = target_of("POST", url)

    async def send() -> None:
        for body in bodies:
            connection = await connector.connect(asked, [], timeout)
            handler = cast(BoundedHandler, connection.protocol)
            handler.set_response_params(auto_decompress=False, read_until_eof=True)
            assert handler.transport is not None
            handler.transport.write(request_bytes(target, _request(url, body)))
            message, payload = await handler.read()
            await payload.read()
            assert message.code == 200
            connection.release()

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(send())
    await connector.close()


class _Bare(asyncio.Protocol):
    def __init__(self, url: str, bodies: Iterator[bytes]) -> None:
        self._url, self._target = url, target_of("POST", url)
        self._bodies = bodies
        self._parser = HttpResponseParser(self)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.next()

    def next(self) -> None:
        body = next(self._bodies, None)
        if body is None:
            self.ended.set_result(None)
            self._transport.close()
        else:
            self._transport.write(request_bytes(self._target, _request(self._url, body)))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        assert self._parser.get_status_code() == 200
        self.next()


async def _protocol(url: str, bodies: Iterator[bytes], in_flight: int) -> None:
    loop = asyncio.get_running_loop()
    port = int(url.split(":")[2].split("/")[0])
    made = [await loop.create_connection(lambda: _Bare(url, bodies), "127.0.0.1", port) for _ in range(in_flight)]
    for _, one in made:
        await one.ended


WAYS: dict[str, Work] = {
    "session": _sending("session"),
    "own-bytes": _own_bytes,
    "wire": _sending("wire"),
    "protocol": _protocol,
}


async def measure(work: Work, url: str, count: int, in_flight: int, profile: bool) -> dict[str, float]:
    """Send so many."""
    bodies = [body_of(number) for number in range(count)]
    await work(url, iter(bodies[: 2 * in_flight]), in_flight)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    began, spent = time.perf_counter(), time.process_time()
    await work(url, iter(bodies), in_flight)
    said = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent}
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    return said


def main() -> None:
    """Measure once and say it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--way", required=True, choices=list(WAYS))
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--connections", type=int, required=True)
    arguments.add_argument("--profile", action="store_true", help="say on standard error where the time went")
    given = arguments.parse_args()
    said = uvloop.run(measure(WAYS[given.way], given.url, given.count, given.connections, given.profile))
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")


if __name__ == "__main__":
    main()
