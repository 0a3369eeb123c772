"""From local readings to instants: the rule for gaps and repeated hours, in one algorithm.

Time is a row of segments of constant offset. In each, some readings count, from `low` to before `high`, and a reading
r fires at max(r - offset, start of the segment). What the choices of a schedule mean is only where `low` and `high`
lie, with `before` the offset of the segment before and `after` that of the one after:

    gap (before < offset)        run_after: low = start + before, so what was left out falls on the start
                                 skip:      low = start + offset
    repeated (before > offset)   first:     low = start + before, after what was read in the first pass
                                 second:    low = start + offset, and the first pass ends early: its segment
                                            has high = end + after
                                 both:      low = start + offset

Otherwise low = start + offset and high = end + offset. A cron that follows the clock is `skip` and `both`. So the
next fire is the first matching reading in the segment of the instant, or of the first segment thereafter that has
one; a segment whose readings lie before the match that is already known costs two comparisons, and where that match
is far away, what lies between is left out.

Of several rules the next fire is the earliest of theirs; those that come at one instant are one.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

import msgspec

from tasktick.model.schedule import Rule
from tasktick.timetable import cron, interval, rrule, zones
from tasktick.timetable.cron import Cron
from tasktick.timetable.rrule import Rrule
from tasktick.timetable.zones import Segment

# Nothing fires before 1900 or after 9997: calendars and zone data end somewhere.
FIRST_AT = -2_208_988_800_000
LAST_AT = 253_339_228_800_000

COMES_FIRST = "The clocks go back: this local time comes twice, and this is the first."
COMES_SECOND = "The clocks go back: this local time comes twice, and this is the second."

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIONS_KEPT_MAX = 4_096

Readings = Cron | Rrule
"""What says which local readings match."""


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """Where a schedule stands: an instant, and what the local clock read then."""

    at: int
    local_ms: int
    """Milliseconds as if the local clock were UTC's."""


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A nominal time of a rule."""

    nominal_at: int
    offset_ms: int
    wanted_ms: int
    """The local reading that asked for it: before that of the instant if it lies in a gap."""
    collapsed: int = 1
    """How many local times fall on this instant."""
    note: str | None = None

    @property
    def local_ms(self) -> int:
        """What the local clock reads, in milliseconds as if it were UTC's."""
        return self.nominal_at + self.offset_ms

    @property
    def local(self) -> str:
        """The same as people read it: RFC 3339 with the offset."""
        offset = timezone(timedelta(milliseconds=self.offset_ms))
        moment = (_EPOCH + timedelta(milliseconds=self.nominal_at)).astimezone(offset)
        return moment.isoformat(timespec="milliseconds" if self.nominal_at % 1_000 else "seconds")

    @property
    def cursor(self) -> Cursor:
        """The cursor that stands on this fire."""
        return Cursor(self.nominal_at, self.local_ms)


def members(rule: Rule) -> tuple[Rule, ...]:
    """The rules that one is made of: itself, unless it has several."""
    return _members(rule) if rule.spec else (rule,)


@lru_cache(maxsize=_UNIONS_KEPT_MAX)
def _members(rule: Rule) -> tuple[Rule, ...]:
    return tuple(
        Rule(one.cron, one.every_ms, one.anchor_at, one.rrule, (), rule.timezone, rule.gap, rule.repeat)
        for one in rule.spec
    )


def readings(rule: Rule) -> Readings | None:
    """The local readings that a checked rule asks for; an interval asks for none."""
    if rule.cron is not None:
        return cron.parse(rule.cron)
    return None if rule.rrule is None else rrule.parse(rule.rrule, rule.timezone)


def next_fire(rule: Rule, after: int) -> Fire | None:
    """The first fire strictly after an instant; None if the calendar has no more."""
    if after >= LAST_AT:
        return None
    if rule.spec:
        return _earliest(next_fire(one, after) for one in members(rule))
    wanted = readings(rule)
    if wanted is not None:
        return _next_of_readings(wanted, rule, max(after, FIRST_AT))
    assert rule.every_ms is not None  # a checked rule has one of the three
    at = interval.next_at(rule.every_ms, rule.anchor_at or 0, max(after, FIRST_AT))
    if at >= LAST_AT:
        return None
    offset_ms = zones.offset_ms(rule.timezone, at)
    return Fire(at, offset_ms, at + offset_ms)


def _earliest(found: Iterable[Fire | None]) -> Fire | None:
    """The first of these; those that come at the same instant are one, which counts all of them."""
    earliest: Fire | None = None
    for fire in found:
        if fire is None or (earliest is not None and fire.nominal_at > earliest.nominal_at):
            continue
        if earliest is None or fire.nominal_at < earliest.nominal_at:
            earliest = fire
        else:
            earliest = Fire(
                fire.nominal_at,
                fire.offset_ms,
                min(fire.wanted_ms, earliest.wanted_ms),
                fire.collapsed + earliest.collapsed,
                earliest.note or fire.note,
            )
    return earliest


def cursor_at(rule: Rule, at: int) -> Cursor:
    """The cursor of a schedule that begins, or whose zone has changed, at this instant."""
    return Cursor(at, at + zones.offset_ms(rule.timezone, min(max(at, FIRST_AT), LAST_AT)))


