"""What a connection may cost, before anything is parsed: how many, how large, how long.

aiohttp bounds single lines and fields, and would wait for the rest of a request for ever. Here each head has a
deadline and a size in all, connections have a bound in all and by address, and what the parser refuses is a
problem document like any other refusal.
"""

import asyncio
from collections import Counter
from http import HTTPStatus
from itertools import chain
from typing import Any, NamedTuple, cast

import msgspec
from aiohttp import http_parser, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import StreamReader
from aiohttp.typedefs import RawHeaders
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from tasktick import logs
from tasktick.api import problems
from tasktick.api.call import Reply
from tasktick.api.express import Beginner, ExpressHandler
from tasktick.api.response import COMMON_FIELDS, Response
from tasktick.errors import Refused
from tasktick.settings import ServerConfig

log = logs.get("api")

HEADERS_MAX = 100
# How long bytes that nobody will read are taken, so that the client gets to read why.
LINGER_S = 1.0
READ_BUFFER_BYTES = 65_536
# What waits to be taken by clients, of all connections together; and how much of it one must take in the time
# that a body has, or its connection ends.
UNSENT_MAX_BYTES = 64 * 1_048_576
SENT_LEAST_BYTES = 65_536
C_PARSER_MODULE = "aiohttp._http_parser"
UNKNOWN_ADDRESS = "unknown"


def assert_c_parser() -> None:
    """Refuse to serve with the slow parser in Python: it is not what the limits were measured with."""
    if http_parser.HttpRequestParser.__module__ != C_PARSER_MODULE:
        raise RuntimeError("aiohttp has no C parser here; install a wheel of it, or unset AIOHTTP_NO_EXTENSIONS")


def head_bytes(path: str, headers: RawHeaders) -> int:
    """How large the head of a request was: its line and its headers."""
    return len(path) + sum(map(len, chain.from_iterable(headers))) + 4 * len(headers)


class Unsent:
    """Answers that their clients have not taken yet, in bytes by connection."""

    def __init__(self) -> None:
        self._by_connection: dict[LimitedProtocol, int] = {}

    def note(self, connection: "LimitedProtocol", waiting_bytes: int) -> None:
        """So much waits now. Where it is too much in all, the connection with the most ends."""
        self._by_connection[connection] = waiting_bytes
        while sum(self._by_connection.values()) > UNSENT_MAX_BYTES:
            worst = max(self._by_connection, key=self._by_connection.__getitem__)
            self.forget(worst)
            worst.cut_off()

    def of(self, connection: "LimitedProtocol") -> int:
        """What waited on this connection when it was noted last."""
        return self._by_connection.get(connection, 0)

    def forget(self, connection: "LimitedProtocol") -> None:
        """Nothing waits there any more."""
        self._by_connection.pop(connection, None)


