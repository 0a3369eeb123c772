"""What came back, and what it means: one verdict for every outcome."""

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from tasktick.model.attempt import Answer, End, Failure, conclude, interrupt, release, retry_after_ms
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import Event, State
from tasktick.model.task import Claimed, Payload, Target

NOW = 1_800_000_000_000
CLAIMED = Claimed(
    id="0" * 32,
    tenant="default",
    queue="default",
    host="h",
    attempt=1,
    fence=NOW,
    claim_id=1,
    payload_version=1,
    run_at=NOW,
    due_at=NOW,
    wake_at=NOW,
    lease_until=NOW + 34_000,
    timeout_ms=30_000,
    max_attempts=5,
    series=1,
    series_base=0,
    uncounted=0,
    interruptions=0,
    claimed_from=int(State.SCHEDULED),
    at_most_once=0,
    keyed=0,
    sla_ms=30_000,
    started_at=None,
    expires_at=None,
    picked_at=NOW,
    epoch=1,
    priority=5,
)
PAYLOAD = Payload(Target("https://h"), RetryPolicy(jitter=0.0))


@pytest.fixture
def far_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own zone is not UTC."""
    monkeypatch.setenv("TZ", "UTC+11")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def concluded(status: int | None = 200, claimed: Claimed | None = None, **fields: Any) -> End:
    failure = None if status is not None else Failure("network", "reset", "reset")
    values = {"started_at": NOW, "completed_at": NOW + 50, "status": status, "failure": failure, **fields}
    return conclude(claimed or CLAIMED, PAYLOAD, Answer(**values), "n", Random(1))


def but(**fields: Any) -> Claimed:
    return msgspec.structs.replace(CLAIMED, **fields)


@pytest.mark.parametrize(
    ("status", "event", "reason"),
    [
        (200, Event.SUCCEED, None),
        (299, Event.SUCCEED, None),
        (302, Event.RETRY_LATER, None),
        (400, Event.DIE, "rejected"),
        (404, Event.DIE, "rejected"),
        (408, Event.RETRY_LATER, None),
        (410, Event.DIE, "rejected"),
        (425, Event.RETRY_LATER, None),
        (429, Event.RETRY_LATER, None),
        (500, Event.RETRY_LATER, None),
        (None, Event.RETRY_LATER, None),
    ],
)
def test_a_status_and_what_follows(status: int | None, event: Event, reason: str | None) -> None:
    end = concluded(status)
    assert (end.event, end.reason) == (event, reason)
    assert (end.due_at is not None) == (event is Event.RETRY_LATER)


def test_the_receiver_may_say_that_it_is_enough() -> None:
    end = concluded(500, headers=(("TaskTick-Control", "No-Retry"),))
    assert (end.event, end.reason) == (Event.DIE, "no_retry")


def test_a_forbidden_address_is_not_tried_again() -> None:
    end = concluded(None, failure=Failure("policy", "forbidden_address", "…"), byte_left=False)
    assert (end.event, end.reason) == (Event.DIE, "forbidden_address")


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"attempt": 4}, False),
        ({"attempt": 5}, True),
        ({"attempt": 6, "uncounted": 2}, False),
        ({"attempt": 7, "uncounted": 2}, True),
        ({"attempt": 14, "uncounted": 2, "series_base": 8}, False),
        ({"attempt": 15, "uncounted": 2, "series_base": 8}, True),
        ({"attempt": 9, "max_attempts": 1}, True),
    ],
)
def test_only_counted_attempts_of_this_series_use_up_the_limit(fields: dict[str, int], last: bool) -> None:
    end = concluded(500, but(**fields))
    assert (end.event is Event.DIE) == last
    assert (end.reason == "attempts_exhausted") == last


def test_the_backoff_counts_failures_alone() -> None:
    assert concluded(500, but(attempt=14, uncounted=4, series_base=8)).due_at == NOW + 50 + 10_000 * 3


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("120", 120_000),
        (" 5 ", 5_000),
        ("0", 0),
        ("00000000000007", 7_000),
        ("9" * 400, 10**12),
        ("Fri, 15 Jan 2027 08:00:10 GMT", 10_000),
        ("Fri, 15 Jan 2027 08:00:10 -0000", 10_000),
        ("Fri, 15 Jan 2027 08:00:10", 10_000),
        ("Fri, 15 Jan 2027 09:00:10 +0100", 10_000),
        ("Fri, 15 Jan 2016 08:00:10 GMT", 0),
        ("Fri, 15 Jan 99999 08:00:10 GMT", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("", None),
    ],
)
@pytest.mark.usefixtures("far_west")
def test_what_retry_after_asks(value: str, wanted: int | None) -> None:
    answer = Answer(NOW, NOW, 429, headers=(("Retry-After", value),))
    assert retry_after_ms(answer) == wanted


@pytest.mark.parametrize(("status", "obeyed"), [(429, True), (503, True), (500, False), (408, False)])
def test_retry_after_is_obeyed_where_it_belongs(status: int, obeyed: bool) -> None:
    end = concluded(status, headers=(("retry-after", "77"),))
    assert end.due_at == NOW + 50 + (77_000 if obeyed else 10_000)


def test_retry_after_is_obeyed_up_to_the_longest_delay() -> None:
    assert concluded(429, headers=(("retry-after", "999999"),)).due_at == NOW + 50 + 3_600_000


@pytest.mark.parametrize(("late_ms", "met"), [(0, True), (30_000, True), (30_001, False)])
def test_the_first_start_decides_about_the_sla(late_ms: int, met: bool) -> None:
    assert concluded(started_at=NOW + late_ms, completed_at=NOW + late_ms).sla_met is met
    later = but(started_at=NOW + late_ms, attempt=2)
    assert concluded(started_at=NOW + 10**9, completed_at=NOW + 10**9, claimed=later).sla_met is met
    assert interrupt(later, PAYLOAD.retry, "n", NOW, Random(1), lost=True).sla_met is met
    assert release(later, "n", NOW, sent=True).sla_met is met
    assert release(CLAIMED, "n", NOW, sent=False).sla_met is None


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", (None, None)),
        (b"text", ("text", "text")),
        ("ünï".encode(), ("ünï", "text")),
        (b"\xff\xfe", ("//4=", "base64")),
        (b"a\0b", ("YQBi", "base64")),
    ],
)
def test_a_body_is_kept_as_text_or_base64(body: bytes, kept: tuple[str | None, str | None]) -> None:
    row = concluded(body=body).attempt
    assert row is not None
    assert (row.response_body, row.response_encoding) == kept


def test_an_interruption_goes_again_at_once_and_then_by_its_backoff() -> None:
    waits = []
    for interruptions in range(4):
        end = interrupt(but(interruptions=interruptions), PAYLOAD.retry, "n", NOW, Random(1), lost=False)
        assert end.due_at is not None
        waits.append(end.due_at - NOW)
    assert waits == [0, 10_000, 30_000, 90_000]


@pytest.mark.parametrize(
    ("once", "lost", "state"), [(0, True, "lease_lost"), (0, False, "interrupted"), (1, True, "unknown")]
)
def test_an_interruption_says_what_it_was(once: int, lost: bool, state: str) -> None:
    row = interrupt(but(at_most_once=once), PAYLOAD.retry, "n", NOW, Random(1), lost=lost).attempt
    assert row is not None
    assert row.state == state


def test_an_unclaim_leaves_no_attempt() -> None:
    end = release(but(attempt=3), "n", NOW, sent=False)
    assert (end.attempt, end.attempt_number, end.uncounted) == (None, 2, 0)
    cut = release(but(attempt=3), "n", NOW, sent=True)
    assert (cut.attempt_number, cut.uncounted) == (3, 1)


def test_a_retry_is_not_pulled_forward_by_an_expiry() -> None:
    """What would begin too late expires at its time; it does not begin sooner than its backoff."""
    end = concluded(503, but(expires_at=NOW + 51))

    assert end.event is Event.RETRY_LATER
    assert end.due_at == NOW + 50 + PAYLOAD.retry.initial_ms
