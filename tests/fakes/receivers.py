"""Receivers of webhooks on real sockets: an honest one, and those that mean harm.

A receiver is a function over the two streams of one connection; `Receiver` listens, counts the
connections and whole requests that reach it, and closes everything at the end.
"""

import asyncio
import gzip
import socket
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType

import msgspec

HEAD_END = b"\r\n\r\n"
DRIP_S = 0.01


class Hit(msgspec.Struct):
    """A complete request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    head: bytes


class Receiver:
    """A listening socket whose connections are served by `behave`."""

    def __init__(self, behave: "Behaviour", host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._behave = behave
        self.host = host
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.hits: list[Hit] = []
        self.sent_bytes = 0
        self.port = 0

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host}:{self.port}/hook"

    async def __aenter__(self) -> "Receiver":
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()
        for _ in range(5):  # TLS closes its sockets in a few turns of the loop, which must see them
            await asyncio.sleep(0)

    async def read_request(self, reader: asyncio.StreamReader) -> Hit:
        """The next whole request, counted."""
        head = await reader.readuntil(HEAD_END)
        line, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines if one)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        hit = Hit(method, path, headers, body, head)
        self.hits.append(hit)
        return hit

    async def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send, and count what the other side took."""
        if writer.is_closing():  # a write would say nothing of it, and what sends for ever would spin
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0)  # with TLS drain need not wait, nor hear that the other side has gone
        self.sent_bytes += len(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            await self._behave(self, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the sender has gone, which is its right, or speaks something else, such as TLS
        except RuntimeError:
            if not writer.is_closing():  # uvloop says so of a connection that has been reset
                raise
        finally:
            self._writers.discard(writer)
            writer.transport.abort() if writer.is_closing() else writer.close()


Behaviour = Callable[[Receiver, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answering(answer: bytes, *, then_close: bool = False) -> Behaviour:
    """Every request gets these bytes; the connection is kept, or closed after the first."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            hit = await receiver.read_request(reader)
            await receiver.write(writer, _for(hit, answer))
            if then_close:
                return

    return behave


def respond(status: str = "200 OK", body: bytes = b"ok", *headers: str) -> bytes:
    """A well-formed answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + HEAD_END + body


honest = answering(respond())


async def silent(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the request and says nothing, ever."""
    await receiver.read_request(reader)
    await reader.read()


async def deaf(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Does not even read what it is sent."""
    await writer.wait_closed()


def dripping(prefix: bytes, drop: bytes) -> Behaviour:
    """Begins its answer, then goes on for ever, a few bytes at a time."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        await receiver.write(writer, prefix)
        while True:
            await receiver.write(writer, drop)
            await asyncio.sleep(DRIP_S)

    return behave


def flooding(prefix: bytes, wave: bytes) -> Behaviour:
    """Begins its answer, then sends as fast as it is let, for ever."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        await receiver.write(writer, prefix)
        while True:
            await receiver.write(writer, wave)

    return behave


def resetting(before: bytes) -> Behaviour:
    """Sends the beginning of an answer, then resets the connection."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read_request(reader)
        await receiver.write(writer, before)
        if before:
            await asyncio.sleep(DRIP_S)  # a reset throws away what was not yet read
        _linger_not(writer)
        writer.transport.abort()

    return behave


def knocked(answer: bytes, drop: bytes = b"", *, pause_s: float = DRIP_S, keep: bool = False) -> Behaviour:
    """Answers the first byte, whatever it is; then goes on with `drop` for ever, or is silent, or closes."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await receiver.write(writer, answer)
        while drop:
            await receiver.write(writer, drop)
            await asyncio.sleep(pause_s)
        if keep:
            await reader.read()

    return behave


async def knocked_down(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Resets the connection at the first byte."""
    await reader.read(1)
    _linger_not(writer)
    writer.transport.abort()


def speaking_first(wave: bytes, waves: int = 1) -> Behaviour:
    """Speaks before it is asked, and goes on unasked."""

    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(waves):
            await receiver.write(writer, wave)
        await receiver.read_request(reader)
        await reader.read()

    return behave


async def echoing(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives back all that it was sent, in its body, its headers and the words of its status."""
    while True:
        hit = await receiver.read_request(reader)
        headers = [
            f"{'Set-Cookie' if at % 2 else 'Location'}: {value}" for at, value in enumerate(hit.headers.values())
        ]
        words = " ".join(hit.headers.values())
        await receiver.write(writer, respond(f"200 {words}", hit.head + hit.body, *headers))


async def echoing_badly(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives back all that it was sent where HTTP allows nothing of the kind: parsers quote what they refuse."""
    hit = await receiver.read_request(reader)
    said = "".join(hit.headers.values()).encode()
    at = receiver.connections % 4
    await receiver.write(
        writer,
        (
            said + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX " + said + b" : x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: " + said + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + b"\r\n",
        )[at],
    )


async def dying_keepalive(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers once and keeps the connection; reads the next request on it and dies."""
    hit = await receiver.read_request(reader)
    await receiver.write(writer, _for(hit, respond()))
    await receiver.read_request(reader)


async def slamming(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes each connection as soon as it is made, unread."""
    _linger_not(writer)
    writer.transport.abort()


def gzip_bomb(inflated_bytes: int) -> bytes:
    """A small body that inflates to a large one."""
    return gzip.compress(b"\0" * inflated_bytes)


def _for(hit: Hit, answer: bytes) -> bytes:
    """The answer to a HEAD has no body."""
    return answer.partition(HEAD_END)[0] + HEAD_END if hit.method == "HEAD" else answer


def _linger_not(writer: asyncio.StreamWriter) -> None:
    """Make the close a reset."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
