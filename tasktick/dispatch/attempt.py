"""One attempt: from a claim and its payload to a request, and from its outcome to the task's next state."""

import base64
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from tasktick.dispatch.outcome import Outcome, Request
from tasktick.dispatch.request_headers import Delivery, build
from tasktick.errors import TaskTickError
from tasktick.model.attempt import Answer, End, Failure, conclude, release
from tasktick.model.ids import wire
from tasktick.model.task import Claimed, Payload
from tasktick.model.value import Value

# (tenant, sealed headers) to the headers as they are sent.
Unseal = Callable[[str, Mapping[str, str]], dict[str, str]]


# Told what came of a request.
Done = Callable[[Outcome], None]


class Call(Protocol):
    """One request under way."""

    def cut(self) -> None:
        """End it at once: the connection is aborted with nothing left to be delivered, and nobody is told."""


class AwaitedSender(Protocol):
    """What sends for whoever waits for it: one request out, one outcome back. Cancelling a send cuts it."""

    @property
    def in_flight(self) -> int: ...

    async def send(self, request: Request) -> Outcome: ...

    def sweep(self, monotonic_ms: float) -> int: ...


class Sender(AwaitedSender, Protocol):
    """What sends without a task for each request."""

    @property
    def connecting(self) -> int:
        """Requests that wait for their connection to be begun."""

    def begin(self, request: Request, done: Done) -> Call:
        """Start one request. `done` is called once, by the loop and never before this returns, when it has ended."""


class Start(Value, frozen=True):
    """When an attempt starts, by both clocks, and until when its first byte may leave."""

    now: int
    monotonic_ms: float
    start_by_ms: float


def body_of(payload: Payload) -> bytes:
    """The bytes that are sent, signed and stored: one and the same."""
    target = payload.target
    if target.body_kind == "base64":
        return base64.b64decode(target.body)
    return target.body.encode()


def request_for(claimed: Claimed, payload: Payload, secrets: Sequence[bytes], unseal: Unseal, start: Start) -> Request:
    """The request of this attempt; its deadlines are on the monotonic clock."""
    target = payload.target
    body = body_of(payload)
    own: Mapping[str, str] = target.headers
    if target.sealed_headers:
        own = {**own, **unseal(claimed.tenant, target.sealed_headers)}
    delivery = Delivery(
        task_id=wire("tsk", claimed.id),
        attempt=claimed.attempt,
        max_attempts=claimed.max_attempts,
        scheduled_at=claimed.run_at,
        fence=claimed.fence,
        method=target.method,
        body=body,
        body_kind=target.body_kind,
        headers=tuple(own.items()) if own else (),
        schedule_id=wire("sch", claimed.schedule_id) if claimed.schedule_id is not None else None,
        traceparent=payload.traceparent,
    )
    head, headers = build(delivery, secrets, start.now // 1_000)
    return Request(
        target.method,
        target.url,
        headers,
        body,
        start.monotonic_ms + target.timeout_ms,
        start.start_by_ms,
        head,
    )


def not_made(error: Exception, now_monotonic_ms: float) -> Outcome:
    """The outcome of a request that could not even be made, such as one whose headers do not open."""
    ours = isinstance(error, TaskTickError)
    return Outcome(
        status=None,
        headers=[],
        body=b"",
        truncated=False,
        error_code=error.code if isinstance(error, TaskTickError) else TaskTickError.code,
        error_class="platform",
        detail=str(error) if ours else "The request could not be made; the log says why.",
        byte_left=False,
        started_at_monotonic_ms=now_monotonic_ms,
        duration_ms=0.0,
    )


def end_of(claimed: Claimed, payload: Payload, outcome: Outcome, *, started_at: int, node: str, random: Random) -> End:
    """What an outcome means for the task; a start that came too late is no attempt at all."""
    completed_at = started_at + max(0, round(outcome.duration_ms))
    if outcome.error_code == "too_late" and not outcome.byte_left:
        return release(claimed, node, completed_at, sent=False)
    failure = None
    if outcome.error_code is not None and outcome.error_class is not None:
        failure = Failure(outcome.error_class, outcome.error_code, outcome.detail)
    answer = Answer(
        started_at=started_at,
        completed_at=completed_at,
        status=outcome.status,
        headers=tuple(outcome.headers),
        body=outcome.body,
        truncated=outcome.truncated,
        failure=failure,
        byte_left=outcome.byte_left,
    )
    return conclude(claimed, payload, answer, node, random)
