"""A request as the bytes that go out, all of them in one piece. Pure.

What is the same for every request of a method to a URL is made once and remembered: the URL as it was parsed, the
request line, the `Host`. Nothing is sent that a receiver could read as more than one request: a line break or a NUL in
a header, a length, a host or a coding beside ours.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from yarl import URL

from tasktick.dispatch.outcome import Request
from tasktick.model.value import Value

TARGETS_MAX = 4_096
SHAPES_MAX = 1_024

Key = tuple[str, str, int]

_METHOD = re.compile(r"[A-Z]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_IN_THE_LINE = re.compile(r"[\x21-\x7e]+")
# Ours alone: what frames a request, and where it goes.
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)
# Without a body they have no length either.
_BODILESS = frozenset({"GET", "HEAD"})


class BadTarget(ValueError):
    """The URL is none that can be called."""


class Unsendable(ValueError):
    """A method or a header that no request can carry."""


class Target(Value, frozen=True):
    """Where requests of a method to a URL go, and how each of them begins."""

    key: Key
    url: URL
    method: str
    line: bytes
    bodiless: bytes
    """How a request without a body ends."""
    has_body: bool
    """Whether an answer may have one."""


@lru_cache(maxsize=TARGETS_MAX)
def target_of(method: str, url: str) -> Target:
    """The target; raises BadTarget and Unsendable."""
    if _METHOD.fullmatch(method) is None:
        raise Unsendable
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError:
        raise BadTarget from None
    if parsed.scheme not in {"http", "https"} or not host or port is None:
        raise BadTarget
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise BadTarget
    path, at = parsed.raw_path_qs, parsed.host_port_subcomponent or ""
    if _IN_THE_LINE.fullmatch(path) is None or _IN_THE_LINE.fullmatch(at) is None:
        raise BadTarget
    line = f"{method} {path} HTTP/1.1\r\nHost: {at}\r\n"
    bodiless = b"\r\n" if method in _BODILESS else b"Content-Length: 0\r\n\r\n"
    return Target((parsed.scheme, host, port), parsed, method, line.encode("ascii"), bodiless, method != "HEAD")


def request_bytes(target: Target, request: Request) -> bytes:
    """All of a request; raises ValueError at what cannot be sent."""
    head, body = request.head, request.body
    if request.headers:
        head += _lines(request.headers)
    if body:
        return b"".join((target.line, head.encode(), b"Content-Length: %d\r\n\r\n" % len(body), body))
    return b"".join((target.line, head.encode(), target.bodiless))


def _lines(headers: Sequence[tuple[str, str]]) -> str:
    """These headers as they go out, if they can."""
    names, values = zip(*headers, strict=True)
    _check_names(names)
    told = "".join(values)
    if "\r" in told or "\n" in told or "\0" in told:
        raise Unsendable
    return "\r\n".join(map(": ".join, headers)) + "\r\n"


@lru_cache(maxsize=SHAPES_MAX)
def _check_names(names: tuple[str, ...]) -> None:
    if not all(_NAME.fullmatch(name) for name in names) or not _FRAMING.isdisjoint(name.lower() for name in names):
        raise Unsendable
