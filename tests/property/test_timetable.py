"""The timetable against two oracles: the rule stated plainly, and croniter where the two mean the same."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.model.schedule import Rule
from tasktick.timetable.cron import parse
from tasktick.timetable.fires import cursor_at, fires, next_after, next_fire
from tasktick.timetable.upcoming import count_fires, last_fire
from tests.property.timetable_cases import Case, case, mismatch, mismatch_of_all, places

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

numbers = st.integers(0, 2**32)


@pytest.mark.slow
def test_the_places_are_all_zones_and_all_their_changes() -> None:
    assert len({name for name, _ in places()}) > 590
    # Berlin changes its offset twice a year, Tokyo never.
    assert sum(name == "Europe/Berlin" for name, _ in places()) == 28
    assert ("Asia/Tokyo", None) in places()


@pytest.mark.slow
@settings(max_examples=1_000)
@given(numbers)
def test_the_next_fire_is_that_of_the_oracle(number: int) -> None:
    assert mismatch(case(1, number)) is None


@pytest.mark.slow
@settings(max_examples=100)
@given(numbers)
def test_all_fires_of_some_hours_are_those_of_the_oracle(number: int) -> None:
    assert mismatch_of_all(case(2, number)) is None


@pytest.mark.slow
@settings(max_examples=200)
@given(numbers, st.integers(0, 400 * 24 * HOUR_MS))
def test_counting_halving_and_cursors_agree_with_walking(number: int, span_ms: int) -> None:
    subject = case(3, number)
    walked = []
    for fire in fires(subject.rule, subject.at, subject.at + span_ms):
        walked.append(fire)
        if len(walked) == 50:
            break
    until = walked[-1].nominal_at if len(walked) == 50 else subject.at + span_ms
    assert count_fires(subject.rule, subject.at, until) == len(walked)
    assert last_fire(subject.rule, subject.at, until) == (walked[-1] if walked else None)
    cursor = cursor_at(subject.rule, subject.at)
    for fire in walked:
        found = next_after(subject.rule, cursor)
        assert found == fire
        cursor = fire.cursor


@given(numbers, st.integers(0, 30 * 24 * HOUR_MS))
@settings(max_examples=200)
@pytest.mark.slow
def test_between_an_instant_and_its_fire_all_instants_have_that_fire(number: int, earlier_ms: int) -> None:
    subject = case(4, number)
    fire = next_fire(subject.rule, subject.at)
    assert fire is not None
    assert fire.nominal_at > subject.at
    inside = max(subject.at, fire.nominal_at - 1 - earlier_ms)
    assert next_fire(subject.rule, inside) == fire


def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixed time that follows the clock, or a wildcard that does not, differs from the oracle somewhere."""
    berlin = Rule(cron="30 2 * * *", timezone="Europe/Berlin")
    in_first_pass = 1_792_888_200_000
    subject = Case(berlin, in_first_pass)
    assert mismatch(subject) is None
    monkeypatch.setattr(parse(berlin.cron or ""), "is_wildcard", True)
    assert mismatch(subject) is not None


def _plain(random: Random) -> str:
    """An expression that croniter reads as it is meant here."""

    def field(low: int, high: int) -> str:
        kind = random.random()
        if kind < 0.3:
            return "*"
        if kind < 0.45:
            return f"*/{random.randint(1, (high - low + 1) // 2)}"
        if kind < 0.8:
            return ",".join(str(random.randint(low, high)) for _ in range(random.randint(1, 3)))
        first = random.randint(low, high - 1)
        return f"{first}-{random.randint(first + 1, high)}{random.choice(['', '/2', '/3'])}"

    day = random.choice([field(1, 28), "L", f"{random.randint(1, 28)}W"])
    weekday = random.choice(["*", "*", field(0, 6), f"{random.randint(0, 6)}#{random.randint(1, 4)}", "L5", "SAT-SUN"])
    if weekday != "*" and (day.endswith(("L", "W")) or "#" in weekday or "L" in weekday):
        # Of either of two day fields it makes both where one of them is such a day.
        day = "*"
    return f"{field(0, 59)} {field(0, 23)} {day} {random.choice(['*', '*', field(1, 12)])} {weekday}"


@pytest.mark.slow
def test_stepping_over_local_time_is_that_of_croniter(record_property: Any) -> None:
    random = Random(5)
    compared = 0
    for _ in range(1_000):
        text = _plain(random)
        at = EPOCH + timedelta(minutes=random.randrange(28_000_000, 35_000_000))
        theirs = croniter(text, at, ret_type=datetime, implement_cron_bug=True)
        ours = parse(text)
        for _ in range(3):
            expected: datetime = theirs.get_next(datetime)
            at_ms = (at - EPOCH) // timedelta(milliseconds=1)
            found = ours.next_local(at_ms + 1)
            assert found is not None
            assert EPOCH + timedelta(milliseconds=found) == expected, (text, at)
            at = expected
            compared += 1
    record_property("compared", compared)
