"""An attempt and how it ends: from what came back to what happens to the task.

`conclude` is the one place that turns an outcome into a verdict (succeeded, again later, dead), and
`interrupt` the one that does so for an attempt whose end nobody saw.
"""

from base64 import b64encode
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random
from typing import Literal

import msgspec

from tasktick.model.retry import ASKING_STATUSES, RetryPolicy, asked_delay_ms, is_retryable, is_success
from tasktick.model.state import Event, State, after
from tasktick.model.task import Claimed, Payload

AttemptState = Literal["succeeded", "failed", "interrupted", "lease_lost", "unknown", "released"]
ErrorClass = Literal["receiver", "network", "policy", "platform"]
# Why a task gives up.
DeathReason = Literal[
    "attempts_exhausted", "rejected", "no_retry", "forbidden_address", "bad_target", "poison", "outcome_unknown"
]
# At most once is asked for, and the call may have arrived.
OUTCOME_UNKNOWN = "outcome_unknown"

POISON_PUSH = 10
NO_RETRY_CODES = frozenset({"forbidden_address", "bad_target"})
CONTROL_HEADER = "tasktick-control"
# Whatever is asked is cut to the policy's longest delay; these keep the number itself small.
RETRY_AFTER_CHARS_MAX = 20
RETRY_AFTER_MAX_S = 10**9


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an attempt did not succeed, as clients read it."""

    kind: ErrorClass
    code: str
    detail: str


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came of a send: an answer, or the failure that stood in its way."""

    started_at: int
    completed_at: int
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    truncated: bool = False
    failure: Failure | None = None
    byte_left: bool = True

    def header(self, name: str) -> str | None:
        """The first header of this (lower-case) name."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class AttemptRow(msgspec.Struct, frozen=True, gc=False):
    """One try at a task, appended once, with its outcome."""

    task_id: str
    attempt: int
    series: int
    fence: int
    state: AttemptState
    picked_at: int
    started_at: int | None
    completed_at: int
    node: str
    epoch: int
    status: int | None = None
    error_class: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    response_headers: dict[str, str] | None = None
    response_body: str | None = None
    response_encoding: Literal["text", "base64"] | None = None
    truncated: bool = False


class End(msgspec.Struct, frozen=True, gc=False):
    """The end of an attempt: a transition, guarded by the attempt's own fence and claim."""

    claimed: Claimed
    event: Event
    now: int
    attempt: AttemptRow | None
    due_at: int | None = None
    reason: str | None = None
    interruptions: int = 0
    uncounted: int = 0
    started_at: int | None = None
    sla_met: bool | None = None
    new_fence: int | None = None
    expired_by: int | None = None

    @property
    def state(self) -> State:
        """The state that follows."""
        return after(self.event, State.RUNNING)

    @property
    def attempt_number(self) -> int:
        """The task's count of attempts afterwards; an attempt that never left is not counted."""
        return self.claimed.attempt if self.attempt is not None else self.claimed.attempt - 1


def conclude(claimed: Claimed, payload: Payload, answer: Answer, node: str, random: Random) -> End:
    """What an outcome means for its task."""
    status, failure = answer.status, answer.failure
    if failure is None and status is not None and not is_success(status, payload.target.success):
        failure = Failure("receiver", f"http_{status}", f"The receiver answered {status}.")
    event, reason, due_at = Event.SUCCEED, None, None
    if failure is not None:
        reason = _why_not_again(claimed, answer, failure)
        event = Event.DIE if reason is not None else Event.RETRY_LATER
    if event is Event.RETRY_LATER:
        asked_ms = retry_after_ms(answer) if status in ASKING_STATUSES else None
        due_at = answer.completed_at + asked_delay_ms(payload.retry, claimed.failures_before + 1, asked_ms, random)
    first_started_at = claimed.started_at if claimed.started_at is not None else answer.started_at
    return End(
        claimed,
        event,
        answer.completed_at,
        _row(claimed, node, answer, failure),
        due_at,
        reason,
        # An attempt that got an answer shows that the task does not kill who runs it.
        0 if status is not None else claimed.interruptions,
        claimed.uncounted,
        first_started_at,
        first_started_at <= _begins_by(claimed),
    )


def _sla_met(claimed: Claimed, first_started_at: int | None) -> bool | None:
    """Whether the first attempt started in time; None as long as none is known to have started."""
    return None if first_started_at is None else first_started_at <= _begins_by(claimed)


def _begins_by(claimed: Claimed) -> int:
    """Until when the first attempt of this series is in time.

    From its own time, or from when it was due if that is later: with its jitter, put off, or asked for afterwards.
    """
    if claimed.attempt == claimed.series_base + 1:
        return max(claimed.run_at, claimed.due_at) + claimed.sla_ms
    # It is due again since; of a fire that has not been late it is written when it would have been.
    return claimed.run_at + claimed.sla_ms if claimed.late_at is None else claimed.late_at


