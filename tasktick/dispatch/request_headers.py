"""The headers of a request: what a caller may set, which of them are secret, and what we add. Pure.

What the HTTP machinery must own (`Host`, lengths, `Connection` and the like) and what a receiver must
be able to trust (`webhook-*`, `TaskTick-*`) no caller may set. Anything else that a caller sets stands
in place of ours: an `Idempotency-Key` of its own, a content type, a `User-Agent`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Literal

from tasktick import __version__
from tasktick.dispatch.signing import sign
from tasktick.model.value import Value

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
HEADERS_MAX = 50
HEADER_BYTES_MAX = 8_192
SENT_AT_CACHE_MAX = 1_024

Fault = tuple[str, str]
Header = tuple[str, str]
Pairs = Iterable[Header]

_FORBIDDEN_NAMES = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)
_FORBIDDEN_PREFIXES = ("proxy-", "webhook-", "tasktick-")
_SENSITIVE_NAMES = frozenset({"authorization", "cookie", "apikey", "key", "password", "secret", "token"})
_SENSITIVE_ENDINGS = ("-key", "-token", "-secret", "-password")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NEITHER_LETTER_NOR_DIGIT = re.compile(r"[^0-9a-z]")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
# `Accept-Encoding` asks for bytes as they are, since a compressed answer is never inflated.
_ANY_BODY = (("User-Agent", f"TaskTick/{__version__}"), ("Accept", "*/*"), ("Accept-Encoding", "identity"))
_BYTES = "application/octet-stream"
_TYPES: dict[str | None, str] = {"json": "application/json", "text": "text/plain; charset=utf-8", "base64": _BYTES}
# Without a body they have a type all the same.
_TYPED = frozenset({"POST", "PUT", "PATCH"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Delivery(Value, frozen=True):
    """What a receiver is told about the attempt. Ids are as clients see them (`tsk_…`, `sch_…`)."""

    task_id: str
    attempt: int
    max_attempts: int
    scheduled_at: int
    fence: int
    method: str = "POST"
    body: bytes = b""
    body_kind: Literal["json", "text", "base64"] | None = None
    headers: tuple[Header, ...] = ()
    schedule_id: str | None = None
    traceparent: str | None = None


def method_fault(method: str, pointer: str = "/target/method") -> Fault | None:
    """What is wrong with a method, if anything."""
    if method in METHODS:
        return None
    return pointer, f"The method must be one of {', '.join(sorted(METHODS))}."


def header_faults(headers: Mapping[str, str] | Pairs, pointer: str = "/target/headers") -> list[Fault]:
    """What is wrong with a caller's headers, each fault with a JSON pointer. Values are never quoted."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if len(pairs) > HEADERS_MAX:
        return [(pointer, f"A request has at most {HEADERS_MAX} headers of its own, not {len(pairs)}.")]
    faults: list[Fault] = []
    seen: set[str] = set()
    for name, value in pairs:
        detail = _name_fault(name) or _value_fault(value)
        if detail is None and name.lower() in seen:
            detail = "The header is given twice."
        seen.add(name.lower())
        if detail is not None:
            faults.append((f"{pointer}/{_escaped(name)}", detail))
    if sum(_wire_bytes(name) + _wire_bytes(value) + len(": \r\n") for name, value in pairs) > HEADER_BYTES_MAX:
        faults.append((pointer, f"The headers come to more than {HEADER_BYTES_MAX} bytes."))
    return faults


def is_sensitive(name: str, extra_names: Collection[str] = ()) -> bool:
    """Whether a header's value is a secret: by its name, or because the task names it."""
    name = name.lower().replace("_", "-")
    if name in _SENSITIVE_NAMES or name.endswith(_SENSITIVE_ENDINGS):
        return True
    return any(name == extra.lower().replace("_", "-") for extra in extra_names)


def build(delivery: Delivery, secrets: Sequence[bytes], timestamp_s: int) -> tuple[str, Sequence[Header]]:
    """The headers of one attempt, signed over the very bytes that are sent.

    What we say ourselves is text, as it goes out: nothing in it is anybody else's. What holds something of a caller's
    follows as pairs, for the sender to look at.
    """
    task_id, scheduled_at = delivery.task_id, _rfc3339(delivery.scheduled_at)
    head = (
        f"webhook-id: {task_id}\r\nwebhook-timestamp: {timestamp_s}\r\n"
        f"webhook-signature: {sign(secrets, task_id, timestamp_s, delivery.body)}\r\n"
        f"TaskTick-Attempt: {delivery.attempt}\r\nTaskTick-Max-Attempts: {delivery.max_attempts}\r\n"
        f"TaskTick-Scheduled-At: {scheduled_at}\r\nTaskTick-Fence: {delivery.fence}\r\n"
    )
    if delivery.schedule_id is not None:
        head += f"TaskTick-Schedule: {delivery.schedule_id}\r\n"
    ours = _replaceable(delivery.body_kind, delivery.method)
    given = delivery.headers
    if delivery.traceparent is not None:
        given = (("traceparent", delivery.traceparent), *given)
    if not given:
        return f"{head}Idempotency-Key: {task_id}\r\n{ours.text}", ()
    own = {name.lower() for name, _ in delivery.headers}
    pairs = (("Idempotency-Key", task_id), *ours.pairs, *given[: len(given) - len(delivery.headers)])
    return head, [*(pair for pair in pairs if pair[0].lower() not in own), *delivery.headers]


class _Replaceable(Value, frozen=True):
    """What a caller may set in place of ours, as pairs and as it goes out."""

    pairs: tuple[Header, ...]
    text: str


@cache
def _replaceable(body_kind: str | None, method: str) -> _Replaceable:
    kind = _TYPES.get(body_kind, _BYTES if method in _TYPED else None)
    pairs = _ANY_BODY if kind is None else (*_ANY_BODY, ("Content-Type", kind))
    return _Replaceable(pairs, "".join(f"{name}: {value}\r\n" for name, value in pairs))


def _name_fault(name: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        return "That is no header name."
    # A receiver behind CGI or WSGI sees TaskTick_Fence and TaskTick-Fence as one: whoever may not set one, not both.
    lower = _NEITHER_LETTER_NOR_DIGIT.sub("-", name.lower())
    if lower in _FORBIDDEN_NAMES or lower.startswith(_FORBIDDEN_PREFIXES):
        return "This header is set by the scheduler, never by a task."
    return None


def _value_fault(value: str) -> str | None:
    if _UNSENDABLE.search(value) is not None:
        return "A header's value has no line breaks or other control characters."
    return None


def _wire_bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _escaped(name: str) -> str:
    """A name as a token of a JSON pointer, bounded and printable."""
    name = name.replace("~", "~0").replace("/", "~1")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name[:100])


@lru_cache(maxsize=SENT_AT_CACHE_MAX)
def _rfc3339(instant_ms: int) -> str:
    """An instant as clients read it. A burst shares its instant, hence the cache."""
    instant = _EPOCH + timedelta(milliseconds=instant_ms)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