def next_after(rule: Rule, cursor: Cursor) -> Fire | None:
    """The first fire after a cursor: after its instant, and after its local reading.

    As long as the zone data says of the instant what the cursor says, the two are one. Where it does not, because
    the data has changed since, local times up to the cursor's have had their fire.
    """
    if rule.spec:
        return _earliest(next_after(one, cursor) for one in members(rule))
    fire, wanted = next_fire(rule, cursor.at), readings(rule)
    if wanted is None or cursor_at(rule, cursor.at) == cursor:
        return fire
    while fire is not None and not _is_past(wanted, fire, cursor.local_ms):
        # No reading grows faster than time within a segment: leap, but over no change of offset.
        end_at = zones.segment(rule.timezone, fire.nominal_at).end_at
        leap_at = fire.nominal_at + cursor.local_ms - fire.local_ms
        fire = next_fire(rule, max(fire.nominal_at, min(leap_at, end_at - 1)))
    return fire


def _is_past(wanted: Readings, fire: Fire, local_ms: int) -> bool:
    """Whether any local time of this fire is after a reading."""
    if fire.wanted_ms > local_ms:
        return True
    if fire.collapsed == 1:
        return False
    later = wanted.next_local(local_ms + 1)
    return later is not None and later <= fire.local_ms


def _next_of_readings(readings: Readings, rule: Rule, after: int) -> Fire | None:
    segment = zones.segment(rule.timezone, after)
    low = max(after + segment.offset_ms + 1, _low(readings, rule, segment))
    wanted = readings.next_local(low)
    while True:
        if wanted is None:
            if segment.end_at + segment.offset_after_ms >= low:
                return None
            # There are no later readings, but the clocks go back to earlier ones.
        elif wanted < _high(readings, rule, segment):
            return _fire(readings, segment, wanted) if wanted - segment.offset_ms < LAST_AT else None
        beyond = _leap_at(segment, low, wanted)
        if beyond >= LAST_AT:
            return None
        segment = zones.segment(rule.timezone, beyond)
        before, low = low, _low(readings, rule, segment)
        if wanted is None or not before <= low <= wanted:
            wanted = readings.next_local(low)


def _leap_at(segment: Segment, low: int, wanted: int | None) -> int:
    """The end of a segment, or as far before the next reading as no clock is off.

    No segment that is left out has a reading: all of it is read after `low`, and before the one that is wanted.
    """
    if wanted is None or segment.end_at < low + zones.OFFSET_MAX_MS:
        return segment.end_at
    return max(segment.end_at, wanted - zones.OFFSET_MAX_MS)


def _low(readings: Readings, rule: Rule, segment: Segment) -> int:
    if segment.offset_before_ms < segment.offset_ms:
        falls_on_start = rule.gap == "run_after" and not readings.is_wildcard
    else:
        falls_on_start = rule.repeat == "first" and not readings.is_wildcard
    return segment.start_at + (segment.offset_before_ms if falls_on_start else segment.offset_ms)


def _high(readings: Readings, rule: Rule, segment: Segment) -> int:
    if rule.repeat == "second" and not readings.is_wildcard:
        return segment.end_at + min(segment.offset_ms, segment.offset_after_ms)
    return segment.end_at + segment.offset_ms


def _fire(readings: Readings, segment: Segment, wanted: int) -> Fire:
    at = wanted - segment.offset_ms
    if at < segment.start_at or (at == segment.start_at and segment.offset_before_ms < segment.offset_ms):
        first_reading = segment.start_at + segment.offset_ms
        if wanted == first_reading:
            return Fire(at, segment.offset_ms, wanted)
        collapsed = readings.count(wanted, first_reading + 1)
        return Fire(segment.start_at, segment.offset_ms, wanted, collapsed, _gap_note(wanted, collapsed))
    return Fire(at, segment.offset_ms, wanted, 1, _pass_note(segment, wanted))


def _gap_note(wanted: int, collapsed: int) -> str:
    reading = (_EPOCH + timedelta(milliseconds=wanted)).strftime("%H:%M:%S").removesuffix(":00")
    others = f" {collapsed} local times fall on this instant." if collapsed > 1 else ""
    return (
        f"The clocks go forward: {reading} does not exist on this day, so this is the first instant after it.{others}"
    )


def _pass_note(segment: Segment, wanted: int) -> str | None:
    if segment.offset_after_ms < segment.offset_ms and wanted >= segment.end_at + segment.offset_after_ms:
        return COMES_FIRST
    if segment.offset_before_ms > segment.offset_ms and wanted < segment.start_at + segment.offset_before_ms:
        return COMES_SECOND
    return None


def fires(rule: Rule, after: int, until: int) -> Iterator[Fire]:
    """Every fire after one instant, up to and including another."""
    fire = next_fire(rule, after)
    while fire is not None and fire.nominal_at <= until:
        yield fire
        fire = next_fire(rule, fire.nominal_at)


def count_of_one(rule: Rule, after: int, until: int) -> int:
    """How many fires a single rule has after one instant, up to and including another: by months, not one by one."""
    assert not rule.spec, "of several, `upcoming` counts"
    after, until = max(after, FIRST_AT), min(until, LAST_AT - 1)
    if until <= after:
        return 0
    wanted = readings(rule)
    if wanted is None:
        assert rule.every_ms is not None  # a checked rule has one of the three
        return (until - interval.next_at(rule.every_ms, rule.anchor_at or 0, after)) // rule.every_ms + 1
    segment = zones.segment(rule.timezone, after)
    low = max(after + segment.offset_ms + 1, _low(wanted, rule, segment))
    counted = 0
    while True:
        high = min(_high(wanted, rule, segment), until + segment.offset_ms + 1)
        first_reading = segment.start_at + segment.offset_ms
        if low < first_reading and segment.offset_before_ms < segment.offset_ms:
            # All that lies in the gap, and what the clock reads right after it, are one fire.
            counted += 1 if wanted.count(low, first_reading + 1) else 0
            low = first_reading + 1
        counted += wanted.count(low, high)
        if segment.end_at > until:
            return counted
        segment = zones.segment(rule.timezone, segment.end_at)
        low = _low(wanted, rule, segment)
