"""The requests about calendars; pure, as those of `core` are."""

from typing import Any

import msgspec

from tasktick.client import core
from tasktick.client.core import Filters, Request

ICALENDAR = "text/calendar"


def find(filters: Filters | None = None) -> Request:
    """A page of calendars, by name; filters are `limit` and `cursor`."""
    return core.get("calendars", query=filters)


def read(name: str) -> Request:
    """One calendar."""
    return core.get("calendars", name)


def put(name: str, content: Any, version: str | None = None) -> Request:
    """Make a calendar, or replace what stands in it; `content` is as the HTTP contract has it.

    With the `ETag` of what was read, only if nobody was faster.
    """
    return core.put("calendars", name, body=content, version=version)


def try_out(name: str, content: Any) -> Request:
    """How the server would read it; nothing is written."""
    request = put(name, content)
    return msgspec.structs.replace(request, path=f"{request.path}?dry_run=true")


def put_icalendar(name: str, file: bytes) -> Request:
    """The same from an iCalendar file."""
    request = core.put("calendars", name, body=None)
    return msgspec.structs.replace(request, body=file, headers={**request.headers, "Content-Type": ICALENDAR})


def delete(name: str) -> Request:
    """Remove a calendar that no schedule names."""
    return core.delete("calendars", name)
