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
import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server

from tasktick.api.routing import Route

HEAD_END = b"\r\n\r\n"
LENGTH_DIGITS_MAX = 9
# A head that is larger is not remembered with its connection.
PLAIN_HEAD_MAX_BYTES = 4_096
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,9})(?=\r\n)", re.IGNORECASE)
_ZERO = ord("0")

# What this leans on inside aiohttp.
_OF_THE_PROTOCOL = frozenset(
    {
        *(
            "_close",
            "_force_close",
            "_handler_waiter",
            "_request_count",
            "_keepalive_handle",
            "_keepalive_timeout",
            "_manager",
        ),
        *("_messages", "_msg_queue_resume_size", "_next_keepalive_close_time", "_request_in_progress", "_waiter"),
    }
)
_OF_ITS_BASE = frozenset({"_buffer_paused", "_paused", "_parser", "_reading_paused", "_upgraded", "transport"})
_METHODS = ("_process_keepalive", "_resume_reading_if_drained")


class Beginner(Protocol):
    """Who answers requests without a task, where that can be done; they say whether it was begun."""

    def begin(self, asked: RawRequestMessage, content: StreamReader, connection: "ExpressHandler", /) -> bool: ...

    def begin_again(self, head: "PlainHead", body: bytes, connection: "ExpressHandler", /) -> bool: ...


class PlainHead(msgspec.Struct, frozen=True, gc=False):
    """The head of a request about which nothing asks for a second look."""

    method: str
    path: str
    headers: Mapping[str, str]
    route: Route
    fingerprint: bytes
    """What its key is known by."""


class SaidBefore(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a head that aiohttp has read, around the length of its body: where a client says the same bytes
    again, there is nothing new to read in them."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, data: bytes, length: int) -> "SaidBefore | None":
        """The head at the start of these bytes, of a body of this length, if there is just one length in it."""
        end = data.find(HEAD_END) + len(HEAD_END)
        # As it came: spaces before a value, however many, are nothing that was measured before.
        if end > PLAIN_HEAD_MAX_BYTES:
            return None
        lengths = list(_LENGTH.finditer(data, 0, end))
        if len(lengths) != 1 or lengths[0][1] != b"%d" % length:
            return None
        return cls(data[: lengths[0].start(1)], data[lengths[0].end(1) : end])

    def body_of(self, data: bytes) -> bytes | None:
        """The body of a request that has the same head, if these bytes are one, whole and alone."""
        before, after = self.before, self.after
        if not data.startswith(before):
            return None
        at = len(before)
        end = data.find(b"\r", at, at + LENGTH_DIGITS_MAX + 1)
        digits = data[at:end]
        start = end + len(after)
        if end < 0 or not digits.isdigit() or digits[0] == _ZERO or not data.startswith(after, end):
            return None
        return data[start:] if len(data) == start + int(digits) else None


def is_one(data: bytes, asked: RawRequestMessage) -> bool:
    """Whether these bytes are this request, and nothing else."""
    if data[:1] in b"\r\n":  # empty lines before it, which are no head's end
        return False
    end = data.find(HEAD_END) + len(HEAD_END)
    length = asked.headers.get("Content-Length", "0")
    return not asked.chunked and length.isdecimal() and len(data) == end + int(length)


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

    __slots__ = ("_beginner", "_held", "_is_at_border", "_resting", "_said", "address", "head")

    def __init__(self, server: Server, beginner: Beginner, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        # What is known of its client: where it is, and the head of its last request, judged and as bytes.
        self.address = ""
        self.head: PlainHead | None = None
        self._said: SaidBefore | None = None
        # Whether aiohttp's parser has come to the end of a request with the last byte that it was given.
        self._is_at_border = True
        self._beginner = beginner
        # What aiohttp's loop waits for, while a request is on its short way.
        self._resting: asyncio.Future[None] | None = None
        # What has come between an answer and the turn in which aiohttp's loop waits again.
        self._held = b""

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._resting is not None:
            self._resting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._held:
            # So much could not take the short way, nor is it to be kept here: aiohttp has bounds for it.
            self._let_go()
            self._take(data)
        elif data and self._waiter is None and not self._request_in_progress and not self._messages:
            # Its loop comes round a turn after its answer has left, and a quick client is quicker than that: its next
            # request, and so all that follow, would go the long way.
            self._held = data
            self._loop.call_soon(self._let_go)
        else:
            self._take(data)

    def _let_go(self) -> None:
        held, self._held = self._held, b""
        if held and self.transport is not None:
            try:
                self._take(held)
            except BaseException:  # as where a transport calls: nobody else would end the connection
                self.force_close()
                raise

    def _take(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._feed(data)
            return
        # Out of its sight, so that it is not woken by what comes.
        self._waiter, self._resting = None, waiter
        try:
            if self._is_at_border and self._said is not None and self._begin_again(self._said.body_of(data)):
                return
            self._feed(data)
            if self._messages:
                self._serve(data if self._is_at_border else b"")
        finally:
            if not self._request_in_progress:
                self._wake()

    def _feed(self, data: bytes) -> None:
        """Let aiohttp's parser have these bytes."""
        was_at_border, self._is_at_border, self._said = self._is_at_border, False, None
        count = len(self._messages)
        super().data_received(data)
        if was_at_border and len(self._messages) == count + 1:
            message, _ = self._messages[-1]
            self._is_at_border = isinstance(message, RawRequestMessage) and is_one(data, message)

    def _begin_again(self, body: bytes | None) -> bool:
        """Begin with a request that has the head of the one before, and this body."""
        if body is None or self.head is None or not self._may_begin():
            return False
        if not self._beginner.begin_again(self.head, body, self):
            return False
        self._request_count += 1
        self._has_begun()
        return True

    def _serve(self, data: bytes = b"") -> None:
        """Begin with the first of what has come, if it can be. If it came as these bytes and alone, they are given."""
        message, content = self._messages[0]
        # What could not be read is no message but the error.
        if not isinstance(message, RawRequestMessage) or not self._may_begin():
            return
        if not self._beginner.begin(message, content, self):
            return
        if data:
            self._said = SaidBefore.of(data, len(data) - data.find(HEAD_END) - len(HEAD_END))
        self._messages.popleft()
        self._has_begun()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()

    def _may_begin(self) -> bool:
        return not (self._paused or self._reading_paused or self._upgraded or self._close or self._force_close)

    def _has_begun(self) -> None:
        self._request_in_progress = True
        if self._manager is not None:
            self._manager.requests_count += 1

    def _wake(self) -> None:
        """Let aiohttp's loop wait again, or have what was not begun."""
        self._waiter, self._resting = self._resting, None
        if self._waiter is None or self._waiter.done():
            return
        if self._close or self._force_close:
            self._waiter.cancel()
        elif self._messages:
            self._waiter.set_result(None)

    def answered(self, answer: bytes) -> None:
        """The request that is on its short way is answered so."""
        self._request_in_progress = False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        transport = self.transport
        if transport is not None:
            transport.write(answer)
            if self._close or self._force_close:
                transport.close()
            else:
                self._stay_open()
                if self._messages:
                    self._serve()
        if not self._request_in_progress:
            self._wake()

    def _stay_open(self) -> None:
        """As long as an idle connection may, from now on."""
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