def _why_not_again(claimed: Claimed, answer: Answer, failure: Failure) -> str | None:
    """The reason for which a failed attempt is the last one, if it is."""
    if claimed.at_most_once and answer.byte_left and answer.status is None:
        return OUTCOME_UNKNOWN
    if failure.code in NO_RETRY_CODES:
        return failure.code
    if answer.status is not None and not is_retryable(answer.status):
        return "rejected"
    if (answer.header(CONTROL_HEADER) or "").strip().lower() == "no-retry":
        return "no_retry"
    if claimed.failures_before + 1 >= claimed.max_attempts:
        return "attempts_exhausted"
    return None


def retry_after_ms(answer: Answer) -> int | None:
    """`Retry-After` in seconds or as a date, in ms from the answer; nonsense is ignored."""
    value = (answer.header("retry-after") or "").strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:RETRY_AFTER_CHARS_MAX]), RETRY_AFTER_MAX_S) * 1_000
    try:
        date = parsedate_to_datetime(value)
        # A date that does not name its zone is UTC, not whatever this machine's is.
        at = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, round(at * 1_000) - answer.completed_at)


def interrupt(claimed: Claimed, policy: RetryPolicy, node: str, now: int, random: Random, *, lost: bool) -> End:
    """The end of an attempt that nobody saw: its process died, or its lease ran out.

    It goes again at once the first time, then by its backoff; it does not count as an attempt, but ten
    of them in a row are poison. One that must not be doubled is dead, because nobody knows.
    """
    interruptions = claimed.interruptions + 1
    failure = Failure("platform", "interrupted", "The attempt was cut off; its outcome is not known.")
    state: AttemptState = "unknown" if claimed.at_most_once else ("lease_lost" if lost else "interrupted")
    row = AttemptRow(
        task_id=claimed.id,
        attempt=claimed.attempt,
        series=claimed.series,
        fence=claimed.fence,
        state=state,
        picked_at=claimed.picked_at,
        started_at=None,
        completed_at=now,
        node=node,
        epoch=claimed.epoch,
        error_class=failure.kind,
        error_code=failure.code,
        error_detail=failure.detail,
    )
    reason = None
    if claimed.at_most_once:
        reason = OUTCOME_UNKNOWN
    elif interruptions >= POISON_PUSH:
        reason = "poison"
    wait_ms = 0 if interruptions == 1 else asked_delay_ms(policy, interruptions - 1, None, random)
    return End(
        claimed,
        Event.DIE if reason else Event.RETRY_LATER,
        now,
        row,
        due_at=None if reason else now + wait_ms,
        reason=reason,
        interruptions=interruptions,
        uncounted=claimed.uncounted + 1,
        started_at=claimed.started_at,
        sla_met=_sla_met(claimed, claimed.started_at),
        new_fence=max(claimed.fence + 1, now),
        expired_by=now,
    )


def release(claimed: Claimed, node: str, now: int, *, sent: bool) -> End:
    """Give an attempt back: un-claimed if no byte left, `released` if we cut it ourselves. Neither counts."""
    row = None
    if sent:
        row = AttemptRow(
            task_id=claimed.id,
            attempt=claimed.attempt,
            series=claimed.series,
            fence=claimed.fence,
            state="unknown" if claimed.at_most_once else "released",
            picked_at=claimed.picked_at,
            started_at=None,
            completed_at=now,
            node=node,
            epoch=claimed.epoch,
            error_class="platform",
            error_code="released",
            error_detail="The node stopped before the answer came.",
        )
    dead = sent and bool(claimed.at_most_once)
    return End(
        claimed,
        Event.DIE if dead else Event.RELEASE,
        now,
        row,
        due_at=None if dead else claimed.due_at,
        reason=OUTCOME_UNKNOWN if dead else None,
        interruptions=claimed.interruptions,
        uncounted=claimed.uncounted + (1 if sent else 0),
        started_at=claimed.started_at,
        sla_met=_sla_met(claimed, claimed.started_at),
    )


def _row(claimed: Claimed, node: str, answer: Answer, failure: Failure | None) -> AttemptRow:
    body, encoding = _as_text(answer.body) if answer.body else (None, None)
    return AttemptRow(
        claimed.id,
        claimed.attempt,
        claimed.series,
        claimed.fence,
        "succeeded" if failure is None else "failed",
        claimed.picked_at,
        answer.started_at,
        answer.completed_at,
        node,
        claimed.epoch,
        answer.status,
        failure.kind if failure else None,
        failure.code if failure else None,
        failure.detail if failure else None,
        dict(answer.headers) or None,
        body,
        encoding,
        answer.truncated,
    )


def _as_text(body: bytes) -> tuple[str, Literal["text", "base64"]]:
    """A body as the store and the API hold it: text where it is text, else base64."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return text, "text"
    return b64encode(body).decode(), "base64"
