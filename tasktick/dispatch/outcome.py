"""A request as it goes out, and what came of it: values between the dispatcher and the sender."""

from collections.abc import Sequence
from typing import Literal

import msgspec

ErrorClass = Literal["receiver", "network", "policy", "platform"]

NEVER_MS = float("inf")


class Request(msgspec.Struct, frozen=True):
    """One HTTP request. Deadlines are on the monotonic clock.

    `head` is the first of its headers, as they go out: whole lines, by whoever makes a request and knows all of what is
    in them. `headers` follow, and are looked at before they are sent.

    `deadline_ms` ends it whatever the receiver does. Past `start_by_ms` no first byte leaves any more:
    a send permitted by a claim is permitted for its start delay only.
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    deadline_ms: float
    start_by_ms: float = NEVER_MS
    head: str = ""

    @property
    def all_headers(self) -> list[tuple[str, str]]:
        """Those of the head, and those that follow."""
        lines = (line.partition(": ") for line in self.head.split("\r\n") if line)
        return [*((name, value) for name, _, value in lines), *self.headers]


class Outcome(msgspec.Struct, frozen=True):
    """What came of a request.

    With a complete status and headers there is an answer, however its body ended (`truncated`). An
    `error_code` says that it cannot count as success whatever its status; which statuses do is not
    decided here. `byte_left` is false only where nothing of the request can have reached anybody.
    """

    status: int | None
    headers: list[tuple[str, str]]
    body: bytes
    truncated: bool
    error_code: str | None
    error_class: ErrorClass | None
    detail: str
    byte_left: bool
    started_at_monotonic_ms: float
    duration_ms: float


class Failure(msgspec.Struct, frozen=True):
    """Why a request has no answer that could count."""

    code: str
    error_class: ErrorClass
    detail: str


FORBIDDEN_ADDRESS = Failure("forbidden_address", "policy", "The target's address is one that tasks may not call.")
BAD_TARGET = Failure("bad_target", "policy", "The target's URL cannot be called.")
CONNECT_FAILED = Failure("connect_failed", "network", "The connection could not be made.")
DNS_FAILED = Failure("dns_failed", "network", "The target's name could not be resolved.")
TLS_FAILED = Failure("tls_failed", "network", "The TLS connection could not be made.")
CONNECT_TIMEOUT = Failure("connect_timeout", "network", "No connection was made in time.")
RESET = Failure("reset", "network", "The connection ended before the answer was complete.")
TIMEOUT = Failure("timeout", "receiver", "The receiver did not answer in time.")
BAD_RESPONSE = Failure("bad_response", "receiver", "The answer is not HTTP as it should be.")
HEADERS_TOO_LARGE = Failure("headers_too_large", "receiver", "The answer's headers are too large.")
REDIRECT = Failure("redirect", "receiver", "The receiver answered with a redirect; redirects are not followed.")
TOO_LATE = Failure("too_late", "platform", "The time to start this attempt had passed.")
INTERNAL = Failure("internal", "platform", "The request could not be made.")
