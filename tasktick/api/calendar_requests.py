"""From a request to what stands in a calendar, and back. Nothing is written here."""

import re
from datetime import UTC, date, datetime, timedelta

from tasktick.api import faults as checks
from tasktick.api.calendar_schemas import (
    DATES_MAX,
    WEEKLY_MAX,
    CalendarRequest,
    DaysRequest,
    RangeRequest,
    WeeklyRequest,
)
from tasktick.api.faults import Faults
from tasktick.api.render import Document
from tasktick.api.schedule_schemas import UseRequest
from tasktick.api.times import Instant, instant_ms, local_ms, written
from tasktick.errors import Refused
from tasktick.model.calendar import Calendar, CalendarUse, Content, Days, Range, Window
from tasktick.timetable import zones
from tasktick.timetable.calendars import check_range
from tasktick.timetable.icalendar import EXCEPTIONS_MAX, RANGES_MAX, RULES_MAX, SUMMARY_CHARS_MAX, LeftOut

NOTE_CHARS_MAX = 1_000
USES_MAX = 10
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def content_of(faults: Faults, asked: CalendarRequest) -> Content:
    """What is to stand in a calendar."""
    zone = _zone(faults, "/timezone", asked.timezone)
    _bounded(faults, "/dates", len(asked.dates or ()), DATES_MAX)
    _bounded(faults, "/ranges", len(asked.ranges or ()), RANGES_MAX)
    _bounded(faults, "/weekly", len(asked.weekly or ()), WEEKLY_MAX)
    if sum(one.rrule is not None for one in asked.ranges or ()) > RULES_MAX:
        faults.add("/ranges", f"At most {RULES_MAX} of them come again.")
    return Content(
        timezone=zone,
        dates=tuple(_days(faults, f"/dates/{place}", one) for place, one in enumerate(asked.dates or ())),
        ranges=tuple(
            _range(faults, f"/ranges/{place}", one, zone or "UTC") for place, one in enumerate(asked.ranges or ())
        ),
        weekly=tuple(_window(faults, f"/weekly/{place}", one) for place, one in enumerate(asked.weekly or ())),
        note=checks.text(faults, "/note", asked.note, NOTE_CHARS_MAX),
    )


def _bounded(faults: Faults, pointer: str, length: int, most: int) -> None:
    if length > most:
        faults.add(pointer, f"This has {length}; at most {most}.")


def _zone(faults: Faults, pointer: str, name: str | None) -> str | None:
    if name is None:
        return None
    try:
        zones.zone(name)
    except Refused as refused:
        faults.add(pointer, refused.errors[0][1])
        return None
    return name


def _days(faults: Faults, pointer: str, asked: str | DaysRequest) -> Days:
    if isinstance(asked, str):
        day = _day(faults, pointer, asked)
        return Days(day, day)
    first, last = _day(faults, f"{pointer}/from", asked.from_), _day(faults, f"{pointer}/to", asked.to)
    if last < first:
        faults.add(f"{pointer}/to", "This is before `from`.")
    return Days(first, last)


def _day(faults: Faults, pointer: str, text: str) -> int:
    try:
        if _DATE.fullmatch(text) is None:
            raise ValueError
        return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        faults.add(pointer, "This is a date such as 2026-12-25.")
        return 0


def _range(faults: Faults, pointer: str, asked: RangeRequest, zone: str) -> Range:
    own = _zone(faults, f"{pointer}/timezone", asked.timezone)
    _bounded(faults, f"{pointer}/except", len(asked.except_ or ()), EXCEPTIONS_MAX)
    times = [("from", asked.from_), ("to", asked.to), *(("except", one) for one in asked.except_ or ())]
    read = [_reading(faults, f"{pointer}/{name}", value) for name, value in times]
    if len({is_instant for _, is_instant in read}) > 1:
        faults.add(pointer, "Write all of its times with an offset, or all of them without.")
    elif read[0][1]:
        if own not in {None, "UTC"}:
            faults.add(f"{pointer}/timezone", "Its times have an offset: leave out one or the other.")
        own = "UTC"
    first, last, *left_out = [ms for ms, _ in read]
    if asked.rrule is not None:
        first -= first % 1_000
    made = Range(
        first,
        last,
        own,
        None if asked.rrule is None else asked.rrule.upper(),
        tuple(sorted(set(left_out))),
        checks.text(faults, f"{pointer}/summary", asked.summary, SUMMARY_CHARS_MAX),
    )
    try:
        check_range(made, own or zone)
    except Refused as refused:
        for inner, detail in refused.errors:
            faults.add(pointer + inner, detail, refused.code)
        return Range(0, 1)
    return made


