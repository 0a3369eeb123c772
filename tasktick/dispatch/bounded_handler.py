"""The connections of the session: aiohttp's own protocol, with bounds on what an answer may send.

aiohttp bounds a header line, but neither all of an answer's headers, nor the interim answers before
it, nor what chunk framing adds to a body; and it would take bytes that a receiver sends after an
answer for the answer to the next request. `BoundedHandler` closes the connection in each case.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from aiohttp import ClientRequest, ClientTimeout
from aiohttp.abc import AbstractResolver, AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from tasktick.dispatch.bounds import (
    ANSWER_BYTES_MAX,
    BODILESS,
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    INTERIM_MAX,
    SLICE_BYTES,
)
from tasktick.dispatch.connector import GuardedConnector, cut_off
from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import BAD_RESPONSE, HEADERS_TOO_LARGE, Failure

if TYPE_CHECKING:
    from aiohttp.tracing import Trace

# The parser takes others too, of protocols that are not spoken here.
VERSIONS = frozenset({(1, 0), (1, 1)})
HEAD_END = b"\r\n\r\n"


def always() -> bool:
    """Nobody has said until when."""
    return True


class BoundedHandler(ResponseHandler):
    """The protocol of one connection, with bounds on what an answer may send."""

    anomaly: Failure | None = None
    judged_by: AddressPolicy | None = None
    _is_complete = False
    _has_head = False
    _interim = 0
    _received_bytes = 0
    _last_bytes = b""
    may_write: Callable[[], bool] = staticmethod(always)
    """Asked with the first byte of each request: whether it is still permitted to leave."""

    def begin(self) -> None:
        """Make ready for a request."""
        self._is_complete = self._has_head = False
        self._interim = self._received_bytes = 0
        self._last_bytes = b""

    def data_received(self, data: bytes) -> None:
        if self._is_complete:
            if data:  # nothing was asked: it must not become the answer to what is asked next
                self._give_up(BAD_RESPONSE)
            return
        start = 0
        while not self._has_head and start < len(data):
            end = self._end_of_piece(data, start)
            self._take(data[start:end])
            start = end
            if self.exception() is not None:
                return
        if start == 0:
            self._take(data)
        elif start < len(data):
            self.data_received(data[start:])

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Where to stop for now: after the first blank line, or after so many bytes.

        The headers go to the parser apart from what follows them: it forgets an answer whose head comes
        in one piece with a malformed body, and how a receiver's bytes are cut must not decide that.
        """
        seen = self._last_bytes + data[start : start + SLICE_BYTES]
        found = seen.find(HEAD_END)
        if found >= 0:
            seen = seen[: found + len(HEAD_END)]
        end = start + len(seen) - len(self._last_bytes)
        self._last_bytes = b"" if found >= 0 else seen[1 - len(HEAD_END) :]
        return end

    def _take(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._received_bytes > BODY_BYTES_MAX:  # the body may be over what is kept of it
            self.force_close()
        super().data_received(data)
        if self.exception() is not None and self._payload is not None and not self._payload.is_eof():
            # The parser gave up within the body and told the connection alone: whoever reads would wait for ever.
            self._give_up(BAD_RESPONSE)
            self._payload.feed_eof()
            return
        if not self._has_head:
            if self._received_bytes > HEAD_BYTES_MAX:
                self._give_up(HEADERS_TOO_LARGE)
        elif self._payload is None or self._payload.is_eof():
            self._is_complete = True
        elif self._received_bytes > ANSWER_BYTES_MAX:
            self._give_up(BAD_RESPONSE)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if self.anomaly is not None:
            return
        if data[0].version not in VERSIONS:
            self._give_up(BAD_RESPONSE)
            return
        code = data[0].code
        if code >= 200 or code == 101:
            self._has_head = True
            if code in BODILESS and data[0].headers.get("Content-Length", "0") != "0":
                self.force_close()  # a body that there cannot be may follow, and would be the next one's answer
        else:
            self._interim += 1
            if self._interim > INTERIM_MAX:
                self._give_up(BAD_RESPONSE)
                return
        super().feed_data(data, size)

    def cut_off(self) -> None:
        """End the connection, and what it has not delivered yet."""
        if self.transport is not None:
            cut_off(self.transport)

    def _give_up(self, anomaly: Failure) -> None:
        """Drop the connection; an answer that is complete stays what it is."""
        if not self._is_complete:
            self.anomaly = self.anomaly or anomaly
        if self.transport is not None:
            self.transport.abort()
        if not self._has_head:
            self.set_exception(HttpProcessingError(message=anomaly.code))


class PermittedRequest(ClientRequest):
    """A request that looks again before its first byte: its body, and its headers with it, are written by a task of
    their own, and by its turn it may be too late."""

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write what there is, or let nothing of it leave."""
        handler = conn.protocol
        if isinstance(handler, BoundedHandler) and not handler.may_write():
            handler.set_exception(ConnectionAbortedError())
            conn.close()
            return
        await super().write_bytes(writer, conn, content_length)


class SessionConnector(GuardedConnector):
    """The pool of the session. It tells `on_connected` of each connection handed out, before it is written to."""

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: AbstractResolver,
        on_connected: Callable[[BoundedHandler], None],
        **options: Any,  # TCPConnector's own, typed there
    ) -> None:
        super().__init__(policy, resolver, lambda: BoundedHandler(self._loop), **options)
        self._on_connected = on_connected

    async def connect(
        self,
        req: ClientRequest,
        traces: list["Trace"],
        timeout: ClientTimeout,  # noqa: ASYNC109 # the signature is aiohttp's
    ) -> Connection:
        """A connection of the pool, or a new one, ready for a request."""
        connection = await super().connect(req, traces, timeout)
        handler = cast(BoundedHandler, connection.protocol)
        try:
            self._on_connected(handler)
        except BaseException:
            connection.close()
            raise
        handler.begin()
        return connection
