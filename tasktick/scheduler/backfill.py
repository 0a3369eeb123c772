"""A backfill: times of a schedule that have passed, and did not run, run after all. Pure.

The times are those of the rule that the schedule has now, in a stretch of the past. One that the ledger does not have
gets its row; one that was missed or skipped keeps its row and its task, which is taken up again; what ran, or is still
to be decided, is left alone. So a backfill that is repeated, or goes on after it was cut off, finds what it has done,
and does the rest. What runs is what the schedule sends now.

A stretch of the ledger is cut where times of it run: what is left of it before and behind them are stretches again,
with counts of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from tasktick.model.change import Change, reopen
from tasktick.model.line import LineFire, backfill_line
from tasktick.model.schedule import LedgerRow, NewFire, Outcome, Plan, Schedule, is_started, take_back
from tasktick.model.state import State
from tasktick.model.task import TaskState
from tasktick.scheduler.book import Moment, new_fire
from tasktick.scheduler.plan import first_fire, with_ahead
from tasktick.timetable.calendars import ASKED_FOR, Shade
from tasktick.timetable.fires import Fire, next_fire
from tasktick.timetable.policy import WALKED_MAX
from tasktick.timetable.upcoming import count_fires, last_fire, walked

Kind = Literal["absent", "missed", "skipped", "kept", "held", "forgotten", "beyond"]
RUNS: frozenset[Kind] = frozenset({"absent", "missed", "skipped"})
REASON = "backfill"
_IDLE: dict[Outcome, State] = {"skipped": State.SKIPPED, "missed": State.MISSED}


class Verdict(msgspec.Struct, frozen=True):
    """What a backfill makes of a time: it runs as what it was, or is left alone for a reason."""

    fire: Fire
    kind: Kind
    row: LedgerRow | None = None
    """The row that it has, or the stretch that it is part of."""

    @property
    def runs(self) -> bool:
        """Whether it is to run."""
        return self.kind in RUNS


def bounds(schedule: Schedule, from_at: int, to_at: int) -> tuple[int, int]:
    """What of a stretch of the past a backfill may reach: what has been decided, between start and end."""
    begin = from_at if schedule.start_at is None else max(from_at, schedule.start_at)
    end = min(to_at, schedule.cursor_at)
    return begin, end if schedule.end_at is None else min(end, schedule.end_at)


def runs_left(schedule: Schedule, tasks: Mapping[str, TaskState]) -> int | None:
    """How many more times it may run: `max_fires` counts those of a backfill too. None is any."""
    if schedule.max_fires is None:
        return None
    ahead = tasks.get(schedule.next_id or "")
    # One that has begun is a run, though that is not written down yet.
    return max(0, schedule.max_fires - schedule.fired - (ahead is not None and is_started(ahead)))


def verdicts(
    schedule: Schedule,
    fires: Sequence[Fire],
    rows: Sequence[LedgerRow],
    shade: Shade,
    *,
    held_too: bool,
    left: int | None,
) -> list[Verdict]:
    """What becomes of each of these times, in order; `rows` are all that have to do with them."""
    by_time = {row.nominal_at: row for row in rows}
    stretches = [row for row in rows if row.until_at is not None]
    known = {row.nominal_at: _is_of(schedule, row) for row in stretches}
    found: list[Verdict] = []
    runs = 0
    for fire in fires:
        row = by_time.get(fire.nominal_at) or next(
            (one for one in stretches if one.nominal_at <= fire.nominal_at <= one.last_at), None
        )
        kind = _kind(schedule, fire, row, None if held_too else shade)
        if row is not None and not known.get(row.nominal_at, True):
            kind = "kept"
        if kind in RUNS and left is not None and runs >= left:
            kind = "beyond"
        runs += kind in RUNS
        found.append(Verdict(fire, kind, row))
    return found


def _kind(schedule: Schedule, fire: Fire, row: LedgerRow | None, shade: Shade | None) -> Kind:
    at = fire.nominal_at
    held = shade is not None and (shade.reason(at) is not None or (row is not None and row.reason == ASKED_FOR))
    if row is None:
        gone_from, gone_until = schedule.gone_from, schedule.gone_until
        if gone_from is not None and gone_until is not None and gone_from <= at <= gone_until:
            return "forgotten"
        return "held" if held else "absent"
    if row.outcome == "run":
        return "kept"
    return "held" if held else row.outcome


def _is_of(schedule: Schedule, row: LedgerRow) -> bool:
    """Whether a stretch is one of the rule that the schedule has now: then its times are known one by one."""
    first = next_fire(schedule.rule, row.nominal_at - 1)
    if first is None or first.nominal_at != row.nominal_at:
        return False
    if walked(schedule.rule, row.nominal_at, row.last_at) > WALKED_MAX:  # no stretch of it is so long
        return False
    if 1 + count_fires(schedule.rule, row.nominal_at, row.last_at) != row.times:
        return False
    last = next_fire(schedule.rule, row.last_at - 1)
    return last is not None and last.nominal_at == row.last_at


class Tasks(msgspec.Struct, frozen=True):
    """The tasks that a plan rests on: those of the schedule, and those of times that did not run."""

    of_schedule: Mapping[str, TaskState]
    idle: Mapping[str, TaskState]


def backfill(
    schedule: Schedule, found: Sequence[Verdict], tasks: Tasks, moment: Moment, *, in_line: bool = False
) -> Plan:
    """Let those run that are to; `in_line` has them wait for their turn."""
    filling = _Filling(schedule, tasks.idle, moment, in_line=in_line)
    runs = [one for one in found if one.runs]
    for stretch, group in groupby(runs, lambda one: one.row if one.row and one.row.until_at is not None else None):
        mine = list(group)
        for one in mine:
            filling.run(one, stretch)
        if stretch is not None:
            filling.leave(stretch, [one.fire for one in mine])
    after = _counted(schedule, runs)
    if first_fire(schedule) is not None and first_fire(after) is None:
        # It has run as often as it may: what is ahead of it goes.
        base = take_back(after, tasks.of_schedule, moment.by)
        plan = with_ahead(msgspec.structs.replace(base, before=schedule), moment)
    else:
        plan = Plan(schedule, after, tuple(tasks.of_schedule.values()))
    return filling.added_to(plan)


def _counted(schedule: Schedule, runs: Sequence[Verdict]) -> Schedule:
    if not runs:
        return schedule
    latest = max(one.fire.nominal_at for one in runs)
    return msgspec.structs.replace(
        schedule,
        fired=schedule.fired + len(runs),
        skipped=schedule.skipped - sum(one.kind == "skipped" for one in runs),
        missed=schedule.missed - sum(one.kind == "missed" for one in runs),
        last_fire_at=latest if schedule.last_fire_at is None else max(schedule.last_fire_at, latest),
    )


class _Filling:
    """Rows and tasks, added up."""

    def __init__(self, schedule: Schedule, idle: Mapping[str, TaskState], moment: Moment, *, in_line: bool) -> None:
        self._schedule = schedule
        self._idle = idle
        self._moment = moment
        self._state = State.BLOCKED if in_line else State.SCHEDULED
        self._born: list[NewFire] = []
        self._changes: list[Change] = []
        self._joins: list[LineFire] = []
        self._new: list[LedgerRow] = []
        self._left: list[LedgerRow] = []
        self._rewritten: list[LedgerRow] = []

    def run(self, one: Verdict, stretch: LedgerRow | None) -> None:
        """The row and the task of a time that runs."""
        row = one.row
        if row is None or stretch is not None:
            task_id = self._made(one.fire, self._state)
            cut = self._row(one.fire, task_id, stretch)
            self._join(one.fire, task_id)
            first = stretch is not None and stretch.nominal_at == one.fire.nominal_at
            (self._rewritten if first else self._new).append(cut)
            return
        task = self._idle.get(row.task_id or "")
        if task is None:  # retention has taken it
            task_id = self._made(one.fire, self._state)
        else:
            task_id = task.id
            self._changes.append(self._taken_up(task))
        self._join(one.fire, task_id)
        self._rewritten.append(self._row(one.fire, task_id, row))

    def _join(self, fire: Fire, task_id: str) -> None:
        """Its place in the line, in the order of the calendar."""
        schedule = self._schedule
        if self._state is State.BLOCKED:
            line = backfill_line(schedule.id)
            self._joins.append(LineFire(task_id, line, schedule.tenant, task_id, fire.nominal_at, waits=True))

    def _made(self, fire: Fire, state: State, reason: str | None = None) -> str:
        """A task that is due at once, or one that has ended before it began."""
        due = self._moment.by.now if state in (State.SCHEDULED, State.BLOCKED) else fire.nominal_at
        born = new_fire(self._schedule, fire.nominal_at, due, state, self._moment, reason=reason)
        self._born.append(born)
        return born.state.id

    def _taken_up(self, task: TaskState) -> Change:
        """The task of a time that did not run, to send what its schedule sends now."""
        now, template = self._moment.by.now, self._schedule.template
        change = reopen(task, now, waits=self._state is State.BLOCKED)
        after = msgspec.structs.replace(
            change.after,
            queue=template.queue,
            host=template.host,
            priority=template.priority,
            max_attempts=template.max_attempts,
            timeout_ms=template.timeout_ms,
            at_most_once=template.at_most_once,
            expires_at=None if template.expires_in_ms is None else now + template.expires_in_ms,
            payload_version=self._schedule.payload_version,
            template_id=self._schedule.id,
        )
        return msgspec.structs.replace(change, after=after)

    def _row(self, fire: Fire, task_id: str, was: LedgerRow | None) -> LedgerRow:
        by = self._moment.by
        return LedgerRow(
            schedule_id=self._schedule.id,
            nominal_at=fire.nominal_at,
            outcome="run",
            local_ms=fire.local_ms,
            schedule_version=self._schedule.version,
            node=by.node,
            epoch=by.epoch,
            tzdata=by.tzdata,
            decided_at=by.now,
            reason=REASON,
            task_id=task_id,
            collapsed=fire.collapsed,
            was=None if was is None else was.as_former,
        )

    def leave(self, stretch: LedgerRow, cut: Sequence[Fire]) -> None:
        """What is left of a stretch of which these times run."""
        rest = stretch.times - len(cut)
        for first, last_at in _left(self._schedule, stretch, cut):
            times = 1 + count_fires(self._schedule.rule, first.nominal_at, last_at)
            rest -= times
            alone = times == 1
            row = msgspec.structs.replace(
                stretch,
                nominal_at=first.nominal_at,
                local_ms=first.local_ms,
                collapsed=first.collapsed,
                until_at=None if alone else last_at,
                times=times,
                task_id=self._made(first, _IDLE[stretch.outcome], stretch.reason) if alone else None,
            )
            (self._rewritten if first.nominal_at == stretch.nominal_at else self._left).append(row)
        assert rest == 0, "the times of a stretch are those that run, and those that are left"

    def added_to(self, plan: Plan) -> Plan:
        """The plan, with all this."""
        return msgspec.structs.replace(
            plan,
            born=(*plan.born, *self._born),
            changes=(*plan.changes, *self._changes),
            ledger=(*plan.ledger, *self._new),
            left=(*plan.left, *self._left),
            rewritten=(*plan.rewritten, *self._rewritten),
            joins=(*plan.joins, *self._joins),
        )


def _left(schedule: Schedule, stretch: LedgerRow, cut: Sequence[Fire]) -> Iterator[tuple[Fire, int]]:
    """The pieces of a stretch between the times that are cut out of it: the first time of each, and the last."""
    rule = schedule.rule
    first = next_fire(rule, stretch.nominal_at - 1)
    for fire in cut:
        if first is not None and first.nominal_at < fire.nominal_at:
            last = last_fire(rule, first.nominal_at, fire.nominal_at - 1) or first
            yield first, last.nominal_at
        first = next_fire(rule, fire.nominal_at)
    if first is not None and first.nominal_at <= stretch.last_at:
        yield first, stretch.last_at
