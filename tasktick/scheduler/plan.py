"""What a schedule does next, as a value: pure, from the rows that were seen to the rows that are to be.

A plan is made outside any transaction and carried out in one, which looks whether everything is still as it was
seen (`store.schedules`). So the arithmetic of cron holds nobody up, and who comes second plans anew.
"""

from collections.abc import Mapping

import msgspec

from tasktick.errors import Refused
from tasktick.model import pause_note
from tasktick.model.schedule import (
    Plan,
    Schedule,
    is_started,
    take_back,
    without_ahead,
)
from tasktick.model.state import State
from tasktick.model.task import TaskState
from tasktick.scheduler.book import Book, Moment, due_of, new_fire, shade_of
from tasktick.timetable.calendars import CLEAR, Shade
from tasktick.timetable.fires import Cursor, Fire, cursor_at, next_after, next_fire
from tasktick.timetable.policy import Backlog, Late, all_run, catch_up, none_runs
from tasktick.timetable.upcoming import last_fire

RUNS_AT_ONCE_MAX = 200
# A fire that a calendar may hold is let go by the decision about it alone: nobody claims it before. Whoever runs it by
# hand is not held up, but for the last moment.
HELD_BEFORE_MS = 1_000


class LongPause(Refused):
    """What a pause has skipped takes long to count: it is written down in parts (`part_of_pause`) before all else."""

    def __init__(self) -> None:
        detail = "This schedule was paused for long, and what it skipped takes a while to count. Try again in a moment."
        super().__init__("overloaded", detail)


def first_fire(schedule: Schedule) -> Fire | None:
    """The first time that is not decided yet, within what the schedule allows."""
    if _exhausted(schedule):
        return None
    cursor = Cursor(schedule.cursor_at, schedule.cursor_local_ms)
    if schedule.start_at is not None and schedule.start_at > cursor.at:
        fire = next_fire(schedule.rule, schedule.start_at - 1)
    else:
        fire = next_after(schedule.rule, cursor)
    if fire is None or (schedule.end_at is not None and fire.nominal_at > schedule.end_at):
        return None
    return fire


def _exhausted(schedule: Schedule) -> bool:
    """Whether it has run as often as it may."""
    return schedule.max_fires is not None and schedule.fired >= schedule.max_fires


def starts_by_decision(schedule: Schedule) -> bool:
    """Whether its fires start by the decision about them alone: a calendar may hold them, or others have to wait for
    them in a line.
    """
    return schedule.line is not None or bool(schedule.calendars)


def is_time_of(schedule: Schedule, at: int) -> bool:
    """Whether it has a nominal time at this very instant."""
    if (schedule.start_at is not None and at < schedule.start_at) or (
        schedule.end_at is not None and at > schedule.end_at
    ):
        return False
    fire = next_fire(schedule.rule, at - 1)
    return fire is not None and fire.nominal_at == at


def skip(schedule: Schedule, skips: tuple[int, ...], tasks: Mapping[str, TaskState], moment: Moment) -> Plan:
    """Other times to leave out, from now on; the fire ahead is made anew, as it may be one of them."""
    plan = take_back(schedule, tasks, moment.by)
    after = msgspec.structs.replace(
        plan.after,
        skips=tuple(at for at in skips if at > plan.after.cursor_at),
        version=schedule.version + 1,
        updated_at=moment.by.now,
        tzdata=moment.by.tzdata,
    )
    if schedule.ended:
        after = _from_now(after, moment.by.now)
    return with_ahead(msgspec.structs.replace(plan, after=after), moment)


def begin(schedule: Schedule, moment: Moment) -> Plan:
    """A new schedule, with its first fire."""
    return with_ahead(Plan(schedule, schedule), moment)


def settle(schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment) -> Plan | None:
    """Decide about everything that is due, and make the next fire; None if there is nothing to do."""
    now = moment.by.now
    if schedule.paused:
        until = schedule.paused_until
        if until is None or until > now:
            return None
        return part_of_pause(schedule, tasks, moment, until) or resume(schedule, tasks, moment, until)
    if schedule.next_due_at is None:
        return None
    if schedule.next_due_at > now:  # zone data has changed, or times have run later
        return _refreshed(schedule, tasks, moment)
    book = Book(schedule, tasks, moment)
    ahead = tasks.get(schedule.next_id or "")
    if ahead is None or is_started(ahead) or ahead.due_at != schedule.next_due_at:
        book.write_down(ahead)
        first = first_fire(book.schedule)
    else:
        book.waiting = ahead
        # By other zone data it may be at another time, and a day must not fire by both.
        first = _fire_ahead(schedule) if schedule.tzdata == moment.by.tzdata else first_fire(schedule)
    backlog = _backlog(book.schedule, first, now, shade_of(book.schedule, moment))
    # What was decided rests on who stands in its line.
    if backlog is None and book.waiting is None:
        return _with_fire(book.plan(moment.line), first, moment)
    if backlog is not None:
        book.decide_all(_verdicts(book.schedule, backlog, moment))
    return with_ahead(book.plan(moment.line), moment)


