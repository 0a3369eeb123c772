"""The ring on the wire: sealed datagrams over UDP, whole states over TCP, on one port.

Whatever comes in that is malformed, unauthenticated, oversized, replayed or too much is counted and dropped; what
cannot be sent is lost, which gossip bears. Nothing here raises but `open_sockets`, when the port is taken.

An exchange: the server says a nonce and who it is, the client a nonce and its state, the server answers with its
own. Both states are authenticated together with all that was said before, so neither counts in another connection.
What is said is authenticated, not hidden.
"""

import asyncio
import math
import secrets
import socket
from collections import Counter
from contextlib import suppress
from typing import Any, Protocol

from tasktick import logs
from tasktick.cluster.messages import Address, State, decode_state, encode
from tasktick.cluster.seal import Dropped, Opened, Seal

log = logs.get("gossip")

# Refusals for a wrong key that are said: the third, the 30th, the 300th, ...
REFUSED_NOTED = 3
STATE_BYTES_MAX = 1_048_576
EXCHANGE_TIMEOUT_MS = 5_000
# Connections that others may have open to us at once.
SERVED_MAX = 16
# Of those so many from one address, and for so long, until it has shown that it has the key.
STRANGERS_PER_ADDRESS_MAX = 2
STRANGER_TIMEOUT_MS = 1_000
BIND_TRIES = 8

_NONCE_BYTES = 16
_HELLO_BYTES_MAX = 64
_LENGTH_BYTES = 4
# What may go wrong between two honest programs and a network, and what a dishonest one may do.
_BROKEN = (OSError, EOFError)


class Listener(Protocol):
    """Who is told what comes in."""

    def received(self, opened: Opened, source: Address) -> None:
        """An authentic datagram."""
        ...

    def merge(self, state: State) -> None:
        """Another's whole state."""
        ...

    def state(self) -> State:
        """Our own."""
        ...


class Transport(Protocol):
    """What carries sealed messages. The twin in memory passes the same tests."""

    @property
    def address(self) -> Address: ...

    def send(self, to: Address, incarnation: str, messages: tuple[bytes, ...]) -> None:
        """Send one datagram; it may be lost."""
        ...

    async def exchange(self, to: Address) -> bool:
        """Exchange whole states with whoever is there; whether that was done."""
        ...

    async def close(self) -> None:
        """Hear and say nothing more."""
        ...


