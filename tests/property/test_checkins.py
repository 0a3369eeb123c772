"""Checks by any sequence of pings and looks, beside a rule that knows nothing of transitions.

The oracle replays the words that were heard and asks, at each instant, what the state is by them alone: no look, no
stored deadline. Looks come when they come; what they tell must be what the oracle's state has changed to, once.
"""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.model.checkin import Away, Check
from tasktick.model.schedule import Rule
from tasktick.scheduler.checkins import Said, Turn, away_of, begun, looked, pinged

NOW = 1_800_000_000_000
PERIOD_MS, GRACE_MS = 60_000, 20_000
STEPS = st.lists(
    st.tuples(st.sampled_from(["success", "fail", "start", "log", "look"]), st.integers(1, 50_000)), max_size=40
)


def check(**fields: Any) -> Check:
    columns: dict[str, Any] = {"period_ms": PERIOD_MS, "grace_ms": GRACE_MS, **fields}
    made = Check(
        id="0" * 32,
        tenant="default",
        version=1,
        created_at=NOW,
        updated_at=NOW,
        ping_hash="",
        ping_sealed="",
        status="new",
        status_at=NOW,
        anchor_at=NOW,
        **columns,
    )
    return begun(made, NOW)


def state_by_words(words: list[tuple[str, int]], now: int, *, ever: bool) -> str:
    """The oracle, of a check by period without a bound on its runs: from the ends that were heard, and the time."""
    ends = [(kind, at) for kind, at in words if kind in {"success", "fail"}]
    kind, last = ends[-1] if ends else ("new", NOW)
    if kind == "fail":
        return "down"
    if now >= last + PERIOD_MS + GRACE_MS:
        return "down"
    if now >= last + PERIOD_MS:
        return "late"
    return "up" if ever and kind == "success" else "new"


@settings(deadline=None)
@given(STEPS)
def test_what_is_told_is_what_the_words_come_to(steps: list[tuple[str, int]]) -> None:
    one, now = check(), NOW
    words: list[tuple[str, int]] = []
    told = "new"
    for kind, after_ms in steps:
        now += after_ms
        due = one.next_at is not None and one.next_at <= now
        before = state_by_words(words, now, ever=True)
        if kind == "look":
            turn = looked(one, now, None)
            assert bool(turn.events) == due, "it is looked at when there is something to see"
        else:
            turn = pinged(one, Said(kind, now), None)  # type: ignore[arg-type] # one of the kinds
            words.append((kind, now))
        for name, data in turn.events:
            assert data["before"] == told, (name, data)
            assert name != "check.up" or told != "up"
            told = data["status"]
        one = turn.check
        assert one.status == told == state_by_words(words, now, ever=True), (kind, before)
        assert not looked(one, now, None).events, "nothing is told twice"
        assert one.next_at is None or one.next_at > now


@settings(deadline=None)
@given(STEPS, st.integers(30_001, 10**9))
def test_nothing_is_down_within_its_grace_from_when_tasktick_came_back(
    steps: list[tuple[str, int]], gone_ms: int
) -> None:
    one, now = check(), NOW
    for kind, after_ms in steps:
        now += after_ms
        said = Said(kind, now) if kind != "look" else None  # type: ignore[arg-type] # one of the kinds
        one = (looked(one, now, None) if said is None else pinged(one, said, None)).check
    seen_at, back_at = now, now + gone_ms
    away = away_of(seen_at, None, back_at)
    assert away == Away(seen_at, back_at)
    before = one.status
    turn = looked(one, back_at, away)
    if before != "down":
        assert turn.check.status != "down"
        assert all("tasktick_was_away" in data for _, data in turn.events)
        later = looked(turn.check, back_at + GRACE_MS - 1, away)
        is_expected_after = one.expected_at is not None and one.expected_at - GRACE_MS >= back_at
        assert is_expected_after or later.check.status != "down"


def test_a_run_that_began_in_time_is_waited_for_and_no_longer() -> None:
    one = check(max_runtime_ms=600_000)
    begins = NOW + PERIOD_MS + GRACE_MS - 1
    one = pinged(one, Said("start", begins), None).check
    assert looked(one, begins + 599_999, None).check.status == "late"
    over = looked(one, begins + 600_000, None)
    assert [(kind, data["reason"]) for kind, data in over.events] == [("check.down", "overran")]
    late = pinged(check(max_runtime_ms=600_000), Said("start", begins + 1), None)
    assert late.check.status == "down", "it began too late"


def test_no_more_runs_are_open_than_are_kept() -> None:
    one = check()
    for place in range(50):
        one = pinged(one, Said("start", NOW + place, f"r{place}"), None).check
    assert (len(one.runs), min(one.runs.values())) == (20, NOW + 30)


@pytest.mark.parametrize(
    ("cron", "at", "expected"),
    [
        # Berlin's clocks go forward at 01:00 UTC: 02:30 is at 03:00, an hour after 01:00 there.
        ("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        # They go back at 01:00 UTC: 02:30 comes twice, and the first counts.
        ("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        # A minute early is for that time, half an hour early is for none.
        ("0 9 * * *", "2026-02-02T07:59:00Z", "2026-02-03T08:00:00Z"),
        ("0 9 * * *", "2026-02-02T07:30:00Z", "2026-02-02T08:00:00Z"),
    ],
)
def test_times_are_those_of_schedules(cron: str, at: str, expected: str) -> None:
    def ms(text: str) -> int:
        return int(datetime.fromisoformat(text).timestamp() * 1_000)

    rule = Rule(cron=cron, timezone="Europe/Berlin")
    one = begun(check(period_ms=None, rule=rule, grace_ms=600_000), ms(at) - 1_000)
    turn: Turn = pinged(one, Said("success", ms(at)), None)
    assert turn.check.expected_at == ms(expected)
