"""Calendars against a plain look at each minute, and backlogs that they cut against the list of all their times."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr  # type: ignore[import-untyped] # a tool of tests alone
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.model.calendar import CalendarUse, Content, Days, Range, Window
from tasktick.model.schedule import CatchUp, CatchUpMode, Rule
from tasktick.timetable import policy
from tasktick.timetable.calendars import DAY_MS, MINUTE_MS, Shade, covers, next_edge, shade_of
from tasktick.timetable.fires import fires, next_fire
from tasktick.timetable.policy import Backlog, all_run, catch_up

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Around the last Sunday of March and of October 2026.
CHANGES = (1_774_746_000_000, 1_792_890_000_000)
ZONES = ("Europe/Berlin", "UTC", "America/New_York", "Australia/Lord_Howe")
RULES = ("FREQ=DAILY;INTERVAL=2", "FREQ=WEEKLY;BYDAY=SA,SU", "FREQ=DAILY;COUNT=4", "FREQ=DAILY;BYHOUR=2,5;BYMINUTE=30")


def _content(random: Random, about: int) -> Content:
    day = about // DAY_MS
    ranges = []
    for _ in range(random.randint(0, 2)):
        begin = (about + random.randint(-3 * DAY_MS, 2 * DAY_MS)) // MINUTE_MS * MINUTE_MS
        rule = random.choice([None, *RULES])
        length = random.choice([30 * MINUTE_MS, 7 * 3_600_000, 30 * 3_600_000])
        left_out = (
            tuple(begin + one * DAY_MS for one in sorted(random.sample(range(5), random.randint(0, 2)))) if rule else ()
        )
        ranges.append(Range(begin, begin + length, random.choice([None, "UTC"]), rule, left_out))
    first = day + random.randint(-3, 3)
    days = (Days(first, first + random.randint(0, 1)),) if random.random() < 0.5 else ()
    window = Window(
        tuple(sorted(random.sample(range(7), random.randint(1, 5)))), random.randrange(1_440), random.randrange(1_440)
    )
    return Content(random.choice([None, *ZONES]), days, tuple(ranges), (window,) if random.random() < 0.7 else ())


def _plainly(content: Content, zone: str, at: int) -> bool:
    """The same, by walking through everything."""
    zone = content.timezone or zone
    here = _reading(zone, at)
    return (
        any(_moment(one.first * DAY_MS) <= here < _moment((one.last + 1) * DAY_MS) for one in content.dates)
        or any(_in_window(one, here) for one in content.weekly)
        or any(_in_range(one, _reading(one.timezone or zone, at)) for one in content.ranges)
    )


def _reading(name: str, at: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=at)).astimezone(ZoneInfo(name)).replace(tzinfo=None)


def _moment(local_ms: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=None)


def _in_window(window: Window, here: datetime) -> bool:
    for back in (0, 1):
        day = (here - timedelta(days=back)).replace(hour=0, minute=0, second=0, microsecond=0)
        begin, end = (day + timedelta(minutes=one) for one in (window.from_minute, window.to_minute))
        if day.weekday() in window.days and begin <= here < (end if end > begin else end + timedelta(days=1)):
            return True
    return False


def _in_range(one: Range, here: datetime) -> bool:
    length = timedelta(milliseconds=one.to_ms - one.from_ms)
    begins = {_moment(one.from_ms)}
    if one.rrule is not None:
        walked = rrulestr(f"RRULE:{one.rrule}", dtstart=_moment(one.from_ms))
        begins |= set(walked.between(here - length, here, inc=True))
    return any(begin <= here < begin + length for begin in begins - set(map(_moment, one.except_ms)))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_it_covers_what_it_says_and_tells_each_change(number: int) -> None:
    random = Random(number)
    about, zone = random.choice(CHANGES), random.choice(ZONES)
    content = _content(random, about)
    at = about - DAY_MS
    edge, state = at, None
    while at < about + DAY_MS:
        if at >= edge:
            state, edge = covers(content, zone, at), next_edge(content, zone, at)
            assert edge > at
        assert covers(content, zone, at) == state == _plainly(content, zone, at), (content, zone, at)
        at += 5 * MINUTE_MS if edge > at + 5 * MINUTE_MS else edge - at


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.sampled_from(get_args(CatchUpMode)),
    st.sampled_from([None, 3_600_000]),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 7, 1_000]),
)
def test_every_time_is_decided_once_and_what_is_held_never_runs(
    number: int, mode: CatchUpMode, window_ms: int | None, most: int, rows_max: int
) -> None:
    random = Random(number)
    now, zone = random.choice(CHANGES), random.choice(ZONES)
    rule = Rule(every_ms=random.choice([5, 17, 240]) * MINUTE_MS, timezone=zone)
    first = next_fire(rule, now - random.randint(1, 3 * DAY_MS))
    if first is None or first.nominal_at > now:
        return
    every = [first, *fires(rule, first.nominal_at, now)]
    skips = tuple(sorted({random.choice(every).nominal_at for _ in range(2)}))
    content = _content(random, now)
    shade = shade_of(zone, (CalendarUse("c", random.choice(["exclude", "include"])),), skips, {"c": content})
    held = {one.nominal_at: shade.reason(one.nominal_at) for one in every}
    found = catch_up(CatchUp(mode, window_ms, most), Backlog(rule, first, now, shade), now - 60_000, now, rows_max)

    times: list[int] = []
    for late in found:
        until = late.fire.nominal_at if late.until_at is None else late.until_at
        inside = [one.nominal_at for one in every if late.fire.nominal_at <= one.nominal_at <= until]
        assert len(inside) == late.times
        assert {held[at] for at in inside} == {late.held}
        times += inside
    assert times == [one.nominal_at for one in every]
    runs = [late.fire.nominal_at for late in found if late.runs]
    inside = [at for at, why in held.items() if why is None and (window_ms is None or at >= now - window_ms)]
    young = [at for at in inside if at >= now - 60_000]
    wanted = {"latest": inside[-1:], "earliest": inside[:1], "all": inside[-most:], "none": young[-most:]}
    assert runs == wanted[mode]
    assert [late.runs for late in all_run(Backlog(rule, first, now, shade), 20)] == [
        held[one.nominal_at] is None for one in every[:20]
    ]


@given(st.integers(0, 2**32), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_what_takes_long_to_look_at_is_decided_in_parts(number: int, looks: int) -> None:
    """Each part is what it would be of the whole, and leaves off where the next begins."""
    random = Random(number)
    now, zone = random.choice(CHANGES), random.choice(ZONES)
    rule = Rule(every_ms=random.choice([17, 240]) * MINUTE_MS, timezone=zone)
    first = next_fire(rule, now - 3 * DAY_MS)
    shade = shade_of(zone, (CalendarUse("c"),), (), {"c": _content(random, now)})
    whole = Backlog(rule, first, now, shade) if first is not None else None
    assert whole is not None
    assert first is not None
    held = {one.nominal_at: shade.reason(one.nominal_at) for one in [first, *fires(rule, first.nominal_at, now)]}
    seen: dict[int, str | None] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(policy, "LOOKED_MAX", looks * shade.weight)
        part = whole
        while True:
            pieces = part.pieces()
            assert len(pieces) <= looks
            for piece in pieces:
                inside = [at for at in held if piece.first.nominal_at <= at <= piece.until]
                seen |= dict.fromkeys(inside, piece.held)
            following = next_fire(rule, pieces[-1].until)
            if following is None or following.nominal_at > now:
                break
            part = Backlog(rule, following, now, shade)
    assert list(seen.items()) == list(held.items())


def test_a_calendar_of_many_ranges_is_looked_at_so_often_for_one_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of its edges change nothing: a backlog of a year was looked through at once, for minutes."""
    begin = CHANGES[0] // DAY_MS * DAY_MS
    ranges = tuple(
        Range(begin + n * MINUTE_MS, begin + (n + 600) * MINUTE_MS, rrule=f"FREQ=DAILY;BYHOUR={n % 24}")
        for n in range(50)
    )
    shade = shade_of("UTC", (CalendarUse("c"),), (), {"c": Content(ranges=ranges)})
    looks = 0

    def counted(content: Content, zone: str, at: int) -> bool:
        nonlocal looks
        looks += 1
        return covers(content, zone, at)

    monkeypatch.setattr("tasktick.timetable.calendars.covers", counted)
    rule = Rule(every_ms=MINUTE_MS)
    first = next_fire(rule, begin + 10 * DAY_MS)
    assert first is not None
    pieces = Backlog(rule, first, begin + 200 * DAY_MS, shade).pieces()
    assert pieces[-1].until < begin + 200 * DAY_MS
    assert 0 < looks * shade.weight <= policy.LOOKED_MAX


def test_a_shade_of_nothing_is_clear() -> None:
    assert Shade().reason(0) is None
    assert Shade(skips=(5,)).next_edge(4) == 5
    assert Shade(skips=(5,)).next_edge(5) == 6
