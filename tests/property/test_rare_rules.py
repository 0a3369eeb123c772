"""Rules that match hardly ever: leaping to their next time finds what walking there would."""

from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.errors import Refused
from tasktick.model.schedule import Gap, Repeat, Rule
from tasktick.timetable import cron, rrule, zones
from tasktick.timetable import fires as fires_of
from tasktick.timetable.rrule_days import DayParts, day_number
from tasktick.timetable.zones import Segment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN_MS = 946_684_800_000
# Clocks that change often, by half an hour, by a whole day, or across midnight.
ZONES = ("Africa/Casablanca", "Antarctica/Troll", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago", "UTC")
RARE = (
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;BYHOUR=0;BYMINUTE=30",
    "FREQ=MONTHLY;BYDAY=5SU;BYMONTH=4;BYHOUR=2;BYMINUTE=15",
    "FREQ=YEARLY;BYYEARDAY=-366,300;BYHOUR=23,2;BYMINUTE=45",
    "FREQ=DAILY;INTERVAL=97;BYDAY=SU,SA;BYHOUR=2;BYMINUTE=30",
    "FREQ=HOURLY;INTERVAL=25;BYHOUR=2;BYDAY=SU",
    "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=2;BYMINUTE=30",
    "FREQ=WEEKLY;INTERVAL=3;BYDAY=SU;BYMONTH=3,10,11;BYHOUR=0,2;BYMINUTE=30",
    "FREQ=YEARLY;BYDAY=SU,MO;BYSETPOS=14,-10;BYHOUR=2;BYMINUTE=30",
)
CRONS = ("30 2 29 2 *", "15 2 * 4 SUN#5", "0 0 L 2 */7", "45 1-3 31 10 *", "30 0 * 3,9 SUN", "*/30 2 1 4 *")
WALK_UNTIL_S = 7_000 * 366 * 86_400
numbers = st.integers(0, 2**32)


def _walked(segment: Segment, low: int, wanted: int | None) -> int:
    """From one segment to the next, whatever comes."""
    return segment.end_at


def _rule(random: Random) -> Rule:
    zone = random.choice(ZONES)
    gap: Gap = random.choice(["run_after", "skip"])
    repeat: Repeat = random.choice(["first", "second", "both"])
    if random.random() < 0.6:
        return Rule(rrule=random.choice(RARE), timezone=zone, gap=gap, repeat=repeat)
    return Rule(cron=random.choice(CRONS), timezone=zone, gap=gap, repeat=repeat)


@given(numbers)
@settings(max_examples=120, deadline=None)
def test_what_lies_between_is_left_out_and_nothing_with_it(number: int) -> None:
    random = Random(number)
    rule = _rule(random)
    after = random.randrange(-1_800_000_000_000, 4_000_000_000_000)
    leapt = list(islice(fires_of.fires(rule, after, fires_of.LAST_AT), 6))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fires_of, "_leap_at", _walked)
        walked = list(islice(fires_of.fires(rule, after, fires_of.LAST_AT), 6))
    assert leapt == walked


def test_no_clock_is_off_by_more_than_a_leap_allows() -> None:
    for name in sorted(zones.names())[::7]:
        for at in range(fires_of.FIRST_AT, 4_102_444_800_000, 2 * 366 * 86_400_000):
            assert abs(zones.offset_ms(name, at)) < zones.OFFSET_MAX_MS


@pytest.mark.parametrize(
    "text", [RARE[0], "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=0;BYMINUTE=0;BYSECOND=0"]
)
def test_a_time_in_decades_costs_a_few_looks_at_the_zone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    segment = zones.segment

    def counted(name: str, at: int) -> Segment:
        nonlocal looks
        looks += 1
        return segment(name, at)

    monkeypatch.setattr(zones, "segment", counted)
    found = list(islice(fires_of.fires(Rule(rrule=text, timezone="Europe/Berlin"), BEGIN_MS, fires_of.LAST_AT), 100))
    assert len(found) == 100
    assert found[-1].nominal_at - BEGIN_MS > 2_000 * 365 * 86_400_000
    assert looks < 1_000


