"""From a request to what a schedule is: when it fires, and what each fire is. Nothing is written here."""

from typing import Any, get_args

import msgspec
from msgspec import UNSET

from tasktick.api import faults as checks
from tasktick.api.calendar_requests import uses_as_asked, uses_of
from tasktick.api.faults import Faults
from tasktick.api.schedule_schemas import (
    CatchUpRequest,
    DstRequest,
    PreviewRequest,
    SchedulePatch,
    ScheduleRequest,
    ScheduleTaskRequest,
    SpecRequest,
    Timing,
)
from tasktick.api.target_requests import Sealing, aim_of, retry_of
from tasktick.api.task_requests import DELAY_MAX_MS, JITTER_MAX_MS, PRIORITY_MAX, SLA_MAX_MS
from tasktick.api.times import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    OUT_OF_RANGE,
    Duration,
    Instant,
    duration_ms,
    instant_ms,
    local_ms,
    seconds,
    seconds_or_none,
)
from tasktick.errors import Refused
from tasktick.model.calendar import CalendarUse
from tasktick.model.schedule import CATCH_UP_MAX, FAILURES_MAX, CatchUp, FireTemplate, Member, Overlap, Rule, Schedule
from tasktick.model.task import DEFAULT_PRIORITY, DEFAULT_QUEUE, DEFAULT_SLA_MS, Payload
from tasktick.timetable.fires import cursor_at
from tasktick.timetable.interval import EVERY_MIN_MS
from tasktick.timetable.local import instant_of
from tasktick.timetable.rule import check

NOTE_CHARS_MAX = 1_000
OVERLAP_KEY_CHARS_MAX = 128
FIRES_MAX = 1_000_000_000
RULES = ("cron", "every", "rrule", "spec")
# Fires may lie in the year 9998, and what expires must do so before calendars end.
EXPIRES_MAX_MS = 366 * 86_400_000
OVERLAPS: dict[str, Overlap] = {one: one for one in get_args(Overlap)}


class Definition(msgspec.Struct, frozen=True):
    """What a client says about a schedule, but for what each fire is."""

    rule: Rule
    start_at: int | None
    end_at: int | None
    max_fires: int | None
    calendars: tuple[CalendarUse, ...]
    jitter_ms: int
    overlap: Overlap
    overlap_key: str | None
    catch_up: CatchUp
    pause_on_failures: int | None
    name: str | None
    note: str | None
    tags: dict[str, str]


class Content(msgspec.Struct, frozen=True):
    """What each fire is, and what it sends."""

    template: FireTemplate
    payload: Payload


class Asked(msgspec.Struct, frozen=True):
    """A schedule as a request asks for it."""

    definition: Definition
    content: Content
    key: str | None = None
    paused: bool | None = None


def asked_for(request: ScheduleRequest, sealing: Sealing) -> Asked:
    """What a request asks for, or the refusal with every fault."""
    faults = Faults()
    definition = definition_of(faults, request)
    content = content_of(faults, request.task, sealing)
    key = checks.key(faults, "/key", request.key)
    faults.end()
    return Asked(definition, content, key, request.paused)


class Tried(msgspec.Struct, frozen=True):
    """A schedule to try: whole if its content is given."""

    definition: Definition
    content: Content | None
    key: str | None
    paused: bool | None


def previewed(faults: Faults, request: PreviewRequest, sealing: Sealing) -> Tried:
    """A schedule to try, as far as it is given; all of it is judged."""
    content = None if request.task is None else content_of(faults, request.task, sealing)
    key = checks.key(faults, "/key", request.key)
    return Tried(definition_of(faults, request), content, key, request.paused)


def definition_of(faults: Faults, asked: Timing) -> Definition:
    """When it fires, and what becomes of times that cannot be kept."""
    rule = rule_of(faults, asked)
    start_at = _instant(faults, "/start_at", asked.start_at, rule.timezone)
    end_at = _instant(faults, "/end_at", asked.end_at, rule.timezone)
    if start_at is not None and end_at is not None and end_at < start_at:
        faults.add("/end_at", "This is before `start_at`.")
    if asked.max_fires is not None and not 1 <= asked.max_fires <= FIRES_MAX:
        faults.add("/max_fires", f"This must be from 1 to {FIRES_MAX}.")
    return Definition(
        rule=rule,
        start_at=start_at,
        end_at=end_at,
        max_fires=asked.max_fires,
        calendars=uses_of(faults, asked.calendars),
        jitter_ms=checks.duration(faults, "/jitter", asked.jitter, 0, JITTER_MAX_MS),
        overlap=_overlap(faults, asked.overlap),
        overlap_key=_overlap_key(faults, asked.overlap_key),
        catch_up=_catch_up(faults, asked.catch_up or CatchUpRequest()),
        pause_on_failures=_failures(faults, asked.pause_on_failures),
        name=checks.text(faults, "/name", asked.name),
        note=checks.text(faults, "/note", asked.note, NOTE_CHARS_MAX),
        tags=checks.tags(faults, "/tags", asked.tags),
    )


