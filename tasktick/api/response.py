"""An answer on its way out: head and body in one piece, written at once.

aiohttp's own response is made for answers that grow: it has its headers in a dictionary that takes any case, asks
several coroutines and signals, and encodes the head at the end. That is a quarter of what a small answer costs. This
one is only what aiohttp's protocol asks of a response. What goes on for long is a response of aiohttp's (`streaming`).
"""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_request import BaseRequest

from tasktick.api.call import Reply

# What every answer says, beside its own id.
COMMON_FIELDS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "TaskTick"}
_COMMON_LINES = "".join(f"{name}: {value}\r\n" for name, value in COMMON_FIELDS.items())
_NOTHING: Mapping[str, str] = {}
PHRASES = {int(status): status.phrase for status in HTTPStatus}
# These have no body, and say nothing about one.
BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Response:
    """A reply, as aiohttp sends it, with what it is told to say beside; the id is in characters of a header."""

    __slots__ = ("_reply", "_request_id", "_told", "keep_alive")

    def __init__(self, reply: Reply, request_id: str, told: Mapping[str, str] = _NOTHING) -> None:
        self._reply = reply
        self._request_id = request_id
        self._told = told
        self.keep_alive: bool | None = None

    def force_close(self) -> None:
        """Let this be the last answer on its connection."""
        self.keep_alive = False

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter:
        """Write all of it."""
        if self.keep_alive is None:
            self.keep_alive = request.keep_alive
        writer = request.writer
        version, connection = request.version, ""
        if not self.keep_alive:
            connection = "Connection: close\r\n" if version == HttpVersion11 else ""
        elif version == HttpVersion10:
            connection = "Connection: keep-alive\r\n"
        is_head = request.method == "HEAD"
        await writer.write(whole(self._reply, self._request_id, self._told, version, connection, is_head=is_head))
        if request.protocol.writing_paused:
            await writer.drain()
        return writer

    async def write_eof(self) -> None:
        """All is written."""


def whole(
    reply: Reply,
    request_id: str,
    told: Mapping[str, str] = _NOTHING,
    version: HttpVersion = HttpVersion11,
    connection: str = "",
    *,
    is_head: bool = False,
) -> bytes:
    """The bytes of an answer; as it is asked for, to a client of today whose connection stays."""
    own = _lines({**reply.headers, **told} if told else reply.headers)
    kind = "" if reply.status == HTTPStatus.NO_CONTENT else f"Content-Type: {reply.media_type}\r\n"
    # Nothing is said of what HEAD would have found empty.
    has_length = reply.status not in BODILESS and (reply.body or not is_head)
    length = f"Content-Length: {len(reply.body)}\r\n" if has_length else ""
    head = (
        f"HTTP/{version[0]}.{version[1]} {reply.status} {PHRASES[reply.status]}\r\n"
        f"X-Request-Id: {request_id}\r\n{_COMMON_LINES}{own}{kind}"
        f"{length}Date: {rfc822_formatted_time()}\r\n{connection}\r\n"
    ).encode()
    return head if is_head or reply.status in BODILESS else head + reply.body


def _lines(fields: Mapping[str, str]) -> str:
    """These headers as they are sent."""
    if not fields:
        return ""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    if lines.count("\n") != len(fields) or lines.count("\r") != len(fields) or "\0" in lines:
        raise ValueError("a header's value has a line break")
    return lines
