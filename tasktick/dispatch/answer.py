"""What an answer comes to: which statuses count for nothing, which of its headers are kept, and the outcome. Pure."""

from collections.abc import Iterable
from functools import lru_cache

from aiohttp import hdrs

from tasktick.dispatch.bounds import KEPT_HEADER_CHARS_MAX, KEPT_HEADERS_MAX
from tasktick.dispatch.outcome import BAD_RESPONSE, REDIRECT, Failure, Outcome

REMEMBERED_MAX = 4_096
# What is longer is nobody's habit, and too much to remember.
SHORT_BYTES = 128

# A receiver may write a name in any case; the well-known ones are kept as everybody writes them.
_WELL_KNOWN = {one.lower(): str(one) for one in vars(hdrs).values() if isinstance(one, type(hdrs.HOST))}


def fault_of_status(status: int) -> Failure | None:
    """Why an answer of this status cannot count, whatever was expected."""
    if 200 <= status < 300 or 400 <= status < 600:
        return None
    return REDIRECT if 300 <= status < 400 else BAD_RESPONSE


def kept(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first headers, up to a number and a size, in text that any store takes."""
    found: list[tuple[str, str]] = []
    left = KEPT_HEADER_CHARS_MAX
    for one in headers:
        name, value = one
        left -= len(name) + len(value)
        if left < 0 or len(found) == KEPT_HEADERS_MAX:
            break
        found.append(one if value.isprintable() else (name, _printable(value)))
    return found


def kept_of_raw(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The same, of headers as they came."""
    return kept([_text_of(*one) if len(one[1]) <= SHORT_BYTES else _text(*one) for one in headers])


def outcome(
    failure: Failure | None,
    started_ms: float,
    now_ms: float,
    *,
    status: int | None = None,
    headers: list[tuple[str, str]] | None = None,
    body: bytes = b"",
    truncated: bool = False,
    byte_left: bool = False,
) -> Outcome:
    """What came of a request. Complete headers are an answer, whatever became of its body."""
    if status is not None:
        failure = fault_of_status(status)
    return Outcome(
        status=status,
        headers=headers or [],
        body=body,
        truncated=truncated,
        error_code=failure.code if failure is not None else None,
        error_class=failure.error_class if failure is not None else None,
        detail=failure.detail if failure is not None else "",
        byte_left=byte_left,
        started_at_monotonic_ms=started_ms,
        duration_ms=now_ms - started_ms,
    )


def _text(name: bytes, value: bytes) -> tuple[str, str]:
    known = name.decode("utf-8", "surrogateescape")
    return _WELL_KNOWN.get(known.lower(), known), value.rstrip(b" \t").decode("utf-8", "surrogateescape")


# A receiver says nearly the same each time.
_text_of = lru_cache(maxsize=REMEMBERED_MAX)(_text)


def _printable(text: str) -> str:
    """The text without control characters and lone surrogates."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