def _reading(faults: Faults, pointer: str, value: Instant) -> tuple[int, bool]:
    """A time as milliseconds, and whether it is an instant."""
    try:
        local = local_ms(value)
        return (instant_ms(value), True) if local is None else (local, False)
    except ValueError as error:
        faults.add(pointer, str(error))
        return 0, False


def _window(faults: Faults, pointer: str, asked: WeeklyRequest) -> Window:
    return Window(
        _weekdays(faults, f"{pointer}/days", asked.days),
        _minute(faults, f"{pointer}/from", asked.from_),
        _minute(faults, f"{pointer}/to", asked.to),
    )


def _weekdays(faults: Faults, pointer: str, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for word in text.upper().split(","):
        first, dash, last = word.strip().partition("-")
        if first not in WEEKDAYS or (dash and last not in WEEKDAYS) or len(text) > 100:
            faults.add(pointer, "These are days such as MON, MON-FRI or SAT,SUN.")
            return (0,)
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last if dash else first)
        found |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return tuple(sorted(found))


def _minute(faults: Faults, pointer: str, text: str) -> int:
    if _TIME.fullmatch(text) is None:
        faults.add(pointer, "This is a time of the day such as 18:00.")
        return 0
    return int(text[:2]) * 60 + int(text[3:])


def uses_of(faults: Faults, asked: list[str | UseRequest] | None) -> tuple[CalendarUse, ...]:
    """The calendars that a schedule is to heed."""
    uses = [CalendarUse(one) if isinstance(one, str) else CalendarUse(one.name, one.mode) for one in asked or ()]
    _bounded(faults, "/calendars", len(uses), USES_MAX)
    if len({one.name for one in uses}) < len(uses):
        faults.add("/calendars", "One of them stands here twice.")
    for place, one in enumerate(uses):
        checks.key(faults, f"/calendars/{place}", one.name)
    return tuple(uses)


def uses_as_asked(uses: tuple[CalendarUse, ...]) -> list[str | UseRequest]:
    """The same in the words of a request."""
    return [one.name if one.mode == "exclude" else UseRequest(one.name, one.mode) for one in uses]


def uses_shown(uses: tuple[CalendarUse, ...]) -> list[str | Document]:
    """The same as clients read them."""
    return [one.name if one.mode == "exclude" else {"name": one.name, "mode": one.mode} for one in uses]


def shown(calendar: Calendar, left_out: list[LeftOut]) -> Document:
    """A calendar as clients read it; what they read they may write again."""
    content = calendar.content
    return {
        "name": calendar.name,
        "timezone": content.timezone,
        "dates": [
            _date(one.first) if one.first == one.last else {"from": _date(one.first), "to": _date(one.last)}
            for one in content.dates
        ],
        "ranges": [_range_shown(one) for one in content.ranges],
        "weekly": [
            {
                "days": ",".join(WEEKDAYS[day] for day in one.days),
                "from": f"{one.from_minute // 60:02}:{one.from_minute % 60:02}",
                "to": f"{one.to_minute // 60:02}:{one.to_minute % 60:02}",
            }
            for one in content.weekly
        ],
        "note": content.note,
        "left_out": [{"event": one.event, "detail": one.detail} for one in left_out],
        "created_at": written(calendar.created_at),
        "updated_at": written(calendar.updated_at),
        "version": calendar.version,
    }


def _range_shown(one: Range) -> Document:
    is_utc = one.timezone == "UTC"

    def told(ms: int) -> str:
        moment = written(ms)
        return moment if is_utc else moment.removesuffix("Z").removesuffix(".000")

    return {
        "from": told(one.from_ms),
        "to": told(one.to_ms),
        "timezone": None if is_utc else one.timezone,
        "rrule": one.rrule,
        "except": [told(ms) for ms in one.except_ms],
        "summary": one.summary,
    }


def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).strftime("%Y-%m-%d")