class LimitedServer(web.Server):
    """Makes the protocols of one listening address, and counts them."""

    def __init__(self, handler: Any, beginner: Beginner, limits: ServerConfig, request_id: Any) -> None:
        super().__init__(
            handler,
            keepalive_timeout=limits.idle_timeout_ms / 1_000,
            lingering_time=LINGER_S,
            max_line_size=limits.headers_max_bytes,
            max_field_size=limits.headers_max_bytes,
            max_headers=HEADERS_MAX,
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,
            access_log=None,
        )
        self.beginner = beginner
        self.limits = limits
        self.request_id = request_id
        self.open_connections = 0
        self.unsent = Unsent()
        self._by_address: Counter[str] = Counter()

    def __call__(self) -> RequestHandler:
        return LimitedProtocol(self, loop=self._loop, **self._kwargs)

    def admit(self, address: str) -> Refused | None:
        """Take a connection in, or say why not."""
        if self.open_connections >= self.limits.connections_max:
            return Refused("overloaded", "There are too many connections. Try again in a moment.")
        if self._by_address[address] >= self.limits.connections_per_address_max:
            return Refused("rate_limited", "There are too many connections from this address. Keep some open instead.")
        self.open_connections += 1
        self._by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        """A connection that was taken in has ended."""
        self.open_connections -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class LimitedProtocol(ExpressHandler):
    """One connection: aiohttp's, with deadlines and sizes of its own."""

    __slots__ = ("_admitted", "_head_bytes", "_head_timer", "_send_timer", "_server", "_told")

    def __init__(self, server: LimitedServer, **kwargs: Any) -> None:
        super().__init__(server, server.beginner, **kwargs)
        self._server = server
        self.address = UNKNOWN_ADDRESS
        self._admitted = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else UNKNOWN_ADDRESS
        refused = self._server.admit(self.address)
        if refused is not None:
            cast(asyncio.Transport, transport).write(self._raw(refused))
            transport.close()
            return
        self._admitted = True
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self._admitted:
            return
        self._admitted = False
        self._server.leave(self.address)
        self._head_came()
        self._sent()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        self._sent()
        super().resume_writing()

    def _watch_sending(self) -> None:
        """An answer waits for its client, which is not waited for without end."""
        transport = cast(asyncio.Transport, self.transport)
        self._send_timer = self._loop.call_later(self._server.limits.body_timeout_ms / 1_000, self._send_late)
        self._server.unsent.note(self, transport.get_write_buffer_size())

    def _send_late(self) -> None:
        self._send_timer = None
        transport = cast(asyncio.Transport, self.transport)
        if transport.get_write_buffer_size() > self._server.unsent.of(self) - SENT_LEAST_BYTES:
            self.cut_off()
        else:
            self._watch_sending()

    def _sent(self) -> None:
        self._server.unsent.forget(self)
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def cut_off(self) -> None:
        """End the connection at once, with what was not sent."""
        self._sent()
        log.info("answer_not_taken", address=self.address)
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._admitted:
            super().data_received(data)

    def _take(self, data: bytes) -> None:
        if self._told:
            return
        before = self._request_count
        super()._take(data)
        if self._request_count != before:
            self._head_came()
        elif self._is_idle() and data:
            # Part of a head: it has a deadline from its first byte, and a size.
            self._head_bytes += len(data)
            if self._head_bytes > self._server.limits.headers_max_bytes:
                self._head_came()
                self._end(Refused("headers_too_large", self._too_large()))
            elif self._head_timer is None:
                self._await_head()

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp asks for this after each body, and goes through its parser again for it.
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def _is_idle(self) -> bool:
        """Whether aiohttp's loop waits for a request, so that what comes is the head of the next."""
        return self._waiter is not None and not self._waiter.done()

    def _await_head(self) -> None:
        timeout_s = self._server.limits.header_timeout_ms / 1_000
        self._head_timer = self._loop.call_later(timeout_s, self._head_late)

    def _head_came(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        if not self._is_idle():
            return
        if self._head_bytes:
            self._end(Refused("request_timeout", "The head of the request did not arrive in time."))
        else:
            self.force_close()

    def _end(self, refused: Refused) -> None:
        """Say why, and close: a moment later, since a close with bytes unread would take back what was said."""
        self._told = True
        if self.transport is None:
            return
        self.transport.write(self._raw(refused))
        self.transport.write_eof()
        self._head_timer = self._loop.call_later(self._lingering_time, self.force_close)

    def _raw(self, refused: Refused) -> bytes:
        return raw_reply(problems.reply(refused, self._server.request_id()))

    def _too_large(self) -> str:
        return f"The request's line and headers come to more than {self._server.limits.headers_max_bytes} bytes."

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> Any:  # what it is asked of a response, `Response` is
        """Answer what the parser refused, or what escaped the handler, as a problem; the connection then closes."""
        if request.writer.output_size > 0:
            raise ConnectionError("An answer has begun; there cannot be another.")
        request_id = self._server.request_id()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("api_protocol_failed", request_id=request_id, kind=type(exc).__name__, error=str(exc))
            answer = problems.internal(request_id)
        elif isinstance(exc, LineTooLong) or "Too many headers" in (message or ""):
            answer = problems.reply(Refused("headers_too_large", self._too_large()), request_id)
        else:
            detail = "This is no HTTP request that can be read."
            answer = problems.reply(Refused("malformed", detail), request_id)
        response = Response(answer, request_id)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """aiohttp's own complaints, as an event."""
        error = kw.get("exc_info")
        log.error("api_connection_failed", kind=type(error).__name__, error=str(error))


def common_headers(request_id: str) -> dict[str, str]:
    """What every answer carries."""
    return {"X-Request-Id": request_id, **COMMON_FIELDS}


def raw_reply(reply: Reply) -> bytes:
    """An answer as bytes, for a connection that aiohttp never gets to see."""
    request_id = msgspec.json.decode(reply.body)["request_id"]
    fields = common_headers(request_id) | dict(reply.headers)
    fields |= {"Content-Type": reply.media_type, "Content-Length": str(len(reply.body)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n{head}\r\n".encode() + reply.body


def is_at_hand(stream: StreamReader) -> bool:
    """Whether all of a body is here: it came with the head, or soon. Nobody waits to be asked for it."""
    return stream.is_eof() and stream.exception() is None


class BodyMax(NamedTuple):
    """How long a body may be, and by which setting."""

    bytes: int
    setting: str


def body_at_hand(stream: StreamReader, most: BodyMax) -> bytes | None:
    """The body, if all of it is here."""
    return fitting(stream.read_nowait(), most) if is_at_hand(stream) else None


def fitting(body: bytes, most: BodyMax) -> bytes:
    """A body, if it has its size."""
    if len(body) > most.bytes:
        raise _too_long(most)
    return body


async def read_body(request: BaseRequest, most: BodyMax, timeout_ms: int) -> bytes:
    """The body, within its size and its time."""
    length = request.content_length
    if length is not None and length > most.bytes:
        raise _too_long(most)
    stream = request.content
    await invite(request, request.writer)
    parts: list[bytes] = []
    taken = 0
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            while part := await stream.readany():
                taken += len(part)
                if taken > most.bytes:
                    raise _too_long(most)
                parts.append(part)
    except TimeoutError:
        raise Refused("request_timeout", "The body of the request did not arrive in time.") from None
    except ConnectionError:
        raise Refused("malformed", "The connection ended before the body of the request did.") from None
    return b"".join(parts)


def _too_long(most: BodyMax) -> Refused:
    return Refused("payload_too_large", f"The body has more than {most.bytes} bytes ({most.setting}).")


async def invite(request: BaseRequest, writer: AbstractStreamWriter) -> None:
    """Tell a client that asks first (`Expect: 100-continue`) to go on."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= (1, 1):
        await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.output_size = 0
