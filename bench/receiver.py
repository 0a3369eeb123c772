"""The receiver: counts what arrives, stamps it, and answers at once. A process of its own.

`GET /hits` says what has come, `GET /count` how many, `GET /stamps` when each hit came beside when it was due (µs
late), `GET /fires` the schedule, the nominal time and the arrival (µs) of each that names a schedule, `POST /reset`
forgets it all.
Everything else is a hit, and is answered with 200.

It shares the processors with what it measures: of a hit nothing is read but its length until somebody asks.
"""

import asyncio
import http.client
import re
import sys
import time
from datetime import datetime
from typing import Any, cast

import msgspec
import uvloop

from bench.parents import until_parent_is_gone

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
QUESTIONS = (b"POST /reset ", b"GET /hits ", b"GET /count ", b"GET /stamps ", b"GET /fires ")
LIFE_SECONDS_MAX = 3_600
STAMPS_MAX = 1_000_000
# Heads that wait to be read, some 200 MB of them.
UNREAD_MAX = 250_000


class Tally:
    """What has arrived since the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget."""
        self._read = 0
        self._unread: list[tuple[bytes, int]] = []
        self.ids: set[bytes] = set()
        self.first_ns = 0
        self.last_ns = 0
        self.stamps: list[tuple[bytes, int]] = []
        self.fires: list[tuple[bytes, bytes, int]] = []

    @property
    def hits(self) -> int:
        """How many have come."""
        return self._read + len(self._unread)

    def hit(self, head: bytes) -> None:
        """One more."""
        self._unread.append((head, time.time_ns()))
        if len(self._unread) > UNREAD_MAX:
            self._read_on()

    def _read_on(self) -> None:
        """Read the heads of what has come."""
        unread, self._unread = self._unread, []
        self._read += len(unread)
        if unread:
            self.first_ns, self.last_ns = self.first_ns or unread[0][1], unread[-1][1]
        for one, at_ns in unread:
            head = one.lower()
            task_id = value_of(head, b"webhook-id:")
            if task_id:
                self.ids.add(task_id)
            due = value_of(head, b"tasktick-scheduled-at:")
            schedule = value_of(head, b"tasktick-schedule:")
            if schedule:
                if len(self.fires) < STAMPS_MAX:
                    self.fires.append((schedule, due, at_ns))
            elif due and len(self.stamps) < STAMPS_MAX:
                self.stamps.append((due, at_ns))

    def answer(self, path: bytes) -> bytes:
        """What a question gets."""
        if path == b"/reset":
            self.reset()
            return b"{}"
        if path == b"/count":
            return b"%d" % self.hits
        self._read_on()
        if path == b"/stamps":
            return msgspec.json.encode([_late_us(due, at) for due, at in self.stamps])
        if path == b"/fires":
            return msgspec.json.encode(
                [(schedule.decode(), _due_ms(due), at // 1_000) for schedule, due, at in self.fires]
            )
        return msgspec.json.encode(
            {"hits": self.hits, "distinct": len(self.ids), "first_ns": self.first_ns, "last_ns": self.last_ns}
        )


def ask_receiver(port: int, path: str) -> Any:
    """A question to a receiver, from another process."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST" if path == "/reset" else "GET", path)
        return msgspec.json.decode(connection.getresponse().read())
    finally:
        connection.close()


def value_of(head: bytes, name: bytes) -> bytes:
    """A header's value; `head` is in lower case."""
    start = head.find(b"\r\n" + name)
    if start < 0:
        return b""
    start += len(name) + 2
    return head[start : head.index(b"\r\n", start)].strip()


def _due_ms(due: bytes) -> int:
    return round(datetime.fromisoformat(due.decode().upper()).timestamp() * 1_000)


def _late_us(due: bytes, at_ns: int) -> float:
    return at_ns / 1_000 - _due_ms(due) * 1_000


class Receiver(asyncio.Protocol):
    """One connection."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, by behaviour

    def data_received(self, data: bytes) -> None:
        if self._waiting:
            data, self._waiting = self._waiting + data, b""
        while (end := data.find(HEAD_END)) >= 0:
            found = LENGTH.search(data, 0, end + 2)
            if found is None and b"chunked" in data[:end].lower():
                raise RuntimeError("a body in chunks: how long it is, is not known here")
            rest = end + len(HEAD_END) + (int(found[1]) if found else 0)
            if len(data) < rest:
                break
            self._answer(data[: end + 2])
            data = data[rest:]
        self._waiting = data

    def _answer(self, head: bytes) -> None:
        if not head.startswith(QUESTIONS):
            self._transport.write(OK)
            self._tally.hit(head)
            return
        body = self._tally.answer(head.split(b" ", 2)[1])
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def serve() -> None:
    """Listen, say where, and serve until the parent is gone."""
    tally = Tally()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(tally), "127.0.0.1", 0, backlog=1_024)
    sys.stdout.write(f'{{"port": {server.sockets[0].getsockname()[1]}}}\n')
    sys.stdout.flush()
    await until_parent_is_gone(LIFE_SECONDS_MAX)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
