"""A calendar: times in which the schedules that name it do not fire, or in which alone they do.

All of it is local readings (milliseconds as if the local clock were UTC's) of its own time zone, or else of the zone
of the schedule that asks. What is to be an instant is a reading of UTC.
"""

from typing import Literal

import msgspec

Mode = Literal["exclude", "include"]


class CalendarUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a schedule heeds a calendar: it does not fire in its times, or (`include`) in them alone."""

    name: str
    mode: Mode = "exclude"


class Days(msgspec.Struct, frozen=True, array_like=True):
    """Whole days, both ends included, as numbers since the epoch."""

    first: int
    last: int


class Window(msgspec.Struct, frozen=True, array_like=True):
    """On these days of each week (Monday is 0) from one minute of the day to before another, maybe of the next day."""

    days: tuple[int, ...]
    from_minute: int
    to_minute: int


class Range(msgspec.Struct, frozen=True, omit_defaults=True):
    """From one reading to before another; again and again, if there is a rule."""

    from_ms: int
    to_ms: int
    timezone: str | None = None
    """Its own zone, if it is not the calendar's."""
    rrule: str | None = None
    """Whose first time is `from_ms`, and each lasts as long as the first."""
    except_ms: tuple[int, ...] = ()
    """Where a time of the rule would begin that is left out."""
    summary: str | None = None


class Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in a calendar."""

    timezone: str | None = None
    """The zone of its readings; that of the schedule, if None."""
    dates: tuple[Days, ...] = ()
    ranges: tuple[Range, ...] = ()
    weekly: tuple[Window, ...] = ()
    note: str | None = None


class Calendar(msgspec.Struct, frozen=True):
    """The row, as the store has it."""

    tenant: str
    name: str
    version: int
    created_at: int
    updated_at: int
    content: Content
