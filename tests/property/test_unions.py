"""Recurrence rules over changes of clocks, held to the crons that mean the same, and several rules in one."""

from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.model.schedule import CatchUp, CatchUpMode, Gap, Member, Repeat, Rule
from tasktick.timetable.fires import Cursor, Fire, cursor_at, fires, members, next_after, next_fire
from tasktick.timetable.policy import WALKED_MAX, Backlog, catch_up, due_at, none_runs
from tasktick.timetable.upcoming import count_fires, last_fire, latest_from, walked
from tests.property.timetable_cases import DAY_MS, GAPS, REPEATS, places

SAME = [
    ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "30 2 * * *"),
    ("FREQ=WEEKLY;BYDAY=SU,MO;BYHOUR=1,2,3;BYMINUTE=0,20,40", "0,20,40 1,2,3 * * SUN,MON"),
    ("FREQ=DAILY;BYMONTH=3,4,10,11;BYHOUR=0,1,2,3;BYMINUTE=10", "10 0-3 * 3,4,10,11 *"),
    ("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=2", "0 2 * * SUNL"),
    ("FREQ=HOURLY;BYMINUTE=0,30", "0,30 * * * *"),
    ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=1,2,3", "*/20 1-3 * * *"),
]
WALK_MAX = 40
START_AT = 1_790_000_000_000
numbers = st.integers(0, 2**32)


def _place(random: Random, number: int) -> tuple[str, int]:
    name, changed_at = places()[number % len(places())]
    return name, (1_790_000_000_000 if changed_at is None else changed_at) + random.randrange(-2 * DAY_MS, DAY_MS)


