"""The short way of a request whose answer waits for one commit and nothing else.

aiohttp's protocol has a loop of its own for each connection, a task of the event loop, and makes another one for each
request: five turns of the event loop from the bytes to the answer. That is right for what may take its time. Of a
small write it is a third of the cost, and it puts all requests that come together off until the last of them is read.
So what has come is looked at here first, while aiohttp's loop rests: where it can be begun as it is, it is, and its
answer is written when the commit is done, by whoever says so. Everything else goes aiohttp's way, as do all requests
on a connection that closes, upgrades, or has answers that its client does not take.

Only one of the two is ever at work on a connection: while a request is on its short way, aiohttp's loop does not know
that anything came, and what comes behind it waits in aiohttp's own queue.
"""

import asyncio
from typing import Any, Protocol

import msgspec
from aiohttp import HttpVersion11
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.typedefs import RawHeaders
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server

from tasktick.api.routing import Route

# What this leans on inside aiohttp.
_OF_THE_PROTOCOL = frozenset(
    {
        *("_close", "_force_close", "_handler_waiter", "_keepalive_handle", "_keepalive_timeout", "_manager"),
        *("_messages", "_msg_queue_resume_size", "_next_keepalive_close_time", "_request_in_progress", "_waiter"),
    }
)
_OF_ITS_BASE = frozenset({"_buffer_paused", "_paused", "_parser", "_reading_paused", "_upgraded", "transport"})
_METHODS = ("_process_keepalive", "_resume_reading_if_drained")


class Beginner(Protocol):
    """Who answers requests without a task, where that can be done."""

    def __call__(self, asked: RawRequestMessage, content: StreamReader, connection: "ExpressHandler", /) -> bool: ...


class PlainHead(msgspec.Struct, frozen=True, gc=False):
    """The head of a request that was judged, kept with its connection: a client says the same again and again."""

    method: str
    path: str
    headers: RawHeaders
    route: Route
    fingerprint: bytes
    """What its key is known by."""

    def is_of(self, asked: RawRequestMessage) -> bool:
        """Whether this request has the same."""
        return (
            asked.raw_headers == self.headers
            and asked.path == self.path
            and asked.method == self.method
            and asked.version == HttpVersion11
        )


def assert_aiohttp_is_known() -> None:
    """Refuse to serve on a protocol of aiohttp that keeps its books otherwise."""
    missing = [
        *(_OF_THE_PROTOCOL - set(RequestHandler.__slots__)),
        *(_OF_ITS_BASE - set(BaseProtocol.__slots__)),
        *(name for name in _METHODS if not callable(getattr(RequestHandler, name, None))),
    ]
    if missing:
        raise RuntimeError(f"aiohttp's server has no {', '.join(sorted(missing))} any more; install the version before")


class ExpressHandler(RequestHandler):
    """aiohttp's protocol, and the short way before it."""

    __slots__ = ("_begin", "_resting", "address", "head")

    def __init__(self, server: Server, begin: Beginner, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        # What is known of its client: where it is, and the head of its last request.
        self.address = ""
        self.head: PlainHead | None = None
        self._begin = begin
        # What aiohttp's loop waits for, while a request is on its short way.
        self._resting: asyncio.Future[None] | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._resting is not None:
            self._resting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            super().data_received(data)
            return
        # Out of its sight, so that it is not woken by what comes.
        self._waiter = None
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._messages:
            self._serve(waiter)
        elif self._close or self._force_close:
            waiter.cancel()

    def _serve(self, waiter: asyncio.Future[None]) -> None:
        """Begin with the first of what has come, or wake aiohttp's loop for it."""
        message, content = self._messages[0]
        self._waiter, self._resting = None, waiter
        # What could not be read is no message but the error.
        if (
            not isinstance(message, RawRequestMessage)
            or self._paused
            or self._reading_paused
            or self._upgraded
            or not self._begin(message, content, self)
        ):
            self._waiter, self._resting = waiter, None
            waiter.set_result(None)
            return
        self._messages.popleft()
        self._request_in_progress = True
        if self._manager is not None:
            self._manager.requests_count += 1
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()

    def answered(self, answer: bytes) -> None:
        """The request that is on its short way is answered so."""
        self._request_in_progress = False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        self._waiter, self._resting = self._resting, None
        waiter, transport = self._waiter, self.transport
        if waiter is None or transport is None or waiter.done():
            return
        transport.write(answer)
        if self._close or self._force_close:
            waiter.cancel()
            transport.close()
            return
        self._stay_open()
        if self._messages:
            self._serve(waiter)

    def _stay_open(self) -> None:
        """As long as an idle connection may, from now on."""
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
