"""The tasks that a bench makes: the same for the daemon and for its limits."""

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

BODY_BYTES = 256
# Far enough that nothing of it fires while something is measured.
NEXT_YEAR_MS = 365 * 86_400_000


def body_of(number: int) -> bytes:
    """What a receiver gets: 256 bytes of JSON."""
    head = f'{{"number":{number},"text":"'
    return (head + "x" * (BODY_BYTES - len(head) - 2) + '"}').encode()


def instant(at_ms: int) -> str:
    """An instant as the API takes it."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def task(url: str, at_ms: int, number: int) -> dict[str, Any]:
    """A task as the API takes it."""
    return {
        "name": "bench",
        "run_at": instant(at_ms),
        "target": {"url": url, "body": msgspec.Raw(body_of(number))},
    }
