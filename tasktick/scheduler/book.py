"""The book of a schedule: what becomes of each of its times, in the order of the calendar, and the rows of its fires.

Pure. `plan` says which times are due and what catch-up makes of them; here they are entered one after the other, as
overlap lets them, and add up to a plan.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tasktick.model.calendar import Content
from tasktick.model.change import Change, buffer, hold_back, let_run, miss
from tasktick.model.ids import IdMaker, partition_of
from tasktick.model.line import LineFire
from tasktick.model.schedule import (
    LedgerRow,
    NewFire,
    Outcome,
    Plan,
    Recorder,
    Schedule,
    decide_started,
    freed,
    is_busy,
)
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskDetail, TaskState
from tasktick.scheduler.lines import OVERLAP, Line, Place
from tasktick.timetable import calendars
from tasktick.timetable.calendars import Shade
from tasktick.timetable.fires import Fire, cursor_at
from tasktick.timetable.policy import Late, due_at

_BORN = {"run": State.SCHEDULED, "skipped": State.SKIPPED, "missed": State.MISSED}


class Moment(msgspec.Struct, frozen=True):
    """When and by whom something is decided, and until when nobody was there to decide."""

    by: Recorder
    ids: IdMaker
    gap_until: int
    """Times up to here may have passed unseen: before this start, or over a step of the clock."""
    missed_after_ms: int
    missed_rows_max: int
    calendars: Mapping[str, Content] = {}
    """Those that the schedule names, as they are now."""
    line: tuple[LineFire, ...] = ()
    """Who stands in its line, and its own fires in others."""
    gives_way: bool = False
    """Another that is decided with it takes its place."""


def heeding(moment: Moment, calendars: Mapping[str, Content], line: tuple[LineFire, ...] = ()) -> Moment:
    """The moment, as a schedule sees it that names these calendars and whose line this is."""
    return msgspec.structs.replace(moment, calendars=calendars, line=line) if calendars or line else moment


def shade_of(schedule: Schedule, moment: Moment) -> Shade:
    """What keeps its fires from running."""
    return calendars.shade_of(schedule.rule.timezone, schedule.calendars, schedule.skips, moment.calendars)


def due_of(schedule: Schedule, nominal_at: int) -> int:
    """When a fire of it starts."""
    return due_at(schedule.rule, schedule.id, nominal_at, schedule.jitter_ms)


def new_fire(
    schedule: Schedule,
    nominal_at: int,
    due: int,
    state: State,
    moment: Moment,
    *,
    reason: str | None = None,
    decide_by: int | None = None,
    after_id: str | None = None,
) -> NewFire:
    """The rows of a fire, in its schedule's partition."""
    now, template = moment.by.now, schedule.template
    task_id = moment.ids.new(now, partition_of(schedule.id))
    row = TaskState(
        id=task_id,
        tenant=schedule.tenant,
        state=state,
        queue=template.queue,
        host=template.host,
        priority=template.priority,
        run_at=nominal_at,
        due_at=due,
        wake_at=due,
        max_attempts=template.max_attempts,
        timeout_ms=template.timeout_ms,
        updated_at=now,
        at_most_once=template.at_most_once,
        expires_at=None if template.expires_in_ms is None else due + template.expires_in_ms,
        payload_version=schedule.payload_version,
        completed_at=now if state in TERMINAL else None,
        reason=reason,
        template_id=schedule.id,
        decide_by=decide_by,
        after_id=after_id,
        late_at=None if state in TERMINAL else due + template.sla_ms,
    )
    detail = TaskDetail(
        id=task_id,
        tenant=schedule.tenant,
        created_at=now,
        name=template.name,
        type=template.type,
        tags=template.tags,
        sla_ms=template.sla_ms,
        expires_in_ms=template.expires_in_ms,
        schedule_id=schedule.id,
    )
    return NewFire(row, detail)


