"""iCalendar (RFC 5545) read into a calendar: its events, whole days or timed, once or by a rule. Pure.

What cannot be carried over is told and left out; what is no iCalendar at all is refused. Nothing in a file is followed
or looked up, and each thing in it is looked at once, so a file costs what its size is.
"""

import re
from datetime import UTC, datetime, timedelta

import msgspec

from tasktick.errors import Refused
from tasktick.model.calendar import Content, Days, Range
from tasktick.timetable import zones
from tasktick.timetable.calendars import DAY_MS, check_range

EVENTS_MAX = 2_000
RANGES_MAX = 500
RULES_MAX = 50
EXCEPTIONS_MAX = 500
SUMMARY_CHARS_MAX = 200
LEFT_OUT_MAX = 200
NO_CALENDAR = "This is no iCalendar: it begins with BEGIN:VCALENDAR and ends with END:VCALENDAR."

_EVENT = ["VCALENDAR", "VEVENT"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VALUE = r'(?:"[^"]*"|[^;:",]*)'
_LINE = re.compile(rf"([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+={_VALUE}(?:,{_VALUE})*)*):(.*)", re.DOTALL)
_OPTION = re.compile(r';([A-Za-z0-9-]+)=("[^"]*"|[^;]*)')
_STAMP = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_DURATION = re.compile(r"P(?:(\d{1,5})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?)?", re.ASCII)
_UNITS_MS = (7 * DAY_MS, DAY_MS, 3_600_000, 60_000, 1_000)


class LeftOut(msgspec.Struct, frozen=True):
    """Something of a file that is not in the calendar, and why."""

    event: str
    detail: str


class Line(msgspec.Struct, frozen=True):
    """A content line: its name, its options and its value."""

    name: str
    options: dict[str, str]
    value: str


class Stamp(msgspec.Struct, frozen=True):
    """A date or a time as it is written: a local reading, and of which zone if that is said."""

    reading_ms: int
    is_date: bool
    timezone: str | None


class _Wrong(Exception):
    """Why an event is left out."""


def read(text: str) -> tuple[Content, list[LeftOut]]:
    """What stands in a file, and what does not; or a refusal."""
    lines = [line for line in re.sub(r"\r?\n[ \t]", "", text.removeprefix("\ufeff")).splitlines() if line.strip()]
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR" or lines[-1].strip().upper() != "END:VCALENDAR":
        _refuse(NO_CALENDAR)
    timezone, events, left_out = _events(lines)
    if len(events) > EVENTS_MAX:
        _refuse(f"This has {len(events)} events; there are at most {EVENTS_MAX}.")
    days: list[Days] = []
    ranges: list[Range] = []
    for event in events:
        told = _told(event)
        try:
            found, notes = _event(event, timezone)
            left_out += [LeftOut(told, note) for note in notes]
            if isinstance(found, Days):
                days.append(found)
            else:
                _count(ranges, found)
                ranges.append(found)
        except _Wrong as wrong:
            left_out.append(LeftOut(told, str(wrong)))
    if len(left_out) > LEFT_OUT_MAX:
        more = len(left_out) - LEFT_OUT_MAX
        left_out = [*left_out[:LEFT_OUT_MAX], LeftOut("", f"And {more} more.")]
    return Content(timezone=timezone, dates=tuple(days), ranges=tuple(ranges)), left_out


def _events(lines: list[str]) -> tuple[str | None, list[list[Line]], list[LeftOut]]:
    """The zone of a file, and the lines of each event, but for what is nested in them."""
    timezone: str | None = None
    events: list[list[Line]] = []
    left_out: list[LeftOut] = []
    inside: list[str] = []
    for raw in lines:
        line = _line(raw)
        if line is None:
            left_out.append(LeftOut("", f"This is no line of an iCalendar: {raw[:40]!r}."))
        elif line.name in {"BEGIN", "END"}:
            _turn(inside, line)
            if line.name == "BEGIN" and inside == _EVENT:
                events.append([])
            elif line.name == "BEGIN" and len(inside) == 2 and inside[1] != "VTIMEZONE":
                left_out.append(LeftOut("", f"{inside[1][:40]} is no event."))
        elif inside == _EVENT:
            events[-1].append(line)
        elif (len(inside), line.name) == (1, "X-WR-TIMEZONE") and line.value in zones.names():
            timezone = line.value
    if inside:
        _refuse(f"BEGIN:{inside[-1][:40]} has no end.")
    return timezone, events, left_out


def _turn(inside: list[str], line: Line) -> None:
    """Into what a line begins, or out of what it ends."""
    if line.name == "BEGIN":
        inside.append(line.value.upper())
    elif not inside or inside.pop() != line.value.upper():
        _refuse(f"END:{line.value[:40]} ends nothing that had begun.")


def _line(raw: str) -> Line | None:
    found = _LINE.fullmatch(raw)
    if found is None:
        return None
    options = {name.upper(): value.strip('"') for name, value in _OPTION.findall(found[2])}
    return Line(found[1].upper(), options, found[3].strip())


def _told(event: list[Line]) -> str:
    said = {line.name: line.value for line in reversed(event)}
    return (said.get("SUMMARY") or said.get("UID") or "an event")[:SUMMARY_CHARS_MAX]


def _count(ranges: list[Range], further: Range) -> None:
    if len(ranges) >= RANGES_MAX:
        raise _Wrong(f"There are {RANGES_MAX} timed or repeated events at most.")
    if further.rrule is not None and sum(one.rrule is not None for one in ranges) >= RULES_MAX:
        raise _Wrong(f"There are {RULES_MAX} repeated events at most.")


def _event(event: list[Line], calendar_zone: str | None) -> tuple[Days | Range, list[str]]:
    one = {line.name: line for line in reversed(event)}
    if one.get("STATUS", Line("", {}, "")).value.upper() == "CANCELLED":
        raise _Wrong("It is cancelled.")
    if "RECURRENCE-ID" in one:
        raise _Wrong("A single time of a repeated event that was moved is not carried over (RECURRENCE-ID).")
    if "DTSTART" not in one:
        raise _Wrong("It has no DTSTART.")
    notes = [f"{name} is not carried over." for name in ("RDATE", "EXRULE") if name in one]
    start = _stamp(one["DTSTART"], calendar_zone)
    end_ms = _end(one, start, calendar_zone)
    rules = [line.value for line in event if line.name == "RRULE"]
    if len(rules) > 1:
        raise _Wrong("It has more than one RRULE.")
    if start.is_date and not rules:
        return Days(start.reading_ms // DAY_MS, end_ms // DAY_MS - 1), notes
    excepted = _exceptions(event, start, calendar_zone) if rules else []
    made = Range(
        start.reading_ms,
        end_ms,
        start.timezone,
        rules[0].upper() if rules else None,
        tuple(excepted),
        one["SUMMARY"].value[:SUMMARY_CHARS_MAX] if "SUMMARY" in one else None,
    )
    try:
        check_range(made, start.timezone or calendar_zone or "UTC")
    except Refused as refused:
        raise _Wrong(refused.errors[0][1]) from refused
    return made, notes


def _end(one: dict[str, Line], start: Stamp, calendar_zone: str | None) -> int:
    if "DTEND" in one:
        end = _stamp(one["DTEND"], calendar_zone)
        if end.is_date != start.is_date:
            raise _Wrong("It begins with a date and ends with a time, or the other way round.")
        end_ms = _in_zone_of(start, end, calendar_zone)
    elif "DURATION" in one:
        found = _DURATION.fullmatch(one["DURATION"].value.removeprefix("+"))
        if found is None:
            raise _Wrong(f"Its DURATION cannot be read: {one['DURATION'].value[:40]!r}.")
        parts = zip(found.groups(), _UNITS_MS, strict=True)
        end_ms = start.reading_ms + sum(int(number or 0) * unit_ms for number, unit_ms in parts)
    else:
        end_ms = start.reading_ms + (DAY_MS if start.is_date else 0)
    if end_ms <= start.reading_ms:
        raise _Wrong("It does not last.")
    return end_ms


def _exceptions(event: list[Line], start: Stamp, calendar_zone: str | None) -> list[int]:
    found: set[int] = set()
    for line in event:
        if line.name == "EXDATE":
            for value in line.value.split(","):
                stamp = _stamp(Line(line.name, line.options, value), calendar_zone)
                if stamp.is_date and not start.is_date:
                    stamp = Stamp(stamp.reading_ms + start.reading_ms % DAY_MS, is_date=False, timezone=start.timezone)
                found.add(_in_zone_of(start, stamp, calendar_zone))
                if len(found) > EXCEPTIONS_MAX:
                    raise _Wrong(f"It has more than {EXCEPTIONS_MAX} EXDATE.")
    return sorted(found)


def _in_zone_of(start: Stamp, other: Stamp, calendar_zone: str | None) -> int:
    """A stamp as the clock of an event reads it."""
    if other.timezone == start.timezone or other.is_date:
        return other.reading_ms
    mine, theirs = start.timezone or calendar_zone, other.timezone or calendar_zone
    if mine is None or theirs is None:
        raise _Wrong("One of its times has a zone and another has none.")
    # An offset is asked for at the reading itself, which is a day off at most: good but for hours around a change.
    at = other.reading_ms - zones.offset_ms(theirs, other.reading_ms)
    at = other.reading_ms - zones.offset_ms(theirs, at)
    return at + zones.offset_ms(mine, at)


def _stamp(line: Line, calendar_zone: str | None) -> Stamp:
    found = _STAMP.fullmatch(line.value)
    try:
        if found is None:
            raise ValueError
        moment = datetime.strptime(found[1] + (found[2] or "000000"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise _Wrong(f"Its {line.name} cannot be read: {line.value[:40]!r}.") from None
    if not 1900 <= moment.year <= 9_000:
        raise _Wrong(f"Its {line.name} does not lie in the years 1900 to 9000.")
    timezone = "UTC" if found[3] else line.options.get("TZID")
    if timezone is not None and timezone not in zones.names():
        raise _Wrong(f"There is no time zone {timezone[:60]!r} in the IANA data.")
    is_date = found[2] is None
    same = is_date or timezone == calendar_zone
    return Stamp((moment - _EPOCH) // timedelta(milliseconds=1), is_date, None if same else timezone)


def _refuse(why: str) -> None:
    raise Refused("validation_failed", why, errors=[("", why)])
