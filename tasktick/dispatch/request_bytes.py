"""A request as the bytes that go out, all of them in one piece. Pure.

What is the same for every request of a method to a URL is made once and remembered: the URL as it was parsed, the
request line, the `Host`. Nothing is sent that a receiver could read as more than one request: a line break or a NUL in
a header, a length, a host or a coding beside ours.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from yarl import URL

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
_TYPED = frozenset({"POST", "PUT", "PATCH"})


class BadTarget(ValueError):
    """The URL is none that can be called."""


class Unsendable(ValueError):
    """A method or a header that no request can carry."""


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where requests of a method to a URL go, and how each of them begins."""

    key: Key
    url: URL
    method: str
    line: bytes
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
    return Target((parsed.scheme, host, port), parsed, method, line.encode("ascii"), method != "HEAD")


def request_bytes(target: Target, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """All of a request; raises ValueError at what cannot be sent."""
    names, values = zip(*headers, strict=True) if headers else ((), ())
    length = len(body)
    rest = _rest(target.method, names, length > 0)
    told = "".join(values)
    if "\r" in told or "\n" in told or "\0" in told:
        raise Unsendable
    head = "\r\n".join(map(": ".join, headers))
    if length:
        rest = f"{rest}Content-Length: {length}\r\n\r\n"
    return b"".join((target.line, f"{head}{rest}".encode(), body))


@lru_cache(maxsize=SHAPES_MAX)
def _rest(method: str, names: tuple[str, ...], has_body: bool) -> str:
    """What follows the headers of these names, up to the length of a body if there is one."""
    given = {name.lower() for name in names}
    if given & _FRAMING or not all(_NAME.fullmatch(name) for name in names):
        raise Unsendable
    rest = "\r\n" if names else ""
    if "content-type" not in given and (has_body or method in _TYPED):
        rest += "Content-Type: application/octet-stream\r\n"
    if has_body:
        return rest
    return f"{rest}\r\n" if method in _BODILESS else f"{rest}Content-Length: 0\r\n\r\n"
