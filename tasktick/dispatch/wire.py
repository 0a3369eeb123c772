"""One connection that requests are written to as they are, and whose answers are read as they come.

It is made by aiohttp's connector, which judges its address, dials it and speaks TLS, and it has what the connector
asks of a protocol (`close`, `abort`, `closed`, `is_connected`, `should_close`, `transport`). The connector counts it
for as long as its `connection` is kept.
"""

import asyncio
from typing import Protocol, cast

from aiohttp.connector import Connection

from tasktick.dispatch.answer_reader import AnswerReader
from tasktick.dispatch.attempt import Done
from tasktick.dispatch.connector import cut_off
from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import NEVER_MS, Request
from tasktick.dispatch.request_bytes import Key, Target


class Owner(Protocol):
    """Who is told what becomes of a wire."""

    def ended(self, wire: "Wire", call: "WireCall") -> None:
        """The call has its answer, or will have none: the wire's reader says which."""

    def lost(self, wire: "Wire") -> None:
        """It is of no more use, and nobody waits for it."""

    def cut(self, call: "WireCall") -> None:
        """End the call at once."""


class Pending:
    """A request that waits to be written."""

    __slots__ = ("data", "dial", "is_queued", "target")

    def __init__(self, target: Target, data: bytes) -> None:
        self.target = target
        self.data = data
        # Who makes a connection for it, if there is room for one.
        self.dial: asyncio.Task[None] | None = None
        # There is room for one, and it is not its turn yet.
        self.is_queued = False


class WireCall:
    """A request under way: refused, waiting for a connection, or out on one."""

    __slots__ = ("_owner", "done", "limit_ms", "pending", "request", "started_ms", "wire")

    def __init__(self, owner: Owner, request: Request, done: Done) -> None:
        self._owner = owner
        self.request = request
        self.done = done
        self.limit_ms = NEVER_MS
        self.started_ms = 0.0
        self.wire: Wire | None = None
        # While there is no connection.
        self.pending: Pending | None = None

    def cut(self) -> None:
        """End it at once; nobody is told."""
        self._owner.cut(self)


class Wire:
    """The protocol of one connection; one request at a time.

    It is none of `asyncio.Protocol`, which has nothing that it would leave as it is: without a base it can be compiled.
    """

    __slots__ = (
        "_closed",
        "_early",
        "_is_lost",
        "_owner",
        "call",
        "connection",
        "has_unsent",
        "idle_since_ms",
        "judged_by",
        "key",
        "reader",
        "transport",
    )

    # The connector is never to keep one for later; that is done here.
    should_close = True

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._early = b""
        self._is_lost = False
        self._closed: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.judged_by: AddressPolicy | None = None
        # The connector's hold on it, from its first request to its end.
        self.connection: Connection | None = None
        self.key: Key = ("", "", 0)
        self.reader = AnswerReader()
        # What is out on it and has not come to its end.
        self.call: WireCall | None = None
        # Some of what was written has not left yet.
        self.has_unsent = False
        self.idle_since_ms = 0.0

    def join(self, connection: Connection, key: Key) -> None:
        """It has been made, for requests of this key."""
        self.connection = connection
        self.key = key

    def ask(self, call: WireCall, data: bytes, has_body: bool) -> None:
        """Write a request, all of it. Its answer has a body, unless it is one to a HEAD."""
        self.call = call
        self.reader.begin(has_body)
        if self.transport is not None:
            try:
                self.transport.write(data)
            except RuntimeError:  # uvloop says so of one that has just been closed
                self.transport = None
        if self._early or self.transport is None:
            asyncio.get_running_loop().call_soon(self._catch_up, call)

    def cut_off(self) -> None:
        """End it, and what it has not delivered yet."""
        if self.transport is not None:
            cut_off(self.transport)

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = made = cast(asyncio.Transport, transport)
        # What is not taken at once is told at once. A TLS transport with a bound of 0 would never write at all.
        made.set_write_buffer_limits(0 if made.get_extra_info("sslcontext") is None else 1, 0)

    def data_received(self, data: bytes) -> None:
        call = self.call
        if call is None:
            self._unasked(data)
            return
        reader = self.reader
        reader.feed(data)
        if reader.is_over:
            self.call = None
            self._owner.ended(self, call)

    def eof_received(self) -> None:
        self._over(cleanly=True)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._is_lost = True
        self._over(cleanly=error is None)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        self.reader.forget()

    def pause_writing(self) -> None:
        self.has_unsent = True

    def resume_writing(self) -> None:
        self.has_unsent = False

    # What the connector calls.

    @property
    def closed(self) -> "asyncio.Future[None] | None":
        """Done when the connection has ended; None if it has."""
        if self._closed is None and not self._is_lost:
            self._closed = asyncio.get_running_loop().create_future()
        return self._closed

    def is_connected(self) -> bool:
        """Whether it can still be used."""
        return self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        """End it; what was written is still delivered."""
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def abort(self) -> None:
        """End it now."""
        if self.transport is not None:
            self.transport.abort()
            self.transport = None

    def _over(self, *, cleanly: bool) -> None:
        call = self.call
        if call is not None:
            self.call = None
            self.reader.feed_eof(cleanly=cleanly)
            self._owner.ended(self, call)
        elif self.connection is not None:
            self._owner.lost(self)

    def _unasked(self, data: bytes) -> None:
        """Bytes that nothing was asked for. From a receiver that speaks first they are the answer to what it has not
        read yet; else they end the connection."""
        if self.connection is not None:
            self._owner.lost(self)
        elif self.transport is not None:
            if not self._early:
                self.transport.pause_reading()
            self._early += data

    def _catch_up(self, call: WireCall) -> None:
        """Read what came before anything was asked."""
        early, self._early = self._early, b""
        if self.call is not call:
            return
        if self.transport is None:
            self._over(cleanly=True)
            return
        self.transport.resume_reading()
        self.data_received(early)
