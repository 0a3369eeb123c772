"""Slow receivers: so many ports, each an address of its own, that take so long for each answer. A process of its own.

`GET /crowd` on the first port says how many requests wait now, and the least and the most since it was last asked.
"""

import argparse
import asyncio
import http.client
import resource
import sys
from typing import Any, cast

import msgspec
import uvloop

from bench.parents import until_parent_is_gone
from bench.receiver import HEAD_END, LIFE_SECONDS_MAX, OK, value_of


class Crowd:
    """Who waits, at all ports together."""

    def __init__(self, delay_seconds: float) -> None:
        self.delay_seconds = delay_seconds
        self.waiting = self.least = self.most = 0
        self.answered = 0

    def enter(self) -> None:
        """One more."""
        self.waiting += 1
        self.most = max(self.most, self.waiting)

    def leave(self) -> None:
        """It has its answer, or has gone away."""
        self.waiting -= 1
        self.least = min(self.least, self.waiting)

    def told(self) -> bytes:
        """What there was since the last time."""
        said = {"waiting": self.waiting, "least": self.least, "most": self.most, "answered": self.answered}
        self.least = self.most = self.waiting
        return msgspec.json.encode(said)


class SlowReceiver(asyncio.Protocol):
    """One connection."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._received = b""
        self._answering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, by behaviour

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(HEAD_END)
        if end < 0:
            return
        head = self._received[: end + 2].lower()
        if len(self._received) < end + len(HEAD_END) + int(value_of(head, b"content-length:") or 0):
            return
        self._received = b""
        if head.startswith(b"get /crowd "):
            body = self._crowd.told()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            return
        self._crowd.enter()
        self._answering = asyncio.get_running_loop().call_later(self._crowd.delay_seconds, self._answer)

    def _answer(self) -> None:
        self._answering = None
        self._crowd.answered += 1
        self._crowd.leave()
        self._transport.write(OK)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._crowd.leave()


def ask_crowd(port: int) -> dict[str, int]:
    """How many wait there, asked from another process."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/crowd")
        said: dict[str, int] = msgspec.json.decode(connection.getresponse().read())
        return said
    finally:
        connection.close()


async def serve(ports: int, delay_seconds: float) -> None:
    """Listen, say where, and serve until the parent is gone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(delay_seconds)
    loop = asyncio.get_running_loop()
    made: list[Any] = [
        await loop.create_server(lambda: SlowReceiver(crowd), "127.0.0.1", 0, backlog=1_024) for _ in range(ports)
    ]
    listening = [server.sockets[0].getsockname()[1] for server in made]
    sys.stdout.write(msgspec.json.encode({"ports": listening}).decode() + "\n")
    sys.stdout.flush()
    await until_parent_is_gone(LIFE_SECONDS_MAX)
    for server in made:
        server.close()


def main() -> None:
    """Serve."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ports", type=int, required=True)
    arguments.add_argument("--delay-seconds", type=float, required=True)
    given = arguments.parse_args()
    uvloop.run(serve(given.ports, given.delay_seconds))


if __name__ == "__main__":
    main()
