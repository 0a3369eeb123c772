"""Whether a time lies in a calendar, and where that may change next.

Within a span of constant offset a reading grows as time does, so the next edge of a calendar is the earliest reading
at which something of it begins or ends, or the end of the span. An edge that changes nothing does no harm: who looks
for stretches asks again at each.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from tasktick.errors import Refused
from tasktick.model.calendar import CalendarUse, Content, Range, Window
from tasktick.timetable import rrule, zones
from tasktick.timetable.fires import FIRST_AT, LAST_AT
from tasktick.timetable.rrule import Rrule
from tasktick.timetable.rrule_grid import UNITS_S

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
MINUTE_MS = 60_000
ASKED_FOR = "skipped_by_request"
# A rule of a calendar has so many times a day at most, and each lasts so long at most.
TIMES_A_DAY_MAX = 48
LENGTH_MAX_MS = 366 * DAY_MS
RULES_KEPT_MAX = 4_096
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Use(msgspec.Struct, frozen=True):
    """A calendar as a schedule heeds it."""

    use: CalendarUse
    content: Content

    def holds(self, zone: str, at: int) -> bool:
        """Whether it keeps a schedule of that zone from firing at this instant."""
        return covers(self.content, zone, at) == (self.use.mode == "exclude")


class Shade(msgspec.Struct, frozen=True):
    """All that keeps a schedule from firing at times that its rule has."""

    zone: str = "UTC"
    uses: tuple[Use, ...] = ()
    skips: tuple[int, ...] = ()
    """Single instants, in order."""

    @property
    def weight(self) -> int:
        """How much there is to look at for one instant: so many ranges, or what takes as long."""
        return 1 + sum(_weight(one.content) for one in self.uses)

    def reason(self, at: int) -> str | None:
        """Why it does not fire at this time; None if it does."""
        if at in self.skips:
            return ASKED_FOR
        return next((f"calendar:{one.use.name}" for one in self.uses if one.holds(self.zone, at)), None)

    def next_edge(self, at: int) -> int:
        """The first instant after this one at which the reason may be another."""
        edges = [next_edge(one.content, self.zone, at) for one in self.uses]
        later = bisect_right(self.skips, at)
        edges += self.skips[later : later + 1]
        if at in self.skips:
            edges.append(at + 1)
        return min(edges, default=LAST_AT)


CLEAR = Shade()


def _weight(content: Content) -> int:
    # Of a range that comes again as many beginnings may be looked at as are left out.
    rules = sum(3 + 2 * len(one.except_ms) for one in content.ranges if one.rrule is not None)
    windows = sum(len(one.days) for one in content.weekly)
    return len(content.ranges) + rules + windows + len(content.dates) // 8


def shade_of(
    zone: str, uses: tuple[CalendarUse, ...], skips: tuple[int, ...], contents: Mapping[str, Content]
) -> Shade:
    """What keeps a schedule from firing; a calendar that is not there keeps nobody."""
    known = tuple(Use(one, contents[one.name]) for one in uses if one.name in contents)
    return Shade(zone, known, skips) if known or skips else CLEAR


def covers(content: Content, zone: str, at: int) -> bool:
    """Whether an instant lies in the times of a calendar; `zone` is that of who asks."""
    zone = content.timezone or zone
    reading = _reading(zone, at)
    day = reading // DAY_MS
    if any(one.first <= day <= one.last for one in content.dates):
        return True
    if any(begin <= reading < end for one in content.weekly for begin, end in _around(one, reading)):
        return True
    return any(_within(one, one.timezone or zone, at) for one in content.ranges)


def _within(one: Range, zone: str, at: int) -> bool:
    reading = _reading(zone, at)
    if one.from_ms <= reading < one.to_ms and not _is_left_out(one, one.from_ms):
        return True
    rule = rule_of(one, zone)
    if rule is None:
        return False
    # So many beginnings at most are left out before one is found that is not.
    begin = rule.next_local(reading - (one.to_ms - one.from_ms) + 1)
    while begin is not None and begin <= reading:
        if not _is_left_out(one, begin):
            return True
        begin = rule.next_local(begin + 1)
    return False


def _is_left_out(one: Range, begin: int) -> bool:
    place = bisect_left(one.except_ms, begin)
    return place < len(one.except_ms) and one.except_ms[place] == begin


def next_edge(content: Content, zone: str, at: int) -> int:
    """The first instant after this one at which a calendar may begin or end to cover."""
    zone = content.timezone or zone
    days = [reading for one in content.dates for reading in (one.first * DAY_MS, (one.last + 1) * DAY_MS)]
    reading = _reading(zone, at)
    windows = [edge for one in content.weekly for span in _around(one, reading) for edge in span]
    edges = [_instant_after(zone, at, (*days, *windows))]
    for one in content.ranges:
        own = one.timezone or zone
        edges.append(_instant_after(own, at, tuple(_edges_of(one, own, _reading(own, at)))))
    return min(edges)


def _edges_of(one: Range, zone: str, reading: int) -> Iterator[int]:
    yield one.from_ms
    yield one.to_ms
    rule = rule_of(one, zone)
    if rule is not None:
        length_ms = one.to_ms - one.from_ms
        for begin, added in ((rule.next_local(reading + 1), 0), (rule.next_local(reading - length_ms + 1), length_ms)):
            if begin is not None:
                yield begin + added


def _instant_after(zone: str, at: int, readings: tuple[int, ...]) -> int:
    """When the earliest of these readings after that of an instant comes, or the offset changes before."""
    segment = zones.segment(zone, min(max(at, FIRST_AT), LAST_AT))
    here = at + segment.offset_ms
    later = min((one for one in readings if one > here), default=None)
    return segment.end_at if later is None else min(later - segment.offset_ms, segment.end_at)


def _around(one: Window, reading: int) -> Iterator[tuple[int, int]]:
    """The spans of a weekly window in this week and those beside it."""
    week = (reading + 3 * DAY_MS) // WEEK_MS * WEEK_MS - 3 * DAY_MS  # the epoch was a Thursday
    length = one.to_minute - one.from_minute
    minutes = length if length > 0 else length + 24 * 60
    for begins in (week - WEEK_MS, week, week + WEEK_MS):
        for day in one.days:
            begin = begins + day * DAY_MS + one.from_minute * MINUTE_MS
            yield begin, begin + minutes * MINUTE_MS


def rule_of(one: Range, zone: str) -> Rrule | None:
    """The rule by which a range comes again, or a refusal."""
    return None if one.rrule is None else _rule_from(one.from_ms, one.rrule, zone)


@lru_cache(maxsize=RULES_KEPT_MAX)
def _rule_from(from_ms: int, text: str, zone: str) -> Rrule:
    start = (_EPOCH + timedelta(milliseconds=from_ms)).strftime("%Y%m%dT%H%M%S")
    return rrule.parse(f"DTSTART:{start}\nRRULE:{text}", zone)


def check_range(one: Range, zone: str) -> None:
    """Refuse a range that cannot be meant, or that is too much to look at."""
    if one.to_ms <= one.from_ms:
        _refuse("It ends before it begins.", "/to")
    if one.rrule is None:
        return
    rule = rule_of(one, zone)
    assert rule is not None
    if one.to_ms - one.from_ms > LENGTH_MAX_MS:
        _refuse("What comes again lasts 366 days at most.", "/to")
    if rule.written.frequency in UNITS_S or rule.times_a_day > TIMES_A_DAY_MAX:
        _refuse(f"A calendar's rule is FREQ=DAILY or longer, with {TIMES_A_DAY_MAX} times a day at most.", "/rrule")


def _refuse(why: str, pointer: str) -> None:
    raise Refused("validation_failed", why, errors=[(pointer, why)])


def _reading(zone: str, at: int) -> int:
    return at + zones.offset_ms(zone, min(max(at, FIRST_AT), LAST_AT))
