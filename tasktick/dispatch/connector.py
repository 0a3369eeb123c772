"""The connection pool: every address judged as it is dialled, every answer bounded as it arrives.

aiohttp's connector asks a socket factory for each address that it is about to dial, resolved or
literal, so that is where the guard stands: between the judgement and the SYN there is nothing. The
resolver in front of it only drops forbidden addresses early, so that a name with a permitted address
beside a forbidden one still works and one without fails as what it is. A kept connection was judged
when it was made, and leads where it led then; a change of policy ends it.

Whoever sends brings the protocol of its connections; the connector makes them, counts them and ends them.
"""

import socket
import struct
from asyncio import BaseTransport, Transport, get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiohttp import ClientRequest, ClientTimeout, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType, Connection

from tasktick.dispatch.bounds import RECEIVED_AHEAD_BYTES
from tasktick.dispatch.guard import AddressPolicy, ForbiddenAddress, classify

if TYPE_CHECKING:
    from aiohttp.tracing import Trace

RESOLVED_MAX = 4
RESOLVER_THREADS = 16
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


def cut_off(transport: Transport) -> None:
    """End the connection, and what it has not delivered yet: no bit of it may arrive later than now.

    A socket that is merely closed goes on sending what the kernel holds for it, for minutes where nothing gets
    through: the request would arrive beside its repetition.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DROP_UNSENT)
    transport.abort()


class Judged(Protocol):
    """What is asked of a connection's protocol here: under which policy it was made."""

    judged_by: AddressPolicy | None

    def connection_made(self, transport: BaseTransport) -> None: ...


class GuardedConnector(TCPConnector):
    """The bounded pool. It makes its connections' protocols by `make`, and judges each before it is handed out."""

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: AbstractResolver,
        make: Callable[[], Judged],
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
        usual = getattr(self, "_factory", None)
        assert isinstance(usual, partial), "aiohttp's connector no longer makes its protocols by _factory"
        assert usual.func is ResponseHandler, "aiohttp's connector makes protocols that are not known here"
        self._factory = cast("partial[ResponseHandler]", make)

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
        """A connection of the pool, or a new one, that was judged by the policy of now."""
        while True:
            policy = self._guarded.policy
            connection = await super().connect(req, traces, timeout)
            protocol = cast(Judged, connection.protocol)
            if protocol.judged_by is None:
                protocol.judged_by = policy
            if protocol.judged_by is self._guarded.policy:
                return connection
            connection.close()
