"""The part of the table that is about calendars."""

from tasktick.access.roles import Permission
from tasktick.api import calendars, filters
from tasktick.api.calendar_schemas import Calendar, CalendarPage, CalendarRequest
from tasktick.api.routing import Route

ALL = "/v1/calendars"
ONE = f"{ALL}/{{name}}"


def table() -> tuple[Route, ...]:
    """Its routes."""
    return (
        Route(
            "GET",
            ALL,
            calendars.list_,
            Permission.READ,
            (200, 422),
            "List calendars",
            query=filters.CALENDAR_WORDS,
            answer=CalendarPage,
        ),
        Route("GET", ONE, calendars.get, Permission.READ, (200, 404), "Show a calendar", answer=Calendar),
        Route(
            "PUT",
            ONE,
            calendars.put,
            Permission.MANAGE,
            (200, 201, 409, 412, 422),
            "Make a calendar, or replace what stands in it",
            query=filters.CALENDAR_PUT_WORDS,
            answer=Calendar,
            model=CalendarRequest,
            size="body",
            media_types=("application/json", calendars.ICALENDAR),
            writes=True,
        ),
        Route(
            "DELETE", ONE, calendars.delete, Permission.MANAGE, (204, 404, 409, 412), "Remove a calendar", writes=True
        ),
    )