def resume(schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment, until: int | None = None) -> Plan:
    """Go on from now, or from when the pause was to end: its times were skipped, later ones are due."""
    now = moment.by.now
    book = Book(schedule, tasks, moment)
    _enter_pause(book, _backlog(schedule, first_fire(schedule), now if until is None else until))
    plan = book.plan()
    after = msgspec.structs.replace(
        plan.after,
        paused=False,
        paused_until=None,
        pause_reason=None,
        note=pause_note.without(schedule.note),
        consecutive_failures=0,
        version=schedule.version + 1,
        updated_at=now,
    )
    return with_ahead(msgspec.structs.replace(plan, after=after), moment)


def _enter_pause(book: Book, backlog: Backlog | None) -> None:
    """These times were skipped by a pause."""
    if backlog is None:
        return
    if backlog.countable() is not backlog:
        raise LongPause
    for late in none_runs(backlog, book.moment.missed_rows_max):
        book.enter(late, "skipped", "paused")


def part_of_pause(schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment, until: int) -> Plan | None:
    """Of a pause that takes long to count, the first part; the rest waits for the next decision."""
    backlog = _backlog(schedule, first_fire(schedule), until)
    part = backlog if backlog is None else backlog.countable()
    if part is None or part is backlog:
        return None
    book = Book(schedule, tasks, moment)
    for late in none_runs(part, 0):
        book.enter(late, "skipped", "paused")
    return book.plan()


def pass_over(schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment) -> Plan | None:
    """Write down what a pause has skipped so far, and stay paused; None if there is nothing."""
    backlog = _backlog(schedule, first_fire(schedule), moment.by.now) if schedule.paused else None
    if backlog is None:
        return None
    book = Book(schedule, tasks, moment)
    _enter_pause(book, backlog)
    return book.plan()


def edit(schedule: Schedule, wanted: Schedule, tasks: Mapping[str, TaskState], moment: Moment) -> Plan:
    """The schedule as it is wanted, from now on. What is due must have been settled before.

    Where its times change, times up to now are the old rule's: the new one begins after them, and never before the
    last time that is decided. So does one that was at its end: times that it did not have are not made up for.
    """
    now = moment.by.now
    bounds = (wanted.rule, wanted.start_at, wanted.end_at) != (schedule.rule, schedule.start_at, schedule.end_at)
    first = first_fire(schedule) if bounds and not schedule.ended else None
    if first is not None and first.nominal_at <= now:
        plan = _written_down(schedule, first, tasks, moment)
    else:
        plan = take_back(schedule, tasks, moment.by)
    done = plan.after
    after = msgspec.structs.replace(
        wanted,
        **{name: getattr(done, name) for name in _PROGRESS},
        version=schedule.version + 1,
        updated_at=now,
        tzdata=moment.by.tzdata,
        # Those that it still has: a change of its times takes the others with it.
        skips=tuple(at for at in done.skips if is_time_of(wanted, at)),
    )
    if (wanted.rule, wanted.start_at) != (schedule.rule, schedule.start_at) or _has_ended(schedule, done):
        after = _from_now(after, now)
    return with_ahead(msgspec.structs.replace(plan, after=after), moment)


def _has_ended(schedule: Schedule, done: Schedule) -> bool:
    """Whether it had no times any more, or has none with what is decided: those since are not made up for.

    One that had run as often as it may stays at its end, though one of its runs did not begin after all.
    """
    return schedule.ended or first_fire(done) is None


def _from_now(schedule: Schedule, now: int) -> Schedule:
    cursor = cursor_at(schedule.rule, max(schedule.cursor_at, now))
    return msgspec.structs.replace(schedule, cursor_at=cursor.at, cursor_local_ms=cursor.local_ms)


