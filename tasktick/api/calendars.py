"""Calendars: put whole, as JSON or as an iCalendar file, listed, read, removed.

A schedule that names one is decided about by what stands in it then, so a change needs to tell nobody.
"""

import msgspec

from tasktick.api import faults as checks
from tasktick.api import filters, paging
from tasktick.api.calendar_requests import content_of, shown
from tasktick.api.calendar_schemas import CalendarRequest
from tasktick.api.call import Call, Reply, answer, etag
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.tasks import CREATED, NO_CONTENT, OK, check_version, no_query
from tasktick.errors import Refused, not_found
from tasktick.model.calendar import Calendar, Content
from tasktick.model.ids import wire
from tasktick.store import calendars
from tasktick.store.protocol import Transaction
from tasktick.timetable import icalendar
from tasktick.timetable.icalendar import LeftOut

ICALENDAR = "text/calendar"
CALENDAR = Decoder(CalendarRequest)
KIND = "calendar"
TOO_MANY = (
    f"There are {calendars.CALENDARS_MAX:,} calendars already, which is the most. Delete one that no schedule names, "
    "or put these times into one that is there."
)


async def list_(call: Call) -> Reply:
    """GET /v1/calendars."""
    faults = Faults()
    filters.known(faults, call.query, filters.CALENDAR_WORDS)
    page = paging.page_of(faults, call.query, "calendars", call.tenant)
    faults.end()
    found = await call.ports.database.read(lambda tx: calendars.page(tx, call.tenant, page.beyond, page.limit + 1))
    rows = found[: page.limit]
    cursor = page.next_cursor(rows[-1].name) if len(found) > page.limit else None
    return answer(OK, paging.document([shown(one, []) for one in rows], cursor))


async def get(call: Call) -> Reply:
    """GET /v1/calendars/{name}."""
    no_query(call)
    name = call.parameters["name"]
    found = await call.ports.database.read(lambda tx: calendars.find(tx, call.tenant, name))
    if found is None:
        raise not_found(KIND, name)
    return answer(OK, shown(found, []), {"ETag": etag(found.version)})


async def put(call: Call) -> Reply:
    """PUT /v1/calendars/{name}: make it, or make it what is given; the same again changes nothing."""
    name, now = call.parameters["name"], call.now
    faults = Faults()
    filters.known(faults, call.query, filters.CALENDAR_PUT_WORDS)
    is_dry = filters.flag(faults, call.query, "dry_run")
    checks.key(faults, "/name", name)
    content, left_out = _content(call, faults)
    faults.end()
    if is_dry:
        return answer(OK, shown(Calendar(call.tenant, name, 1, now, now, content), left_out))

    async def operation(tx: Transaction) -> tuple[Calendar, bool]:
        await calendars.lock(tx, call.tenant, [name])
        before = await calendars.find(tx, call.tenant, name)
        check_version(call, before)
        if before is not None and before.content == content:
            return before, False
        made = Calendar(call.tenant, name, 1, now, now, content)
        if before is None and await calendars.count(tx, call.tenant) >= calendars.CALENDARS_MAX:
            raise Refused("state_conflict", TOO_MANY)
        if before is not None:
            made = msgspec.structs.replace(made, version=before.version + 1, created_at=before.created_at)
        await calendars.put(tx, made)
        return made, before is None

    made, is_new = await call.ports.database.write(operation)
    headers = {"ETag": etag(made.version)} | ({"Location": f"/v1/calendars/{name}"} if is_new else {})
    return answer(CREATED if is_new else OK, shown(made, left_out), headers)


def _content(call: Call, faults: Faults) -> tuple[Content, list[LeftOut]]:
    """What is to stand there, and what of a file does not."""
    if call.headers.get("Content-Type", "").partition(";")[0].strip().lower() != ICALENDAR:
        return content_of(faults, CALENDAR.decode(call.body, call.ports.config.server.json_depth_max)), []
    try:
        text = call.body.decode()
    except UnicodeDecodeError:
        raise Refused("malformed", "An iCalendar file is text in UTF-8.") from None
    if "\0" in text:
        raise Refused("validation_failed", "A text does not contain NUL.", errors=[("", "It contains NUL.")])
    return icalendar.read(text)


async def delete(call: Call) -> Reply:
    """DELETE /v1/calendars/{name}: never while a schedule names it."""
    name = call.parameters["name"]

    async def operation(tx: Transaction) -> None:
        found = await calendars.find(tx, call.tenant, name)
        if found is None:
            raise not_found(KIND, name)
        check_version(call, found)
        # Whoever is about to name it has done so before this goes on, or finds it gone.
        await calendars.delete(tx, call.tenant, name)
        users = await calendars.users(tx, call.tenant, name)
        if users:
            named = ", ".join(wire("sch", one) for one in users[: calendars.USERS_TOLD_MAX])
            more = " and more" if len(users) > calendars.USERS_TOLD_MAX else ""
            raise Refused("state_conflict", f"Schedules name this calendar: {named}{more}. Change them first.")

    await call.ports.database.write(operation)
    return Reply(NO_CONTENT)