def rule_of(faults: Faults, asked: Timing) -> Rule:
    """The times that are asked for; what is wrong with them is noted."""
    dst = asked.dst or DstRequest()
    timezone = "UTC" if asked.timezone is None else asked.timezone
    if asked.spec == []:
        faults.add("/spec", "This names no rule: leave it out, or give one.")
        return Rule(every_ms=EVERY_MIN_MS)  # one that is right, so that no other fault follows from it
    rule = Rule(
        cron=asked.cron,
        every_ms=_every(faults, "/every", asked.every),
        anchor_at=_instant(faults, "/anchor", asked.anchor, timezone),
        rrule=asked.rrule,
        spec=tuple(_member(faults, f"/spec/{place}", one, timezone) for place, one in enumerate(asked.spec or ())),
        timezone=timezone,
        gap=dst.gap or "run_after",
        repeat=dst.repeat or "first",
    )
    try:
        check(rule)
    except Refused as refused:
        for pointer, detail in refused.errors:
            faults.add(pointer, detail, refused.code)
    return rule


def _member(faults: Faults, pointer: str, asked: SpecRequest, timezone: str) -> Member:
    return Member(
        cron=asked.cron,
        every_ms=_every(faults, f"{pointer}/every", asked.every),
        anchor_at=_instant(faults, f"{pointer}/anchor", asked.anchor, timezone),
        rrule=asked.rrule,
    )


def _every(faults: Faults, pointer: str, value: Duration | None) -> int | None:
    try:
        return None if value is None else duration_ms(value)
    except ValueError as error:
        faults.add(pointer, str(error))
        return EVERY_MIN_MS  # one that is right, so that no other fault follows from it


def _instant(faults: Faults, pointer: str, value: Instant | None, timezone: str) -> int | None:
    """An instant; a local time is of the schedule's own zone, in which it must exist."""
    if value is None:
        return None
    try:
        local = local_ms(value)
        if local is None:
            return instant_ms(value)
        at = instant_of(timezone, local)
    except ValueError as error:
        faults.add(pointer, str(error))
        return None
    except Refused:  # there is no such zone, which is told where the rule is judged
        return None
    if at is None:
        faults.add(pointer, f"The clocks of {timezone} go forward over this time, so it does not exist there.")
    elif not INSTANT_MIN_MS <= at <= INSTANT_MAX_MS:
        faults.add(pointer, OUT_OF_RANGE)
    return at


def _overlap(faults: Faults, asked: str | None) -> Overlap:
    if asked is not None and asked not in OVERLAPS:
        faults.add("/overlap", f"This is one of {', '.join(OVERLAPS)}.")
    return OVERLAPS.get(asked or "", "skip")


def _overlap_key(faults: Faults, asked: str | None) -> str | None:
    if asked == "":
        faults.add("/overlap_key", "This is empty: leave it out, or give a name of 1 to 128 characters.")
    return checks.text(faults, "/overlap_key", asked, OVERLAP_KEY_CHARS_MAX)


def _failures(faults: Faults, asked: int | None) -> int | None:
    return None if asked is None else checks.number(faults, "/pause_on_failures", asked, 1, 1, FAILURES_MAX)


def _catch_up(faults: Faults, asked: CatchUpRequest) -> CatchUp:
    window_ms = None
    if asked.window is not None:
        window_ms = checks.duration(faults, "/catch_up/window", asked.window, 0, DELAY_MAX_MS, least_ms=1)
    most = checks.number(faults, "/catch_up/max", asked.max, CATCH_UP_MAX, 1, CATCH_UP_MAX)
    return CatchUp(asked.mode or "latest", window_ms, most)


