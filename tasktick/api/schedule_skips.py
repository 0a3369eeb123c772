"""Single times of a schedule, left out and let in again."""

from tasktick.api.call import Call, Reply
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.schedule_schemas import Occurrence
from tasktick.api.schedule_writes import Work, answered, opened
from tasktick.api.times import instant_ms, written
from tasktick.errors import Refused
from tasktick.model.schedule import Schedule
from tasktick.scheduler.plan import is_time_of
from tasktick.store.protocol import Transaction

OCCURRENCE = Decoder(Occurrence)
SKIPS_MAX = 100


async def skip(call: Call) -> Reply:
    """POST /v1/schedules/{id}/skip: this time of it will not run; one that is left out already stays so."""
    at = _at(call)

    async def operation(tx: Transaction) -> Work:
        work = await opened(call, tx)
        schedule = work.schedule
        if at in schedule.skips:
            return work
        _check_ahead(schedule, at, call.now)
        if not is_time_of(schedule, at):
            why = "This is no time of the schedule: GET /v1/schedules/{id}/upcoming lists them."
            raise Refused("validation_failed", why, errors=[("/at", why)])
        if len(schedule.skips) >= SKIPS_MAX:
            why = f"This schedule leaves out {SKIPS_MAX} times already. A calendar takes more."
            raise Refused("state_conflict", why)
        await work.set_skips(tuple(sorted((*schedule.skips, at))))
        _check_ahead(work.schedule, at, call.now)  # it may have been run by hand, ahead of its time
        return work

    return await answered(call, operation)


async def unskip(call: Call) -> Reply:
    """POST /v1/schedules/{id}/unskip: this time of it will run after all; one that is not left out stays so."""
    at = _at(call)

    async def operation(tx: Transaction) -> Work:
        work = await opened(call, tx)
        schedule = work.schedule
        if at in schedule.skips:
            await work.set_skips(tuple(one for one in schedule.skips if one != at))
        else:
            _check_ahead(schedule, at, call.now)
        return work

    return await answered(call, operation)


def _at(call: Call) -> int:
    request: Occurrence = OCCURRENCE.decode(call.body, call.ports.config.server.json_depth_max)
    faults = Faults()
    at = 0
    try:
        at = instant_ms(request.at)
    except ValueError as error:
        faults.add("/at", str(error))
    faults.end()
    return at


def _check_ahead(schedule: Schedule, at: int, now: int) -> None:
    """Refuse a time that has passed, or about which it is decided."""
    decided_at = max(schedule.cursor_at, now)
    if at <= decided_at:
        detail = (
            f"It is too late to say what becomes of times up to {written(decided_at)}: see "
            "GET /v1/schedules/{id}/fires. A time that was skipped can be run: POST /v1/tasks/{id}/run."
        )
        raise Refused("state_conflict", detail)