# ------------------------------------------------------------------------------- days


def _lets_through(parts: DayParts, day: int) -> bool:
    """Each part that speaks of days, asked about one day."""
    moment = (EPOCH + timedelta(days=day)).date()
    length = monthrange(moment.year, moment.month)[1]
    of_year = day - day_number(moment.year, 1, 1) + 1
    if parts.months and moment.month not in parts.months:
        return False
    if parts.month_days and parts.month_days.isdisjoint((moment.day, moment.day - length - 1)):
        return False
    if parts.year_days and parts.year_days.isdisjoint((of_year, of_year - 366 - isleap(moment.year))):
        return False
    if parts.week_numbers and parts.week_numbers.isdisjoint(_week(day, parts.week_start)):
        return False
    if not parts.weekdays and not parts.nth_weekdays:
        return True
    size, place = (365 + isleap(moment.year), of_year - 1) if parts.is_of_year else (length, moment.day - 1)
    nth = {(moment.weekday(), place // 7 + 1), (moment.weekday(), -((size - 1 - place) // 7 + 1))}
    return moment.weekday() in parts.weekdays or not nth.isdisjoint(parts.nth_weekdays)


def _week(day: int, week_start: int) -> tuple[int, int]:
    """The number of the week of a day, from either end of the year that has most of its days."""
    first = day - (day + 3 - week_start) % 7
    year = (EPOCH + timedelta(days=first + 3)).year
    begins, ends = (
        fourth - (fourth + 3 - week_start) % 7 for fourth in (day_number(year, 1, 4), day_number(year + 1, 1, 4))
    )
    return (first - begins) // 7 + 1, (first - ends) // 7


def _some(random: Random, chance: float, low: int, high: int, *, signed: bool = True) -> frozenset[int]:
    if random.random() > chance:
        return frozenset()
    chosen = {random.randint(low, high) for _ in range(random.randint(1, 4))}
    return frozenset(-one if signed and random.random() < 0.3 else one for one in chosen)


@given(numbers)
@settings(max_examples=60, deadline=None)
def test_the_days_of_a_year_are_those_that_every_part_lets_through(number: int) -> None:
    random = Random(number)
    is_of_year = random.random() < 0.5
    parts = DayParts(
        months=_some(random, 0.4, 1, 12, signed=False),
        month_days=_some(random, 0.3, 1, 31),
        year_days=_some(random, 0.3, 1, 366),
        week_numbers=_some(random, 0.4, 1, 53),
        weekdays=_some(random, 0.4, 0, 6, signed=False),
        nth_weekdays=frozenset(
            (day, random.choice([1, 2, 5, -1, -2] + [53, -53, 30] * is_of_year))
            for day in _some(random, 0.3, 0, 6, signed=False)
        ),
        is_of_year=is_of_year,
        week_start=random.randrange(7),
    )
    first = day_number(random.randrange(1901, 2400), 1, 1) - 3
    expected = [day for day in range(first, first + 740) if _lets_through(parts, day)]
    assert [day for half in range(4) for day in parts.between(first + 185 * half, 185)] == expected
    assert parts.count(first, first + 740) == len(expected)
    assert parts.next_day(first) == (expected[0] if expected else parts.next_day(first + 740))


# ------------------------------------------------------------------------------- grids


def _grid_rule(random: Random) -> str:
    frequency = random.choice(["HOURLY", "MINUTELY", "SECONDLY"])
    start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(86_400 * 400))
    interval = random.choice([1, 7, 25, 59, 601, 1_439, 7_201, 86_399, 86_400, 100_003, 999_983])
    parts = [f"FREQ={frequency};INTERVAL={interval}"]
    for name, most, chance in (("BYHOUR", 23, 0.7), ("BYMINUTE", 59, 0.5), ("BYSECOND", 59, 0.5)):
        if random.random() < chance:
            few = range(random.choice([1, 2, 9]))
            parts.append(f"{name}={','.join(str(random.randint(0, most)) for _ in few)}")
    if random.random() < 0.3:
        parts.append("BYDAY=SA,TU")
    return f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{';'.join(parts)}"


def _met(rule: rrule.Rrule, steps: int) -> tuple[list[int], int]:
    """Readings of the grid's first steps, one after the other, and up to where they go."""
    assert rule.grid is not None
    times, found = rule.grid.times, set()
    at = rule.grid.start_s
    for _ in range(steps):
        for minute in times.minutes if times.unit_s == 3_600 else (at // 60 % 60,):
            for second in times.seconds if times.unit_s > 1 else (at % 60,):
                one = at // 3_600 * 3_600 + minute * 60 + second
                is_in = one // 3_600 % 24 in times.hours and minute in times.minutes and second in times.seconds
                if is_in and one >= rule.start_s and _lets_through(rule.days, one // 86_400):
                    found.add(one)
        at += times.step_s
        if at > WALK_UNTIL_S:
            break
    return sorted(found), at


@given(numbers)
@settings(max_examples=150, deadline=None)
def test_a_grid_is_met_where_walking_along_it_meets_it(number: int) -> None:
    random = Random(number)
    try:
        rule = rrule.parse(_grid_rule(random), "UTC")
    except Refused:
        return
    expected, until = _met(rule, 3_000)
    assert rule.count(0, until * 1_000) == len(expected)
    at = 0
    for reading in expected[:8]:
        found = rule.next_local(at * 1_000)
        assert found == reading * 1_000
        at = reading + 1
    later = rule.next_local(at * 1_000)
    assert len(expected) > 8 or later is None or later >= until * 1_000


def test_what_a_grid_meets_once_in_centuries_is_found() -> None:
    rule = rrule.parse("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=3;BYSECOND=3", "UTC")
    first = rule.next_local(0)
    assert first is not None
    second = rule.next_local(first + 1)
    assert second is not None
    assert second - first == 86_399 * 86_400 * 1_000
    assert first // 1_000 % 86_399 == 0


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "DTSTART:20010101T000000\nRRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=DAILY;BYHOUR=1,2;BYSETPOS=3",
        "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=8",
        "FREQ=MINUTELY;INTERVAL=1440;BYMONTH=2;BYMONTHDAY=30;BYHOUR=0",
        "FREQ=SECONDLY;INTERVAL=3600;BYMINUTE=7",
    ],
)
def test_what_never_fires_is_refused_without_a_long_walk(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    next_day = DayParts.next_day

    def counted(parts: DayParts, day: int) -> int | None:
        nonlocal looks
        looks += 1
        return next_day(parts, day)

    monkeypatch.setattr(DayParts, "next_day", counted)
    with pytest.raises(Refused, match="never fires"):
        rrule.parse(text, "Asia/Kathmandu")
    assert looks < 3_000


@given(numbers)
@settings(max_examples=60, deadline=None)
def test_a_count_ends_with_the_reading_that_walking_ends_with(number: int) -> None:
    random = Random(number)
    text = random.choice(
        [*RARE[2:], "FREQ=DAILY;BYHOUR=1,2,3", "FREQ=SECONDLY;BYSECOND=0,30", "FREQ=HOURLY;INTERVAL=7"]
    )
    start, count = "DTSTART:20240229T020000\nRRULE:", random.randint(1, 40)
    rule = rrule.parse(start + text, "UTC")
    at = 0
    for _ in range(count):
        found = rule.next_local(at)
        assert found is not None
        at = found + 1
    assert rrule.parse(f"{start}{text};COUNT={count}", "UTC").last_s == (at - 1) // 1_000


def test_a_cron_keeps_what_it_knows_of_months_by_their_kinds() -> None:
    rule = cron.parse("30 2 13 * *")
    at = 0
    for _ in range(4_800):
        found = rule.next_local(at)
        assert found is not None
        at = found + 1
    assert (EPOCH + timedelta(milliseconds=at)).year == 2369
    assert len(rule._matching) <= 12 * 7 * 2
