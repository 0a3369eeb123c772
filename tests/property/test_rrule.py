"""Recurrence rules against dateutil, which walks them one by one from their start."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from dateutil.rrule import rrulestr  # type: ignore[import-untyped] # a tool of tests alone
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.errors import Refused
from tasktick.timetable import rrule
from tasktick.timetable.rrule_grammar import FREQUENCIES, RANGES, WEEKDAYS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COARSE = FREQUENCIES[:4]
# dateutil looks at one step after the other, so what it is asked for must come soon.
WALK_MAX = 12
# It finds a week 53 in January that the year before does not have, so weeks are held to the calendar's below.
MOST = {"BYSETPOS": 8, "BYWEEKNO": 51}
YEAR_HOURS = 366 * 24
HORIZON_HOURS = dict(
    zip(FREQUENCIES, (90 * YEAR_HOURS, 30 * YEAR_HOURS, 9 * YEAR_HOURS, 4 * YEAR_HOURS, 5_000, 300, 6), strict=True)
)

numbers = st.integers(0, 2**32)


def _milliseconds(moment: datetime) -> int:
    return (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def _list(random: Random, name: str) -> str:
    low, high, may_be_negative = RANGES[name]
    high = min(high, MOST.get(name, high))
    chosen = [random.randint(low, high) for _ in range(random.randint(1, 4))]
    signed = [-one if may_be_negative and random.random() < 0.3 else one for one in chosen]
    return f"{name}={','.join(map(str, signed))}"


def _days(random: Random, *, numbered: bool) -> str:
    which = [str(random.choice([1, 2, 3, -1, -2, 5])) if numbered else "" for _ in range(3)]
    return "BYDAY=" + ",".join(one + random.choice(WEEKDAYS) for one in which[: random.randint(1, 3)])


def _written(random: Random) -> str:
    """A rule such as both know: dateutil takes plain and numbered days together for what meets both."""
    frequency = random.choice(FREQUENCIES)
    start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(20 * 366 * 86_400))
    parts = [f"FREQ={frequency}"]
    by_week = frequency == "YEARLY" and random.random() < 0.2
    chances = {"BYMONTH": 0.3, "BYHOUR": 0.4, "BYMINUTE": 0.4, "BYSECOND": 0.3}
    chances["BYMONTHDAY"] = 0.0 if frequency == "WEEKLY" else 0.25
    chances["BYYEARDAY"] = 0.0 if frequency in {"DAILY", "WEEKLY", "MONTHLY"} else 0.15
    chances["BYWEEKNO"] = 1.0 if by_week else 0.0
    parts += [_list(random, name) for name, chance in chances.items() if random.random() < chance]
    if random.random() < 0.4:
        numbered = frequency in {"YEARLY", "MONTHLY"} and not by_week and random.random() < 0.5
        parts.append(_days(random, numbered=numbered))
    if len(parts) > 1 and frequency in COARSE and frequency != "WEEKLY" and random.random() < 0.3:
        parts.append(_list(random, "BYSETPOS"))
    if random.random() < 0.4:
        parts.append(f"INTERVAL={random.choice([1, 2, 3, 5, 7, 13, 40])}")
    if random.random() < 0.3:
        parts.append(f"WKST={random.choice(WEEKDAYS)}")
    until = start + timedelta(hours=random.uniform(0.1, 1) * HORIZON_HOURS[frequency])
    parts.append(f"UNTIL={until:%Y%m%dT%H%M%S}")
    return f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{';'.join(parts)}"


def _theirs(text: str) -> list[datetime]:
    try:
        walked: Iterable[datetime] = rrulestr(text)
    except ValueError:  # it finds at once that the grid meets no time
        return []
    return list(islice(walked, WALK_MAX))


@pytest.mark.slow
@settings(max_examples=150)
@given(numbers)
def test_readings_are_those_of_dateutil(number: int) -> None:
    random = Random(number)
    text = _written(random)
    try:
        rule = rrule.parse(text, "UTC")
    except Refused:  # it never fires: dateutil would walk to the end of the calendar to say so
        return
    expected = _theirs(text)
    at = -(10**15)
    for moment in expected:
        found = rule.next_local(at)
        assert found == _milliseconds(moment), text
        at = found + 1
    if len(expected) < WALK_MAX:
        assert rule.next_local(at) is None
    assert rule.count(-(10**13), at) == len(expected), text
    if expected and len(expected) == WALK_MAX:
        counted = rrule.parse(text.partition(";UNTIL=")[0] + ";COUNT=5", "UTC")
        assert counted.last_s == _milliseconds(expected[4]) // 1_000, text


@given(numbers, st.integers(1, 3))
@settings(max_examples=60)
def test_a_step_does_not_depend_on_the_steps_before(number: int, earlier_s: int) -> None:
    random = Random(number)
    try:
        rule = rrule.parse(_written(random), "UTC")
    except Refused:
        return
    at = rule.start_s * 1_000
    for _ in range(3):
        found = rule.next_local(at)
        if found is None:
            return
        assert rule.next_local(max(at, found - earlier_s * 1_000)) == found
        assert rule.next_local(found) == found
        at = found + 1


def test_weeks_are_those_of_the_calendar() -> None:
    for number in (1, 26, 52, 53):
        rule = rrule.parse(f"FREQ=YEARLY;BYWEEKNO={number};BYDAY=MO,SU", "UTC")
        at = 0
        for _ in range(60):
            at = rule.next_local(at) or 0
            week = (EPOCH + timedelta(milliseconds=at)).isocalendar()
            assert (week.week, week.weekday in {1, 7}) == (number, True)
            at += 1