def content_of(faults: Faults, request: ScheduleTaskRequest, sealing: Sealing) -> Content:
    """What each fire is."""
    aim = aim_of(faults, request.target, sealing, "/task/target")
    retry = retry_of(faults, request.retry, "/task/retry")
    expires_in_ms = None
    if request.expires_in is not None:
        expires_in_ms = checks.duration(faults, "/task/expires_in", request.expires_in, 0, EXPIRES_MAX_MS, least_ms=1)
    template = FireTemplate(
        host=aim.lane,
        queue=checks.name_of(faults, "/task/queue", request.queue, DEFAULT_QUEUE),
        priority=checks.number(faults, "/task/priority", request.priority, DEFAULT_PRIORITY, 0, PRIORITY_MAX),
        max_attempts=retry.max_attempts,
        timeout_ms=aim.target.timeout_ms,
        sla_ms=checks.duration(faults, "/task/sla", request.sla, DEFAULT_SLA_MS, SLA_MAX_MS),
        at_most_once=request.delivery == "at_most_once",
        expires_in_ms=expires_in_ms,
        name=checks.text(faults, "/task/name", request.name),
        type=checks.text(faults, "/task/type", request.type),
        tags=checks.tags(faults, "/task/tags", request.tags),
    )
    return Content(template, Payload(aim.target, retry))


def new_schedule(asked: Asked, schedule_id: str, tenant: str, now: int) -> Schedule:
    """The row of a schedule that begins now."""
    cursor = cursor_at(asked.definition.rule, now)
    return Schedule(
        id=schedule_id,
        tenant=tenant,
        version=1,
        created_at=now,
        updated_at=now,
        template=asked.content.template,
        payload_version=1,
        cursor_at=cursor.at,
        cursor_local_ms=cursor.local_ms,
        key=asked.key,
        paused=bool(asked.paused),
        pause_reason="requested" if asked.paused else None,
        **fields_of(asked.definition),
    )


def fields_of(definition: Definition) -> dict[str, Any]:
    """A definition as columns of a schedule's row."""
    return {name: getattr(definition, name) for name in Definition.__struct_fields__}


def patched(schedule: Schedule, patch: SchedulePatch, sealing: Sealing) -> tuple[Definition, Content | None]:
    """The schedule with what a PATCH gives in place of what it had."""
    faults = Faults()
    asked = _as_asked(schedule)
    for name in Timing.__struct_fields__:
        given = getattr(patch, name)
        if given is not UNSET:
            setattr(asked, name, given)
    _check_rule(faults, schedule.rule, patch)
    definition = definition_of(faults, asked)
    content = None
    if isinstance(patch.task, ScheduleTaskRequest):
        content = content_of(faults, patch.task, sealing)
    faults.end()
    return definition, content


def _check_rule(faults: Faults, rule: Rule, patch: SchedulePatch) -> None:
    """A rule of another kind takes the place of the one that is there only if that is taken away."""
    given = [name for name in RULES if getattr(patch, name) is not UNSET and getattr(patch, name) is not None]
    before = {"cron": rule.cron, "every": rule.every_ms, "rrule": rule.rrule, "spec": rule.spec}
    left = [name for name in RULES if before[name] and getattr(patch, name) is UNSET and name not in given]
    if given and left:
        faults.add(
            f"/{given[0]}", f'It has `{left[0]}`, and only one of them can stand there: say `"{left[0]}": null` too.'
        )
        faults.end()


def _as_asked(schedule: Schedule) -> Timing:
    """The schedule in the words of a request for it."""
    rule, late = schedule.rule, schedule.catch_up
    return Timing(
        cron=rule.cron,
        every=seconds_or_none(rule.every_ms),
        anchor=seconds_or_none(rule.anchor_at),
        rrule=rule.rrule,
        spec=[_member_as_asked(one) for one in rule.spec] or None,
        timezone=rule.timezone,
        dst=DstRequest(rule.gap, rule.repeat),
        start_at=seconds_or_none(schedule.start_at),
        end_at=seconds_or_none(schedule.end_at),
        max_fires=schedule.max_fires,
        calendars=uses_as_asked(schedule.calendars),
        jitter=seconds(schedule.jitter_ms),
        overlap=schedule.overlap,
        overlap_key=schedule.overlap_key,
        pause_on_failures=schedule.pause_on_failures,
        catch_up=CatchUpRequest(late.mode, seconds_or_none(late.window_ms), late.max),
        name=schedule.name,
        tags=schedule.tags,
        note=schedule.note,
    )


def _member_as_asked(one: Member) -> SpecRequest:
    return SpecRequest(one.cron, seconds_or_none(one.every_ms), seconds_or_none(one.anchor_at), one.rrule)
