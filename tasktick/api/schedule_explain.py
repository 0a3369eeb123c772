"""What a schedule did, does or will do at an instant, and why.

What is past is told from the ledger, under the version of the schedule that decided; what is to come from the rule as
it is now. Of a schedule that was deleted the ledger is left, as long as it is kept.
"""

from typing import Any

import msgspec

from tasktick.api import filters, render, schedule_render
from tasktick.api.call import Call, Reply, answer
from tasktick.api.faults import Faults
from tasktick.api.schedule_outlook import ahead, elapsed, no_time
from tasktick.api.tasks import OK
from tasktick.api.times import seconds_or_none, written
from tasktick.errors import Refused
from tasktick.model.ids import KEY_PREFIX, parse, wire
from tasktick.model.schedule import Schedule
from tasktick.store import schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.rows import TaskView
from tasktick.store.schedules import LedgerEntry, Seen
from tasktick.timetable import zones
from tasktick.timetable.explain import beside, fire_at
from tasktick.timetable.fires import FIRST_AT, LAST_AT, Fire

# Rows of a ledger that are looked at to find whose it was.
ROWS_MAX = 20
Step = tuple[str, str]


class Found(msgspec.Struct, frozen=True):
    """What is recorded about an instant of a schedule. One that is deleted has its ledger alone."""

    id: str
    seen: Seen | None
    entry: LedgerEntry | None
    task: TaskView | None

    @property
    def is_exact(self) -> bool:
        """Whether the row is of this very instant, not of a stretch that it lies in."""
        return self.entry is not None and self.entry.row.until_at is None


async def explain(call: Call) -> Reply:
    """GET /v1/schedules/{id}/explain."""
    faults = Faults()
    at = filters.explained_at(faults, call.query, call.now)
    if not FIRST_AT < at < LAST_AT:
        faults.add("?at", "Schedules fire in the years 1900 to 9997.")
    faults.end()
    found = await call.ports.database.read(lambda tx: _found(tx, call, at))
    schedule = None if found.seen is None else found.seen.schedule
    # To look for times of a rule that matches hardly ever takes long.
    fire = None if schedule is None else await call.kept.aside(lambda: _current(schedule, at))
    is_nominal = fire is not None or _is_row_of(found, at)
    before, after = (None, None)
    if schedule is not None:
        rule, start_at, end_at = schedule.rule, schedule.start_at, schedule.end_at
        before, after = await call.kept.aside(lambda: beside(rule, at, start_at, end_at))
    steps = await call.kept.aside(lambda: _steps(call, found, at, is_nominal=is_nominal))
    document = {
        "id": wire(render.SCHEDULE, found.id),
        "at": written(at),
        "local": _local(found, schedule, at),
        "nominal": is_nominal,
        "version": None if schedule is None else schedule.version,
        "steps": [{"code": code, "detail": detail} for code, detail in steps],
        "before": _neighbour(before),
        "after": _neighbour(after),
        "fire": None if found.entry is None else schedule_render.ledger_row(found.entry, call.now),
        "lateness": None
        if found.task is None
        else seconds_or_none(render.lateness_ms(found.task.state, found.task.detail.created_at)),
        "attempts": None if found.task is None else found.task.state.attempt,
    }
    return answer(OK, document)


async def _found(tx: Transaction, call: Call, at: int) -> Found:
    name = call.parameters["id"]
    try:
        seen = await schedules.find(tx, call.tenant, name)
    except Refused:
        if name.startswith(KEY_PREFIX):
            raise  # its key went with it: its id still finds the ledger
        schedule_id = parse(render.SCHEDULE, name, schedules.SCHEDULE)
        if not await _was_of(tx, call.tenant, schedule_id):
            raise
        return await _with_row(tx, call.tenant, Found(schedule_id, None, None, None), at)
    return await _with_row(tx, call.tenant, Found(seen.schedule.id, seen, None, None), at)


async def _was_of(tx: Transaction, tenant: str, schedule_id: str) -> bool:
    """Whether a schedule that is gone was this tenant's: a task that it has made says so."""
    rows = await schedules.ledger(tx, schedule_id, limit=ROWS_MAX)
    ids = [one.row.task_id for one in rows if one.row.task_id is not None]
    return bool(ids) and bool(await tasks.views(tx, tenant, ids, bodies=False))


async def _with_row(tx: Transaction, tenant: str, found: Found, at: int) -> Found:
    entries = await schedules.ledger(tx, found.id, from_at=at, to_at=at + 1, limit=1)
    entry = entries[0] if entries else None
    task_id = None
    if entry is not None:
        task_id = entry.row.task_id
    elif found.seen is not None and found.seen.schedule.next_at == at:
        task_id = found.seen.schedule.next_id
    views = [] if task_id is None else await tasks.views(tx, tenant, [task_id], bodies=False)
    return msgspec.structs.replace(found, entry=entry, task=views[0] if views else None)


def _current(schedule: Schedule, at: int) -> Fire | None:
    """The time that the schedule has at this instant, by its rule as it is now."""
    if schedule.start_at is not None and at < schedule.start_at:
        return None
    if schedule.end_at is not None and at > schedule.end_at:
        return None
    return fire_at(schedule.rule, at)


def _is_row_of(found: Found, at: int) -> bool:
    """Whether the ledger has this instant as a time, whatever the rule is now."""
    if found.entry is None:
        return False
    row = found.entry.row
    return row.nominal_at == at or row.until_at == at


def _steps(call: Call, found: Found, at: int, *, is_nominal: bool) -> list[Step]:
    schedule = None if found.seen is None else found.seen.schedule
    steps: list[Step] = []
    if schedule is None:
        steps.append(("deleted", "The schedule was deleted: this is what its ledger still says."))
    if found.entry is not None and (found.is_exact or is_nominal):
        steps += elapsed(found.entry, found.task, call.now)
        return steps + _since(schedule, found.entry)
    if schedule is None:
        return [*steps, ("not_in_ledger", "The ledger has no row for this instant, and the rule is gone with it.")]
    assert found.seen is not None
    if not is_nominal:
        return steps + no_time(schedule, at)
    return steps + ahead(found.seen, found.task, at, call.now)


def _since(schedule: Schedule | None, entry: LedgerEntry) -> list[Step]:
    """What has changed since the row was written."""
    row, steps = entry.row, list[Step]()
    if schedule is not None and row.schedule_version != schedule.version:
        steps.append(
            (
                "other_version",
                f"This was decided under version {row.schedule_version} of the schedule; it is version "
                f"{schedule.version} now, since {written(schedule.updated_at)}.",
            )
        )
        if _current(schedule, row.nominal_at) is None:
            steps.append(("edited_since", "By its rule as it is now the schedule would have no time then."))
    if row.tzdata != zones.version():
        said = f"This was worked out with the zone data {row.tzdata}; it is {zones.version()} now."
        steps.append(("later_zone_data", said))
    return steps


def _local(found: Found, schedule: Schedule | None, at: int) -> str | None:
    if schedule is not None:
        offset_ms = zones.offset_ms(schedule.rule.timezone, at)
    elif found.entry is not None and found.entry.row.nominal_at == at:
        offset_ms = found.entry.row.local_ms - at
    else:
        return None
    return Fire(at, offset_ms, at + offset_ms).local


def _neighbour(fire: Fire | None) -> dict[str, Any] | None:
    return None if fire is None else {"nominal": written(fire.nominal_at), "local": fire.local}
