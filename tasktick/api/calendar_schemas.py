"""The models of calendars: as clients write them, and as they are answered. How they are meant is told in `schemas`."""

from typing import Annotated

from msgspec import Meta, field

from tasktick.api.answers import Answered, Cursor, Time
from tasktick.api.schedule_schemas import LocalInstant, Note, Zone
from tasktick.api.schemas import Request
from tasktick.timetable.icalendar import EXCEPTIONS_MAX, RANGES_MAX

DATES_MAX = 2_000
WEEKLY_MAX = 50

Date = Annotated[str, Meta(examples=["2026-12-25"], extra_json_schema={"pattern": r"^\d{4}-\d{2}-\d{2}$"})]
TimeOfDay = Annotated[str, Meta(examples=["18:00"], extra_json_schema={"pattern": r"^\d{2}:\d{2}$"})]
Weekdays = Annotated[str, Meta(description="Days, and ranges of them.", examples=["MON-FRI", "SAT,SUN"])]


class DaysRequest(Request):
    """Days that follow each other; both ends are included."""

    from_: Date = field(name="from")
    to: Date


class RangeRequest(Request):
    """From a time to before another; without an offset they are local. With `rrule`, again and again."""

    from_: LocalInstant = field(name="from")
    to: LocalInstant
    timezone: Zone | None = None
    rrule: str | None = None
    except_: Annotated[list[LocalInstant], Meta(extra_json_schema={"maxItems": EXCEPTIONS_MAX})] | None = field(
        name="except", default=None
    )
    summary: Annotated[str, Meta(extra_json_schema={"maxLength": 200})] | None = None


class WeeklyRequest(Request):
    """On these days from a time of the day to before another, of the next day if that is not later."""

    days: Weekdays
    from_: TimeOfDay = field(name="from", default="00:00")
    to: TimeOfDay = "00:00"


class CalendarRequest(Request):
    """What stands in a calendar, whole."""

    timezone: Annotated[str, Meta(description="Of its times; that of the schedule, if there is none.")] | None = None
    dates: Annotated[list[Date | DaysRequest], Meta(extra_json_schema={"maxItems": DATES_MAX})] | None = None
    ranges: Annotated[list[RangeRequest], Meta(extra_json_schema={"maxItems": RANGES_MAX})] | None = None
    weekly: Annotated[list[WeeklyRequest], Meta(extra_json_schema={"maxItems": WEEKLY_MAX})] | None = None
    note: Note | None = None


class DaysShown(Answered):
    """Days that follow each other; both ends are included."""

    from_: str = field(name="from")
    to: str


class RangeShown(Answered):
    """From a time to before another, local of its zone, or in UTC."""

    from_: str = field(name="from")
    to: str
    timezone: str | None
    rrule: str | None
    except_: list[str] = field(name="except")
    summary: str | None


class WeeklyShown(Answered):
    """On these days from a time of the day to before another."""

    days: str
    from_: str = field(name="from")
    to: str


class LeftOutShown(Answered):
    """Something of an iCalendar file that could not be carried over."""

    event: str
    detail: str


class Calendar(Answered):
    """A calendar."""

    name: str
    timezone: str | None
    dates: list[str | DaysShown]
    ranges: list[RangeShown]
    weekly: list[WeeklyShown]
    note: str | None
    left_out: Annotated[list[LeftOutShown], Meta(description="What an imported file has and this does not.")]
    created_at: Time
    updated_at: Time
    version: int


class CalendarPage(Answered):
    """A page of calendars, by name."""

    data: list[Calendar]
    next_cursor: Cursor
