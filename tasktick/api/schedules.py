"""Schedules: for now what one would come to. Nothing is stored, so that a schedule can be tried before there is one."""

from typing import Any

from tasktick.api import filters
from tasktick.api.call import Call, Reply, answer
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.schemas import TimingRequest
from tasktick.api.tasks import OK
from tasktick.api.times import Duration, Instant, duration_ms, instant_ms, written
from tasktick.errors import Refused
from tasktick.model.schedule import Rule
from tasktick.timetable.describe import describe
from tasktick.timetable.fires import Fire
from tasktick.timetable.lint import lint
from tasktick.timetable.rule import check
from tasktick.timetable.upcoming import upcoming

TIMING = Decoder(TimingRequest)
FIRES_MAX = 1_000_000_000


async def preview(call: Call) -> Reply:
    """POST /v1/schedules/preview: the next fires of an unsaved schedule, in words, and what is odd about it."""
    faults = Faults()
    count, after = filters.preview(faults, call.query, call.now)
    request: TimingRequest = TIMING.decode(call.body, call.ports.config.server.json_depth_max)
    rule = _rule(faults, request)
    start_at = _instant(faults, "/start_at", request.start_at)
    end_at = _instant(faults, "/end_at", request.end_at)
    if start_at is not None and end_at is not None and end_at < start_at:
        faults.add("/end_at", "This is before `start_at`.")
    if request.max_fires is not None and not 1 <= request.max_fires <= FIRES_MAX:
        faults.add("/max_fires", f"This must be from 1 to {FIRES_MAX}.")
    faults.end()
    # A fire may come at `start_at` itself, and each is strictly after where the search begins.
    begin = after if start_at is None else max(after, start_at - 1)
    wanted = count if request.max_fires is None else min(count, request.max_fires)
    fires = upcoming(rule, begin, wanted, end_at)
    return answer(OK, _document(rule, fires, begin, end_at))


def _document(rule: Rule, fires: list[Fire], begin: int, end_at: int | None) -> dict[str, Any]:
    return {
        "fires": [
            {
                "nominal": written(fire.nominal_at),
                "local": fire.local,
                "effective": written(fire.nominal_at),
                "note": fire.note,
            }
            for fire in fires
        ],
        "description": describe(rule),
        "warnings": [{"code": one.code, "detail": one.detail} for one in lint(rule, begin, end_at)],
    }


def _rule(faults: Faults, request: TimingRequest) -> Rule:
    dst = request.dst
    rule = Rule(
        cron=request.cron,
        every_ms=_duration(faults, "/every", request.every),
        anchor_at=_instant(faults, "/anchor", request.anchor),
        timezone=request.timezone or "UTC",
        gap=(dst.gap if dst is not None else None) or "run_after",
        repeat=(dst.repeat if dst is not None else None) or "first",
    )
    try:
        check(rule)
    except Refused as refused:
        for pointer, detail in refused.errors:
            faults.add(pointer, detail, refused.code)
    return rule


def _instant(faults: Faults, pointer: str, value: Instant | None) -> int | None:
    try:
        return None if value is None else instant_ms(value)
    except ValueError as error:
        faults.add(pointer, str(error))
        return None


def _duration(faults: Faults, pointer: str, value: Duration | None) -> int | None:
    try:
        return None if value is None else duration_ms(value)
    except ValueError as error:
        faults.add(pointer, str(error))
        return None