def _union(number: int) -> tuple[Rule, int]:
    """Several rules whose times often come together, and an instant near a change of clocks."""
    random = Random(number)
    name, at = _place(random, number)
    texts = [text for pair in SAME for text in pair]
    chosen: list[Member] = []
    for text in random.sample(texts, random.randint(1, 3)):
        chosen.append(Member(rrule=text) if text.startswith("FREQ") else Member(cron=text))
    for minutes in random.sample([20, 30, 60, 90, 720], random.randint(0, 2)):
        chosen.append(Member(every_ms=minutes * 60_000, anchor_at=random.choice([None, at // 60_000 * 60_000])))
    if random.random() < 0.2:
        end = (random.randrange(-DAY_MS, DAY_MS) + at) // 1_000
        start = f"{1990 + random.randrange(10)}0101T000000"
        until = _stamp(end)
        chosen.append(Member(rrule=f"DTSTART:{start}\nRRULE:FREQ=HOURLY;BYMINUTE=0,30;UNTIL={until}"))
    return Rule(spec=tuple(chosen), timezone=name, gap=random.choice(GAPS), repeat=random.choice(REPEATS)), at


def _stamp(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%dT%H%M%SZ}"


@pytest.mark.slow
@settings(max_examples=300)
@given(numbers, st.sampled_from(SAME), st.sampled_from(GAPS), st.sampled_from(REPEATS))
def test_a_recurrence_rule_fires_as_its_cron_does(number: int, same: tuple[str, str], gap: Gap, repeat: Repeat) -> None:
    name, at = _place(Random(number), number)
    ours = Rule(rrule=same[0], timezone=name, gap=gap, repeat=repeat)
    cron = Rule(cron=same[1], timezone=name, gap=gap, repeat=repeat)
    until = at + 3 * DAY_MS
    assert list(fires(ours, at, until)) == list(fires(cron, at, until))
    assert count_fires(ours, at, until) == count_fires(cron, at, until)


@pytest.mark.slow
@settings(max_examples=300)
@given(numbers)
def test_several_rules_have_the_times_of_each_and_one_fire_for_an_instant(number: int) -> None:
    rule, at = _union(number)
    until = at + 2 * DAY_MS
    expected: Counter[int] = Counter()
    for one in members(rule):
        expected += Counter({fire.nominal_at: fire.collapsed for fire in fires(one, at, until)})
    found = list(fires(rule, at, until))
    assert [(fire.nominal_at, fire.collapsed) for fire in found] == sorted(expected.items())
    assert count_fires(rule, at, until) == len(found)
    assert last_fire(rule, at, until) == (found[-1] if found else None)
    cursor = cursor_at(rule, at)
    for fire in islice(found, WALK_MAX):
        assert next_fire(rule, fire.nominal_at - 1) == fire
        assert next_after(rule, cursor) == fire
        cursor = fire.cursor
    for wanted in (1, 7, 1_000):
        if found:
            assert latest_from(rule, found[0], until, wanted) == found[-wanted:][0]
    if found:
        idle = none_runs(Backlog(rule, found[0], until), 10)
        assert sum(late.times for late in idle) == len(found)
        assert idle[0].fire == found[0]


@pytest.mark.slow
@settings(max_examples=200)
@given(numbers, st.integers(-4, 4))
def test_a_cursor_of_other_zone_data_fires_no_local_time_twice(number: int, hours: int) -> None:
    """Whatever the clock read when the cursor was written, the next fire is the first that has a later reading."""
    rule, at = _union(number)
    here = cursor_at(rule, at)
    cursor = Cursor(at, here.local_ms + hours * 3_600_000)
    expected = [next_after(one, cursor) for one in members(rule)]
    found = next_after(rule, cursor)
    assert (None if found is None else found.nominal_at) == min(
        (one.nominal_at for one in expected if one is not None), default=None
    )
    for one, fire in zip(members(rule), expected, strict=True):
        walked = [
            other for other in fires(one, at, at + 2 * DAY_MS) if one.every_ms or hours == 0 or _past(other, cursor)
        ]
        if walked and hours <= 0:
            assert fire is not None
            assert fire.nominal_at <= walked[0].nominal_at


def _past(fire: Fire, cursor: Cursor) -> bool:
    return fire.local_ms > cursor.local_ms


@pytest.mark.parametrize("mode", ["latest", "earliest", "all", "none"])
def test_a_long_gap_of_several_rules_is_decided_part_by_part(mode: CatchUpMode) -> None:
    """Each part is short to count; no time is lost between them, and none runs that the whole would not have run."""
    rule = Rule(spec=(Member(every_ms=60_000), Member(every_ms=61_000)))
    first, until = next_fire(rule, START_AT), START_AT + 200 * DAY_MS
    assert first is not None
    whole = count_fires(rule, START_AT, until)
    policy, times, parts, ran = CatchUp(mode=mode, max=3), 0, 0, []
    while first is not None and first.nominal_at <= until:
        found = catch_up(policy, Backlog(rule, first, until), until, until, 10)
        last = found[-1]
        last_at = last.fire.nominal_at if last.until_at is None else last.until_at
        assert walked(rule, first.nominal_at, last_at) <= WALKED_MAX
        assert found[0].fire == first
        times, parts = times + sum(one.times for one in found), parts + 1
        ran += [one.fire.nominal_at for one in found if one.runs]
        rows = len(found)
        first = next_fire(rule, last_at)
    assert (times, parts > 20, rows > 3) == (whole, True, True)
    assert len(ran) == {"latest": 1, "earliest": 1, "all": 3, "none": int(last_at == until)}[mode]


@settings(max_examples=200)
@given(numbers, st.integers(0, 30 * DAY_MS))
def test_a_spread_never_reaches_the_next_fire_of_a_union(number: int, jitter_ms: int) -> None:
    """Whichever member that is of, and whatever a calendar would make of it: the next time by the rule bounds it."""
    rule, at = _union(number)
    fire = next_fire(rule, at)
    due_before = at
    for _ in range(WALK_MAX):
        if fire is None:
            return
        due = due_at(rule, "0" * 32, fire.nominal_at, jitter_ms)
        following = next_fire(rule, fire.nominal_at)
        assert max(fire.nominal_at, due_before + 1) <= due <= fire.nominal_at + jitter_ms
        assert following is None or due < following.nominal_at
        due_before, fire = due, following