class Book:
    """Decisions in the order of the calendar, added up to a plan."""

    def __init__(self, schedule: Schedule, tasks: Mapping[str, TaskState], moment: Moment) -> None:
        self._before = schedule
        self._tasks = tasks
        self.moment = moment
        self._born: list[NewFire] = []
        self._changes: list[Change] = []
        self._ledger: list[LedgerRow] = []
        self._decided: dict[str, TaskState] = {}
        self.schedule = schedule
        # The fire that was made ahead and has not begun: its row is there, whatever is decided.
        self.waiting: TaskState | None = None
        self._busy = is_busy(tasks.get(schedule.last_id or ""), moment.by.now)
        buffered = tasks.get(schedule.buffered_id or "")
        self._line_taken = buffered is not None and buffered.state is State.BLOCKED
        self._line = None if schedule.line is None else Line(schedule, tasks, moment.line, moment.by.now)

    def write_down(self, ahead: TaskState | None) -> None:
        """The fire ahead has begun, or was moved by hand: it runs, or ran."""
        self.schedule, row = decide_started(self.schedule, self._tasks, self.moment.by)
        self._ledger.append(row)
        if ahead is not None:
            self._changes += freed(ahead, self.moment.by.now)
            # Somebody has run it by hand, beside whoever is in its line: the next waits for it too.
            if self._line is not None and is_busy(ahead, self.moment.by.now):
                self._line.join(ahead, waits=False)
        self._busy = is_busy(self._tasks.get(self.schedule.last_id or ""), self.moment.by.now)

    def decide(self, late: Late) -> bool:
        """Let it run, or not, as catch-up and overlap have it; false if the schedule is at its end before it."""
        schedule = self.schedule
        if schedule.max_fires is not None and schedule.fired >= schedule.max_fires:
            return False
        if late.held is not None:
            self.enter(late, "skipped", late.held)
        elif not late.runs:
            self.enter(late, "missed", f"catch_up:{schedule.catch_up.mode}")
        else:
            self._let_in(late)
        return True

    def _let_in(self, late: Late) -> None:
        """It runs, if overlap lets it."""
        place = Place(refused=OVERLAP) if self.moment.gives_way else self._place()
        if place.refused is not None:
            self.enter(late, "skipped", place.refused)
            return
        self.enter(late, "run", "buffered" if place.waits else None, blocked=place.waits)
        line, task_id = self._line, self.schedule.last_id
        if line is None or task_id is None:
            return
        if self.schedule.overlap == "cancel_other":
            self._replace(line.clear(task_id))
        line.join(self._decided[task_id], waits=place.waits)

    def _replace(self, changes: Sequence[Change]) -> None:
        """Those that go for it; one of its own that had not begun was skipped after all, as the ledger will say.

        It may have been written down just before: then that is all that is said of it.
        """
        gone = {one.after.id: one for one in changes}
        self._changes = [one for one in self._changes if one.after.id not in gone] + list(changes)
        unbegun = {name: one.after.reason for name, one in gone.items() if one.ends_unbegun}
        self._ledger = [
            msgspec.structs.replace(row, outcome="skipped", reason=unbegun[row.task_id], missed=0)
            if row.task_id in unbegun
            else row
            for row in self._ledger
        ]
        own = sum(one.after.template_id == self.schedule.id and one.ends_unbegun for one in changes)
        self.schedule = msgspec.structs.replace(
            self.schedule, fired=self.schedule.fired - own, skipped=self.schedule.skipped + own
        )

    def _place(self) -> Place:
        if self._line is not None:
            return self._line.place()
        overlap = self.schedule.overlap
        if not self._busy or overlap == "allow":
            return Place()
        return Place(waits=True) if overlap == "buffer_one" and not self._line_taken else Place(refused=OVERLAP)

    def decide_all(self, verdicts: Sequence[Late]) -> None:
        """Each of these, until the schedule is at its end. Of several that take each other's place the last comes."""
        last = None
        if self.schedule.overlap == "cancel_other":
            last = max((place for place, one in enumerate(verdicts) if one.runs and one.held is None), default=None)
        for place, late in enumerate(verdicts):
            if last is not None and place < last and late.runs and late.held is None:
                self.enter(late, "skipped", OVERLAP)
            elif not self.decide(late):
                return

    def enter(self, late: Late, outcome: Outcome, reason: str | None, *, blocked: bool = False) -> None:
        """Write down what becomes of a time, and give it its task; a stretch of times has none."""
        fire, by = late.fire, self.moment.by
        task_id = None
        if late.times == 1:
            state = State.BLOCKED if blocked else _BORN[outcome]
            task_id = self._task_of(fire, state, None if blocked else reason)
        self._ledger.append(
            LedgerRow(
                schedule_id=self.schedule.id,
                nominal_at=fire.nominal_at,
                outcome=outcome,
                local_ms=fire.local_ms,
                schedule_version=self.schedule.version,
                node=by.node,
                epoch=by.epoch,
                tzdata=by.tzdata,
                decided_at=by.now,
                reason=reason,
                task_id=task_id,
                collapsed=fire.collapsed,
                # Only what runs stands for others.
                missed=late.missed if outcome == "run" else 0,
                until_at=late.until_at,
                times=late.times,
            )
        )
        self._move_on(late, outcome)
        if outcome == "run":
            self._stands_last(task_id, blocked=blocked)

    def _task_of(self, fire: Fire, state: State, reason: str | None) -> str:
        waiting, now = self.waiting, self.moment.by.now
        if waiting is not None and waiting.run_at == fire.nominal_at:
            self.waiting = None
            match state:
                case State.SKIPPED:
                    change = hold_back(waiting, now, reason or "")
                case State.MISSED:
                    change = miss(waiting, now, reason or "")
                case State.BLOCKED:
                    change = buffer(waiting, now)
                case _:
                    change = let_run(waiting, now)
            self._changes.append(change)
            self._decided[waiting.id] = change.after
            return waiting.id
        born = new_fire(self.schedule, fire.nominal_at, self._due(fire), state, self.moment, reason=reason)
        self._born.append(born)
        self._decided[born.state.id] = born.state
        return born.state.id

    def _due(self, fire: Fire) -> int:
        return due_of(self.schedule, fire.nominal_at)

    def _move_on(self, late: Late, outcome: Outcome) -> None:
        last_at = late.fire.nominal_at if late.until_at is None else late.until_at
        local_ms = late.fire.local_ms
        if late.until_at is not None:
            local_ms = cursor_at(self.schedule.rule, last_at).local_ms
        schedule = self.schedule
        self.schedule = msgspec.structs.replace(
            schedule,
            cursor_at=last_at,
            cursor_local_ms=local_ms,
            skips=tuple(one for one in schedule.skips if one > last_at),
            fired=schedule.fired + (outcome == "run"),
            skipped=schedule.skipped + late.times * (outcome == "skipped"),
            missed=schedule.missed + late.times * (outcome == "missed"),
            last_fire_at=late.fire.nominal_at if outcome == "run" else schedule.last_fire_at,
        )

    def _stands_last(self, task_id: str | None, *, blocked: bool) -> None:
        """The fire that the next one must not overlap; in a line it waits for whoever stands there before it."""
        holder_id, buffered_id = self.schedule.holder_id, self.schedule.buffered_id
        if blocked and self._line is None:
            holder_id, buffered_id = self.schedule.last_id, task_id
            self._line_taken = True
        self._busy = True
        self.schedule = msgspec.structs.replace(
            self.schedule, last_id=task_id, holder_id=holder_id, buffered_id=buffered_id
        )

    def plan(self, line: tuple[LineFire, ...] | None = None) -> Plan:
        """What is to be written, if it rests on that only while these stand in its line."""
        return Plan(
            self._before,
            self.schedule,
            tuple(self._tasks.values()),
            tuple(self._born),
            tuple(self._changes),
            # A fire that was made ahead, and has become part of a stretch, has no row of its own any more.
            () if self.waiting is None else (self.waiting,),
            tuple(self._ledger),
            joins=() if self._line is None else tuple(self._line.joins),
            line=line,
            withdrawn_at=self.moment.by.now,
        )