def _written_down(schedule: Schedule, first: Fire, tasks: Mapping[str, TaskState], moment: Moment) -> Plan:
    """Times up to now decided by the rule that they are of: a pause has skipped them, a spread only put one off."""
    book = Book(schedule, tasks, moment)
    ahead = tasks.get(schedule.next_id or "")
    if schedule.paused:
        _enter_pause(book, _backlog(schedule, first, moment.by.now))
    elif ahead is None or is_started(ahead) or ahead.due_at != schedule.next_due_at:
        book.write_down(ahead)
    else:
        book.waiting = ahead
        held = shade_of(schedule, moment).reason(first.nominal_at)
        book.decide(Late(first, runs=held is None, held=held))
    plan = book.plan()
    return msgspec.structs.replace(plan, after=without_ahead(plan.after))


_PROGRESS = (
    "cursor_at",
    "cursor_local_ms",
    "next_id",
    "next_at",
    "next_local_ms",
    "next_due_at",
    "next_collapsed",
    "look_at",
    "last_id",
    "buffered_id",
    "holder_id",
    "last_fire_at",
    "fired",
    "skipped",
    "missed",
    "failed",
)


def _backlog(schedule: Schedule, first: Fire | None, now: int, shade: Shade = CLEAR) -> Backlog | None:
    """From the first undecided time to the last that is due: one whose spread puts it later is not."""
    if first is None:
        return None
    until = now if schedule.end_at is None else min(now, schedule.end_at)
    if schedule.jitter_ms and not schedule.paused:
        last = last_fire(schedule.rule, first.nominal_at - 1, until)
        if last is not None and due_of(schedule, last.nominal_at) > now:
            until = last.nominal_at - 1
    return Backlog(schedule.rule, first, until, shade) if first.nominal_at <= until else None


def _verdicts(schedule: Schedule, backlog: Backlog, moment: Moment) -> list[Late]:
    """What runs of it: everything, unless it is old and nobody was there."""
    oldest, young_from = backlog.first.nominal_at, moment.by.now - moment.missed_after_ms
    if due_of(schedule, oldest) >= young_from or oldest > moment.gap_until:
        return all_run(backlog, RUNS_AT_ONCE_MAX)
    return catch_up(schedule.catch_up, backlog, young_from, moment.by.now, moment.missed_rows_max)


def _fire_ahead(schedule: Schedule) -> Fire:
    """The fire that was made ahead, as it was then."""
    at, local_ms = schedule.next_at, schedule.next_local_ms
    assert at is not None
    assert local_ms is not None
    return Fire(at, local_ms - at, local_ms, schedule.next_collapsed or 1)


def _refreshed(schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment) -> Plan:
    """The fire ahead computed anew, if it was by other zone data than there is now, or may not run any more."""
    ahead = tasks.get(schedule.next_id or "")
    changed = schedule.tzdata != moment.by.tzdata or _exhausted(schedule)
    if changed and ahead is not None and not is_started(ahead):
        fire = first_fire(schedule)
        if fire is None or (fire.nominal_at, fire.local_ms) != (schedule.next_at, schedule.next_local_ms):
            return with_ahead(take_back(schedule, tasks, moment.by), moment)
    after = msgspec.structs.replace(schedule, tzdata=moment.by.tzdata, look_at=schedule.next_due_at)
    return Plan(schedule, after, tuple(tasks.values()))


def with_ahead(plan: Plan, moment: Moment) -> Plan:
    """The plan, and the next fire of what it comes to."""
    if plan.after.paused:
        after = msgspec.structs.replace(without_ahead(plan.after), look_at=plan.after.paused_until)
        return msgspec.structs.replace(plan, after=after)
    return _with_fire(plan, first_fire(plan.after), moment)


def _with_fire(plan: Plan, fire: Fire | None, moment: Moment) -> Plan:
    """The plan, and this as its fire ahead; what was ahead before is no more."""
    schedule = plan.after
    if fire is None:
        return msgspec.structs.replace(plan, after=without_ahead(schedule))
    due = due_of(schedule, fire.nominal_at)
    may_be_held = starts_by_decision(schedule) or fire.nominal_at in schedule.skips
    born = new_fire(
        schedule,
        fire.nominal_at,
        due,
        State.SCHEDULED,
        moment,
        decide_by=due - HELD_BEFORE_MS if may_be_held else due + moment.missed_after_ms,
        after_id=None if schedule.line is not None or schedule.overlap == "allow" else schedule.last_id,
    )
    after = msgspec.structs.replace(
        schedule,
        next_id=born.state.id,
        next_at=fire.nominal_at,
        next_local_ms=fire.local_ms,
        next_due_at=due,
        next_collapsed=fire.collapsed,
        look_at=due,
        tzdata=moment.by.tzdata,
    )
    return msgspec.structs.replace(plan, after=after, born=(*plan.born, born))
