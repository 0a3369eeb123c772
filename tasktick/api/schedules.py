"""Schedules as they are read: one, a page of them, what is to come of one. `schedule_writes` changes them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tasktick.api import filters, paging, render, schedule_render
from tasktick.api.call import Call, Reply, answer, encode, etag
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.render import Document
from tasktick.api.schedule_advice import Known, advice_on, known, unless_spread, with_key
from tasktick.api.schedule_requests import Asked, Definition, Tried, new_schedule, previewed
from tasktick.api.schedule_schemas import PreviewRequest
from tasktick.api.tasks import FULL_PAGE_BYTES, FULL_SLICE, OK, RENDER_SLICE, no_query, sealing_of
from tasktick.errors import Refused
from tasktick.model.calendar import CalendarUse, Content
from tasktick.model.schedule import Rule, Schedule
from tasktick.model.task import Payload
from tasktick.scheduler.book import due_of
from tasktick.store import calendars, schedules
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen
from tasktick.timetable.calendars import Shade, shade_of
from tasktick.timetable.describe import describe
from tasktick.timetable.fires import Fire, next_fire
from tasktick.timetable.lint import Advice, lint
from tasktick.timetable.policy import Backlog
from tasktick.timetable.upcoming import upcoming as next_fires

PREVIEW = Decoder(PreviewRequest)
# What lies between has to be counted, where a schedule may fire so many times only.
AHEAD_MAX_MS = 100 * 366 * 86_400_000
TOO_FAR = "This is more than 100 years ahead of the schedule."
TOO_MANY = (
    "Too many times of its rules, or changes of its calendars, lie before this to be counted against `max_fires`. "
    "Ask for an earlier one."
)
SPREAD = Advice("jitter", "Each fire starts later, by up to `jitter`: by how much is fixed once the schedule is saved.")
ALL_BUT_ONE = Advice(
    "catch_up_overlap",
    "Of what an outage missed, `catch_up` `all` runs one and `overlap` skips the rest: `buffer_all` runs them one "
    "after another, `allow` side by side.",
)
ALL_HELD = Advice("all_skipped", "Its calendars skip every one of these times.")
# What is tried is never stored, so nobody sees it.
NO_ID = "0" * 32
PAUSED = Advice("paused", "It is paused, so nothing of it starts until it is resumed.")


async def get(call: Call) -> Reply:
    """GET /v1/schedules/{id}."""
    no_query(call)

    async def operation(tx: Transaction) -> tuple[Schedule, Payload]:
        found = (await schedules.find(tx, call.tenant, call.parameters["id"])).schedule
        return found, (await schedules.templates(tx, [found.id]))[found.id]

    found, payload = await call.ports.database.read(operation)
    document = schedule_render.schedule(found, payload, render.lens_of(call))
    return answer(OK, document, {"ETag": etag(found.version)})


async def list_(call: Call) -> Reply:
    """GET /v1/schedules."""
    faults = Faults()
    by = filters.schedules(faults, call.query)
    order = filters.choice(faults, call.query, "order", ("asc", "desc"), "desc")
    full = filters.choice(faults, call.query, "fields", ("full",), "") == "full"
    page = paging.page_of(faults, call.query, "schedules", call.tenant)
    faults.end()
    ids = await call.ports.database.read(
        lambda tx: schedules.ids_page(
            tx, call.tenant, by, beyond=page.beyond, limit=page.limit + 1, oldest_first=order == "asc"
        )
    )
    shown = ids[: page.limit]
    rows, taken = await _rows_of(call, shown, full=full)
    more = len(ids) > page.limit or taken < len(shown)
    return answer(OK, paging.document(rows, page.next_cursor(shown[taken - 1]) if more and taken else None))


async def _rows_of(call: Call, ids: list[str], *, full: bool) -> tuple[list[Any], int]:
    """These schedules as clients read them, slice by slice, and how many of the ids were looked at."""
    size = FULL_SLICE if full else RENDER_SLICE
    lens = render.lens_of(call, full=full)
    rows: list[Any] = []
    taken, weight = 0, 0
    for at in range(0, len(ids), size):
        part = ids[at : at + size]

        async def operation(tx: Transaction, part: list[str] = part) -> tuple[list[Schedule], dict[str, Payload]]:
            found = await schedules.read(tx, call.tenant, part)
            return found, await schedules.templates(tx, [one.id for one in found], bodies=full)

        found, payloads = await call.ports.database.read(operation)
        encoded = [encode(schedule_render.schedule(one, payloads[one.id], lens)) for one in found]
        rows += map(msgspec.Raw, encoded)
        weight += sum(map(len, encoded))
        taken += len(part)
        if full and weight > FULL_PAGE_BYTES:
            break
    return rows, taken


async def preview(call: Call) -> Reply:
    """POST /v1/schedules/preview: the next fires of an unsaved schedule, in words, and what is odd about it."""
    faults = Faults()
    count, after = filters.preview(faults, call.query)
    request: PreviewRequest = PREVIEW.decode(call.body, call.ports.config.server.json_depth_max)
    tried = await call.kept.aside(lambda: previewed(faults, request, sealing_of(call)))
    faults.end()
    asked = tried.definition
    begin = call.now if after is None else after
    # A fire may come at `start_at` itself, and each is strictly after where the search begins.
    begin = begin if asked.start_at is None else max(begin, asked.start_at - 1)
    found = await call.ports.database.read(lambda tx: _contents(tx, call.tenant, asked.calendars))
    shade = shade_of(asked.rule.timezone, asked.calendars, (), found)
    left = count if asked.max_fires is None else asked.max_fires
    fires = await call.kept.aside(lambda: _coming(next_fires(asked.rule, begin, count, asked.end_at), shade, left))
    linted = await call.kept.aside(lambda: lint(asked.rule, begin, asked.end_at))
    advice = unless_spread(linted, asked.jitter_ms)
    advice += await _advice(call, asked.rule, begin, fires, asked.jitter_ms, request.key)
    advice += ([SPREAD] if asked.jitter_ms else []) + _all_held(fires) + _all_but_one(asked)
    shown = [schedule_render.fire(one, one.nominal_at, held) for one, held in fires]
    return answer(OK, {**_document(asked.rule, shown, advice), "schedule": _as_saved(call, tried)})


def _as_saved(call: Call, tried: Tried) -> Document | None:
    """The definition as it would be answered once it is saved, so that a client can compare the two."""
    if tried.content is None:
        return None
    asked = Asked(tried.definition, tried.content, tried.key, tried.paused)
    made = new_schedule(asked, NO_ID, call.tenant, call.now)
    return schedule_render.definition(made, tried.content.payload, render.lens_of(call))


async def _advice(
    call: Call,
    rule: Rule,
    begin: int,
    fires: list[tuple[Fire, str | None]],
    jitter_ms: int,
    about: Schedule | str | None,
) -> list[Advice]:
    """What the store knows about a schedule, or about the one that has this key."""
    shown = [one for one, _ in fires]

    async def operation(tx: Transaction) -> Known:
        schedule_id = about.id if isinstance(about, Schedule) else await with_key(tx, call.tenant, about)
        return await known(tx, call.tenant, schedule_id, shown[0].nominal_at if shown else None)

    found = await call.ports.database.read(operation)
    return await call.kept.aside(lambda: advice_on(rule, begin, shown, jitter_ms, found))


async def _contents(tx: Transaction, tenant: str, uses: tuple[CalendarUse, ...]) -> dict[str, Content]:
    """What stands in the calendars that are named, or the refusal."""
    found = await calendars.contents(tx, {(tenant, one.name) for one in uses}) if uses else {}
    missing = [one.name for one in uses if (tenant, one.name) not in found]
    if missing:
        raise no_such_calendars(missing)
    return {name: content for (_, name), content in found.items()}


def no_such_calendars(names: Iterable[str]) -> Refused:
    """The refusal of a schedule that names what is not there."""
    detail = f"There is no calendar {', '.join(sorted(names))}. Make it first: PUT /v1/calendars/<name>."
    return Refused("validation_failed", detail, errors=[("/calendars", detail)])


def _coming(fires: Iterable[Fire], shade: Shade, left: int) -> list[tuple[Fire, str | None]]:
    """Fires to come and why some of them will be skipped, as long as it may run."""
    found: list[tuple[Fire, str | None]] = []
    for fire in fires:
        if left <= 0:
            break
        held = shade.reason(fire.nominal_at)
        left -= held is None
        found.append((fire, held))
    return found


def _all_held(fires: list[tuple[Fire, str | None]]) -> list[Advice]:
    return [ALL_HELD] if fires and all(held is not None for _, held in fires) else []


def _all_but_one(asked: Definition | Schedule) -> list[Advice]:
    return [ALL_BUT_ONE] if asked.catch_up.mode == "all" and asked.overlap == "skip" else []


async def upcoming(call: Call) -> Reply:
    """GET /v1/schedules/{id}/upcoming: the next fires of a schedule, from what is decided on."""
    faults = Faults()
    count, after = filters.preview(faults, call.query)
    faults.end()
    found = await call.ports.database.read(lambda tx: schedules.find(tx, call.tenant, call.parameters["id"]))
    schedule = found.schedule
    begin = _begin(schedule)
    left = _left(schedule)
    shade = shade_of(schedule.rule.timezone, schedule.calendars, schedule.skips, found.calendars)
    if after is not None and after > begin + AHEAD_MAX_MS:
        raise Refused("validation_failed", TOO_FAR, errors=[("?from", TOO_FAR)])
    if after is not None and after > begin:
        left -= _run_between(schedule, begin, after, shade) if schedule.max_fires is not None else 0
        begin = after
    halted = schedule.paused and schedule.paused_until is None
    wanted = 0 if halted else count
    fires = await call.kept.aside(
        lambda: _coming(next_fires(schedule.rule, begin, wanted, schedule.end_at), shade, left)
    )
    shown = [schedule_render.fire(one, _due_of(found, one.nominal_at), held) for one, held in fires]
    linted = await call.kept.aside(lambda: lint(schedule.rule, begin, schedule.end_at))
    advice = unless_spread(linted, schedule.jitter_ms)
    advice += await _advice(call, schedule.rule, begin, fires, schedule.jitter_ms, schedule)
    advice += ([PAUSED] if schedule.paused else []) + _all_held(fires) + _all_but_one(schedule)
    return answer(OK, _document(schedule.rule, shown, advice))


def _run_between(schedule: Schedule, begin: int, after: int, shade: Shade) -> int:
    """How many times run before those that are asked for: what is held does not count against `max_fires`."""
    first = next_fire(schedule.rule, begin)
    if first is None or first.nominal_at > after:
        return 0
    times = Backlog(schedule.rule, first, after, shade).open_times()
    if times is None:
        raise Refused("validation_failed", TOO_MANY, errors=[("?from", TOO_MANY)])
    return times


def _begin(schedule: Schedule) -> int:
    """The instant after which its next time is: what is decided, its beginning, or a pause, whichever is last."""
    begin = schedule.cursor_at if schedule.start_at is None else max(schedule.cursor_at, schedule.start_at - 1)
    return max(begin, schedule.paused_until) if schedule.paused and schedule.paused_until is not None else begin


def _left(schedule: Schedule) -> int:
    """How many more times it may run."""
    return filters.PREVIEW_MAX if schedule.max_fires is None else schedule.max_fires - schedule.fired


def _due_of(found: Seen, nominal_at: int) -> int:
    """When a fire starts; the one that is made ahead may have been moved by hand."""
    ahead = found.tasks.get(found.schedule.next_id or "")
    if ahead is not None and ahead.run_at == nominal_at:
        return ahead.due_at
    return due_of(found.schedule, nominal_at)


def _document(rule: Rule, fires: list[Document], advice: list[Advice]) -> Document:
    return {
        "fires": fires,
        "description": describe(rule),
        "warnings": [{"code": one.code, "detail": one.detail} for one in advice],
    }
