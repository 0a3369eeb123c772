"""The connection pool: every address judged as it is dialled, every answer bounded as it arrives.

aiohttp's connector asks a socket factory for each address that it is about to dial, resolved or
literal, so that is where the guard stands: between the judgement and the SYN there is nothing. The
resolver in front of it only drops forbidden addresses early, so that a name with a permitted address
beside a forbidden one still works and one without fails as what it is. A kept connection was judged
when it was made, and leads where it led then; a change of policy ends it.

aiohttp bounds a header line, but neither all of an answer's headers, nor the interim answers before
it, nor what chunk framing adds to a body; and it would take bytes that a receiver sends after an
answer for the answer to the next request. `BoundedHandler` closes the connection in each case.
"""

import socket
import struct
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import ClientRequest, ClientTimeout, TCPConnector
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from tasktick.dispatch.guard import AddressPolicy, ForbiddenAddress, classify
from tasktick.dispatch.outcome import BAD_RESPONSE, BODY_BYTES_MAX, HEADERS_TOO_LARGE, Failure

if TYPE_CHECKING:
    from aiohttp.tracing import Trace

RESOLVED_MAX = 4
RESOLVER_THREADS = 16
# Statuses whose answers have no body, whatever their headers promise.
BODILESS = frozenset({204, 304})
# The parser takes others too, of protocols that are not spoken here.
VERSIONS = frozenset({(1, 0), (1, 1)})
INTERIM_MAX = 10
HEAD_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 1_048_576
# What the kernel takes in ahead of us. Left to itself it takes megabytes from a receiver that floods, and the
# loop reads them in one turn.
RECEIVED_AHEAD_BYTES = 65_536
# Bytes given to the parser at once until the headers are complete: what 10 interim answers may cost.
SLICE_BYTES = 4_096

HEAD_END = b"\r\n\r\n"

SocketFactory = Callable[[AddrInfoType], socket.socket]


class DialledSocket(socket.socket):
    """A socket whose descriptor ends with a call of `close`, or with its transport, but never by being collected.

    A receiver may reset the connection before the first byte of TLS is written. uvloop has then closed the
    transport, and the descriptor with it, before it makes the socket part of it, and nobody tells the socket.
    Its number soon is another connection's; collected, the socket would close that one under its transport.
    """

    def __del__(self) -> None:
        """What `socket.socket` does here is to close whatever has the number by now."""


def guarded_socket_factory(policy: AddressPolicy) -> SocketFactory:
    """A factory that gives no socket for an address that policy forbids."""
    own_ports = policy.wildcard_ports()

    def open_socket(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = info
        host, port = where[0], where[1]
        has_zone = len(where) > 3 and where[3] != 0
        if has_zone or not classify(host, policy, port).permitted:
            raise ForbiddenAddress
        if port in own_ports and _is_this_machine(family, host):
            raise ForbiddenAddress
        opened = DialledSocket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_AHEAD_BYTES)
        except BaseException:
            opened.close()
            raise
        return opened

    return open_socket


def _is_this_machine(family: int, host: str) -> bool:
    """Whether the address is one of this machine's: only those can be bound."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
        return True


class SystemResolver(AbstractResolver):
    """`getaddrinfo` in threads of its own: a slow name server holds up neither the loop nor its threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        lookup = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        infos = await get_running_loop().run_in_executor(self._threads, lookup)
        return [
            ResolveResult(hostname=host, host=str(where[0]), port=port, family=found, proto=protocol, flags=0)
            for found, _, protocol, _, where in infos
            if len(where) < 4 or where[3] == 0
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class GuardedResolver(AbstractResolver):
    """Drops forbidden addresses and keeps the first few of the rest; none left is `ForbiddenAddress`."""

    def __init__(self, resolver: AbstractResolver, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self.policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        permitted = [result for result in found if classify(result["host"], self.policy, port).permitted]
        if not found:
            raise OSError(None, "the name has no address")
        if not permitted:
            raise ForbiddenAddress
        return permitted[:RESOLVED_MAX]

    async def close(self) -> None:
        await self._resolver.close()


# SO_LINGER: on, for no time at all.
DROP_UNSENT = struct.pack("ii", 1, 0)


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
        """End the connection, and what it has not delivered yet: no bit of it may arrive later than now.

        A socket that is merely closed goes on sending what the kernel holds for it, for minutes where nothing gets
        through: the request would arrive beside its repetition.
        """
        if self.transport is None:
            return
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DROP_UNSENT)
        self.transport.abort()

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


def _new_handler(loop: AbstractEventLoop) -> ResponseHandler:
    return BoundedHandler(loop)


class GuardedConnector(TCPConnector):
    """The bounded pool. It tells `on_connected` of each connection handed out, before it is written to."""

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: AbstractResolver,
        on_connected: Callable[[BoundedHandler], None],
        **options: Any,  # TCPConnector's own, typed there
    ) -> None:
        self._guarded = GuardedResolver(resolver, policy)
        self._open_socket = guarded_socket_factory(policy)
        super().__init__(
            resolver=self._guarded,
            socket_factory=lambda info: self._open_socket(info),
            limit_per_host=0,
            **options,
        )
        self._factory = partial(_new_handler, loop=self._loop)
        self._on_connected = on_connected

    def obey(self, policy: AddressPolicy) -> None:
        """Judge by this policy from now on. Requests under way end as they began."""
        self._guarded.policy = policy
        self._open_socket = guarded_socket_factory(policy)
        self.clear_dns_cache()

    async def connect(
        self,
        req: ClientRequest,
        traces: list["Trace"],
        timeout: ClientTimeout,  # noqa: ASYNC109 # the signature is aiohttp's
    ) -> Connection:
        """A connection of the pool, or a new one."""
        while True:
            policy = self._guarded.policy
            connection = await super().connect(req, traces, timeout)
            handler = connection.protocol
            assert isinstance(handler, BoundedHandler)
            if handler.judged_by is None:
                handler.judged_by = policy
            if handler.judged_by is self._guarded.policy:
                break
            connection.close()
        try:
            self._on_connected(handler)
        except BaseException:
            connection.close()
            raise
        handler.begin()
        return connection
