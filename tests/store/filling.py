"""Backfills on a store's `Calendar`, in one transaction each, as the API does them slice by slice."""

from tasktick.model.line import backfill_line
from tasktick.scheduler.backfill import Tasks, Verdict, backfill, bounds, runs_left, verdicts
from tasktick.scheduler.book import Moment, heeding
from tasktick.scheduler.plan import pass_over
from tasktick.store import fires, lines, schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen
from tasktick.timetable.calendars import shade_of
from tasktick.timetable.upcoming import upcoming


async def fill(
    tx: Transaction,
    seen: Seen,
    moment: Moment,
    stretch: tuple[int, int],
    *,
    in_line: bool = False,
    held_too: bool = False,
) -> list[Verdict]:
    """Let times between two instants run, a thousand of them at most; what became of each."""
    passed = pass_over(seen.schedule, seen.tasks, heeding(moment, seen.calendars, seen.line))
    if passed is not None:
        assert await schedules.carry_out(tx, [passed]) == [True]
        [seen] = await schedules.seen(tx, [passed.after])
    schedule = seen.schedule
    begin_at, end_at = bounds(schedule, *stretch)
    times = upcoming(schedule.rule, begin_at - 1, 1_000, end_at) if begin_at <= end_at else []
    if not times:
        return []
    rows = await fires.between(tx, schedule.id, times[0].nominal_at, times[-1].nominal_at)
    shade = shade_of(schedule.rule.timezone, schedule.calendars, schedule.skips, seen.calendars)
    left = runs_left(schedule, seen.tasks)
    found = verdicts(schedule, times, rows, shade, held_too=held_too, left=left)
    ids = [one.row.task_id for one in found if one.runs and one.row is not None and one.row.task_id is not None]
    idle = {task.id: task for task in await tasks.states(tx, ids)} if ids else {}
    plan = backfill(
        schedule, found, Tasks(seen.tasks, idle), heeding(moment, seen.calendars, seen.line), in_line=in_line
    )
    assert await schedules.carry_out(tx, [plan]) == [True]
    if in_line:
        await lines.begin(tx, schedule.tenant, backfill_line(schedule.id), moment.by.now)
    return found