class Door:
    """What every transport does with bytes: seals what goes out, opens and counts what comes in.

    The port must be known before there is a node to listen, so the listener comes later; until then nothing comes in.
    """

    def __init__(self, seal: Seal, events: Counter[str], listener: Listener | None = None) -> None:
        self.seal = seal
        self.events = events
        self.listener = listener

    def datagram(self, datagram: bytes, source: Address) -> None:
        """Hand over what counts."""
        opened = self.seal.open(datagram)
        if isinstance(opened, Dropped):
            self._drop(opened, source)
        elif self.listener is not None:
            self.listener.received(opened, source)

    def hello(self) -> bytes:
        """What the server of an exchange says first."""
        return secrets.token_bytes(_NONCE_BYTES) + self.seal.incarnation.encode()

    def push(self, hello: bytes) -> bytes | None:
        """What the client says to that; None if it has called itself."""
        if self.listener is None or hello[_NONCE_BYTES:] == self.seal.incarnation.encode():
            return None
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._frame(b"push" + hello + nonce, self.listener)

    def pull(self, hello: bytes, push: bytes, source: Address | None = None) -> bytes | None:
        """What the server answers; None if it was no member of the ring that called."""
        nonce = push[:_NONCE_BYTES]
        if self.listener is None or not self._merged(b"push" + hello + nonce, push[_NONCE_BYTES:], source):
            return None
        return self._frame(b"pull" + hello + nonce, self.listener)

    def finish(self, hello: bytes, push: bytes, pull: bytes) -> bool:
        """Whether the answer was one."""
        return self._merged(b"pull" + hello + push[:_NONCE_BYTES], pull)

    def _frame(self, purpose: bytes, listener: Listener) -> bytes:
        return self.seal.keyring.sign(purpose, encode(listener.state()))

    def _drop(self, why: Dropped, source: Address | None) -> None:
        """Count it. What has another key is said, ten times seldomer each time: it may be a stranger's flood."""
        self.events[why] += 1
        if why is not Dropped.UNAUTHENTICATED:
            return
        count = self.events[why]
        if count % REFUSED_NOTED == 0 and math.log10(count // REFUSED_NOTED).is_integer():
            log.warning(
                "gossip_refused",
                source=None if source is None else f"{source[0]}:{source[1]}",
                refused=count,
                advice="somebody gossips with another key: if it is a node of this ring, give it the same "
                "cluster.keys_file (on loopback: vault.key); else keep strangers off this port by the firewall",
            )

    def _merged(self, purpose: bytes, frame: bytes, source: Address | None = None) -> bool:
        body = self.seal.keyring.verify(purpose, frame)
        if isinstance(body, Dropped):
            self._drop(body, source)
            return False
        state = decode_state(body)
        if state is None:
            self.events[Dropped.MALFORMED] += 1
            return False
        if self.listener is not None:
            self.listener.merge(state)
        return self.listener is not None


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        # The kernel takes no more: what is sent now would be late, and is lost instead.
        self.full = False

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._door.datagram(data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        # Nobody listens at some member's port: the probe that is not answered says so too.
        self._door.events[Dropped.UNSENT] += 1


class SocketTransport:
    """UDP and TCP on one port."""

    def __init__(
        self, door: Door, datagrams: asyncio.DatagramTransport, protocol: _Datagrams, listening: socket.socket
    ) -> None:
        self._door = door
        self._datagrams = datagrams
        self._protocol = protocol
        self._listening = listening
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.StreamWriter, asyncio.Event] = {}
        # By host, those who have not yet shown that they have the key.
        self._strangers: Counter[str] = Counter()

    @property
    def address(self) -> Address:
        host, port, *_ = self._listening.getsockname()
        return (host, port)

    async def serve(self) -> None:
        """Answer those who want to exchange states."""
        self._server = await asyncio.start_server(self._serve, sock=self._listening)

    def send(self, to: Address, incarnation: str, messages: tuple[bytes, ...]) -> None:
        try:
            if self._datagrams.is_closing() or self._protocol.full:
                self._door.events[Dropped.UNSENT] += 1
            else:
                self._datagrams.sendto(self._door.seal.close(incarnation, messages), to)
        except (OSError, ValueError):  # an address of another family, a network that is down
            self._door.events[Dropped.UNSENT] += 1

    async def exchange(self, to: Address) -> bool:
        try:
            async with asyncio.timeout(EXCHANGE_TIMEOUT_MS / 1_000):
                reader, writer = await _dial(to)
                try:
                    return await self._exchange(reader, writer)
                finally:
                    await _hang_up(writer)
        except (*_BROKEN, _TooLong):
            return False

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        hello = await _read(reader, _HELLO_BYTES_MAX)
        push = self._door.push(hello)
        if push is None:
            return False
        await _write(writer, push)
        return self._door.finish(hello, push, await _read(reader, STATE_BYTES_MAX))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _peer(writer)
        host = "" if peer is None else peer[0]
        if len(self._serving) >= SERVED_MAX or self._strangers[host] >= STRANGERS_PER_ADDRESS_MAX:
            self._door.events[Dropped.OVERLOADED] += 1
            writer.transport.abort()
            return
        ended = self._serving[writer] = asyncio.Event()
        done = False
        try:
            pull = await self._hear(reader, writer, host)
            if pull is not None:
                async with asyncio.timeout(EXCHANGE_TIMEOUT_MS / 1_000):
                    await _write(writer, pull)
            done = True
        except _TooLong:
            self._door.events[Dropped.OVERSIZED] += 1
        except _BROKEN:
            self._door.events[Dropped.MALFORMED] += 1
        finally:
            if not done:  # what it has not taken it is not waited for to take
                writer.transport.abort()
            await _hang_up(writer)
            del self._serving[writer]
            ended.set()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> bytes | None:
        """Hear who has called, and what it says; the answer to it, None if it is no member of the ring."""
        self._strangers[host] += 1
        try:
            async with asyncio.timeout(STRANGER_TIMEOUT_MS / 1_000):
                hello = self._door.hello()
                await _write(writer, hello)
                return self._door.pull(hello, await _read(reader, STATE_BYTES_MAX), _peer(writer))
        finally:
            self._strangers[host] -= 1
            if not self._strangers[host]:
                del self._strangers[host]

    async def close(self) -> None:
        self._datagrams.close()
        if self._server is not None:
            self._server.close()
        for writer in self._serving:
            writer.transport.abort()
        for ended in list(self._serving.values()):
            await ended.wait()
        if self._server is None:
            self._listening.close()
        else:
            await self._server.wait_closed()


class _TooLong(Exception):
    """A frame says that it is longer than any may be."""


def _peer(writer: asyncio.StreamWriter) -> Address | None:
    """Who has called; None once that is gone."""
    peer = writer.get_extra_info("peername")
    return None if peer is None else (peer[0], peer[1])


async def _dial(to: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(*to)
    except ValueError as error:  # what was given as a seed is no name that could be looked up
        raise OSError(str(error)) from error


async def _read(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    if length > bytes_max:
        raise _TooLong
    return await reader.readexactly(length)


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
    await writer.drain()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(*_BROKEN):
        try:
            async with asyncio.timeout(EXCHANGE_TIMEOUT_MS / 1_000):
                await writer.wait_closed()
        finally:
            writer.transport.abort()


async def open_sockets(door: Door, host: str = "127.0.0.1", port: int = 0) -> SocketTransport:
    """Listen for datagrams and exchanges on one port; with 0, one that is free for both."""
    tries = BIND_TRIES if port == 0 else 1
    for left in reversed(range(tries)):
        listening = socket.create_server((host, port), family=_family(host), backlog=SERVED_MAX)
        listening.setblocking(False)
        address = listening.getsockname()
        try:
            datagrams, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Datagrams(door), local_addr=(host, address[1])
            )
        except OSError:
            listening.close()
            if not left:
                raise
            continue
        transport = SocketTransport(door, datagrams, protocol, listening)
        await transport.serve()
        return transport
    raise AssertionError("the last try raises")


async def adopt_sockets(door: Door, exchanges: socket.socket, datagrams: socket.socket) -> SocketTransport:
    """Listen on a port that somebody else has bound for both."""
    loop = asyncio.get_running_loop()
    sender, protocol = await loop.create_datagram_endpoint(lambda: _Datagrams(door), sock=datagrams)
    transport = SocketTransport(door, sender, protocol, exchanges)
    await transport.serve()
    return transport


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
