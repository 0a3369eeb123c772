"""A schedule: a rule that makes tasks, what it has made, and what becomes of the times that nobody ran.

A time is decided once, in the order of the calendar: it runs, is skipped, or was missed. What is decided stands in
the ledger and moves the cursor, in the transaction that writes the task. Exactly one fire exists ahead, undecided:
an edit or a pause takes it back as if it had never been.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tasktick.model.calendar import CalendarUse
from tasktick.model.change import Change, hold_back, let_run
from tasktick.model.line import LineFire, name_of
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskDetail, TaskState

Gap = Literal["run_after", "skip"]
Repeat = Literal["first", "second", "both"]
Overlap = Literal["skip", "allow", "buffer_one", "buffer_all", "cancel_other"]
PauseReason = Literal["requested", "failures", "gone"]
CatchUpMode = Literal["none", "latest", "earliest", "all"]
Outcome = Literal["run", "skipped", "missed"]

CATCH_UP_MAX = 100
FAILURES_MAX = 1_000
# Reasons of what a backfill let run: that it runs, or how it ended before it began.
BY_BACKFILL = frozenset({"backfill", "cancelled:backfill", "expired:backfill"})
# In these states a fire is on its way: the next one meets it.
BUSY = frozenset({State.BLOCKED, State.RUNNING, State.RETRYING, State.AWAITING})


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rule of several: exactly one of `cron`, `every_ms` and `rrule`."""

    cron: str | None = None
    every_ms: int | None = None
    anchor_at: int | None = None
    """An instant on the grid of `every_ms`; the Unix epoch if None."""
    rrule: str | None = None
    """A recurrence rule of RFC 5545."""


class Rule(Member, frozen=True, omit_defaults=True):
    """Exactly one of `cron`, `every_ms`, `rrule` and `spec`; the rest says how it is read."""

    spec: tuple[Member, ...] = ()
    """Several rules in one: all their times, and equal ones are one fire."""
    timezone: str = "UTC"
    gap: Gap = "run_after"
    """What becomes of a fixed time that does not exist on a day: the first instant after it, or nothing."""
    repeat: Repeat = "first"
    """In which pass of a repeated hour a fixed time fires."""


class CatchUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of times that nobody was there for."""

    mode: CatchUpMode = "latest"
    window_ms: int | None = None
    """Older times are missed, whatever the mode."""
    max: int = CATCH_UP_MAX


class FireTemplate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every fire's row gets; what is sent is stored once, as a payload of the schedule."""

    host: str
    queue: str
    priority: int
    max_attempts: int
    timeout_ms: int
    sla_ms: int
    at_most_once: bool = False
    expires_in_ms: int | None = None
    name: str | None = None
    type: str | None = None
    tags: dict[str, str] = {}


class Schedule(msgspec.Struct, frozen=True):
    """The row, column by column as the store has it."""

    id: str
    tenant: str
    version: int
    created_at: int
    updated_at: int
    rule: Rule
    overlap: Overlap
    catch_up: CatchUp
    template: FireTemplate
    payload_version: int
    cursor_at: int
    cursor_local_ms: int
    key: str | None = None
    name: str | None = None
    note: str | None = None
    tags: dict[str, str] = {}
    start_at: int | None = None
    end_at: int | None = None
    max_fires: int | None = None
    jitter_ms: int = 0
    overlap_key: str | None = None
    """Schedules of a tenant that share it are one for overlap."""
    pause_on_failures: int | None = None
    """After so many fires in a row that gave up, it pauses itself."""
    calendars: tuple[CalendarUse, ...] = ()
    skips: tuple[int, ...] = ()
    """Nominal times to come that somebody has asked to leave out, in order."""
    paused: bool = False
    paused_until: int | None = None
    pause_reason: PauseReason | None = None
    next_id: str | None = None
    next_at: int | None = None
    next_local_ms: int | None = None
    next_due_at: int | None = None
    next_collapsed: int | None = None
    tzdata: str | None = None
    look_at: int | None = None
    last_id: str | None = None
    buffered_id: str | None = None
    holder_id: str | None = None
    last_fire_at: int | None = None
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    failed: int = 0
    consecutive_failures: int = 0
    """Fires of the ledger that gave up since one succeeded, or since it was resumed, in the order of their ends."""
    gone_from: int | None = None
    """Between these two, retention has taken rows from its ledger: what became of a time without one is not known."""
    gone_until: int | None = None

    @property
    def task_ids(self) -> list[str]:
        """The tasks on whose states a decision rests."""
        return [one for one in (self.next_id, self.last_id, self.buffered_id) if one is not None]

    @property
    def line(self) -> str | None:
        """The line in which its fires stand; None if each looks at the one before it alone."""
        return name_of(self.id, self.overlap, self.overlap_key)

    @property
    def ended(self) -> bool:
        """Whether nothing is to come any more."""
        return not self.paused and self.next_id is None


class Former(msgspec.Struct, frozen=True):
    """What had been decided about a time that ran later after all."""

    outcome: Outcome
    reason: str | None
    decided_at: int
    schedule_version: int
    node: str
    epoch: int
    tzdata: str


class LedgerRow(msgspec.Struct, frozen=True):
    """What became of a nominal time, or of a stretch of `times` of them up to `until_at`."""

    schedule_id: str
    nominal_at: int
    outcome: Outcome
    local_ms: int
    schedule_version: int
    node: str
    epoch: int
    tzdata: str
    decided_at: int
    reason: str | None = None
    task_id: str | None = None
    collapsed: int = 1
    missed: int = 0
    until_at: int | None = None
    times: int = 1
    was: Former | None = None
    failed: bool = False
    """Whether its task has given up, once or oftener."""

    @property
    def by_backfill(self) -> bool:
        """Whether a backfill has let it run, begun or not."""
        return self.reason in BY_BACKFILL

    @property
    def last_at(self) -> int:
        """The last time that it is about."""
        return self.nominal_at if self.until_at is None else self.until_at

    @property
    def as_former(self) -> Former:
        """What it says, as it is kept when its time runs after all; of one that ran later once already, the first."""
        if self.was is not None:
            return self.was
        return Former(
            self.outcome, self.reason, self.decided_at, self.schedule_version, self.node, self.epoch, self.tzdata
        )


class Amendment(msgspec.Struct, frozen=True):
    """A fire that was to run and does not after all."""

    schedule_id: str
    nominal_at: int
    outcome: Outcome
    reason: str


class NewFire(msgspec.Struct, frozen=True):
    """The rows of a fire; what it sends is its schedule's."""

    state: TaskState
    detail: TaskDetail


class Plan(msgspec.Struct, frozen=True):
    """What is to be written of one schedule, if schedule and tasks are still as they were seen."""

    before: Schedule
    after: Schedule
    seen: tuple[TaskState, ...] = ()
    born: tuple[NewFire, ...] = ()
    changes: tuple[Change, ...] = ()
    withdrawn: tuple[TaskState, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    left: tuple[LedgerRow, ...] = ()  # of a stretch that is cut: new rows, and nobody's news
    amended: tuple[Amendment, ...] = ()
    rewritten: tuple[LedgerRow, ...] = ()
    """Rows in place of those of the same time."""
    joins: tuple[LineFire, ...] = ()
    """Fires that stand in a line from now on."""
    line: tuple[LineFire, ...] | None = None
    """Who must still stand there, if it rests on that."""
    gives_way_to: str | None = None
    """The schedule whose fire takes the place of its own, if that is written with it."""
    withdrawn_at: int = 0  # when fires were withdrawn, if any were: others are told

    @property
    def rows(self) -> int:
        """How much there is to write."""
        return 1 + 3 * len(self.born) + len(self.changes) + len(self.withdrawn)


class Recorder(msgspec.Struct, frozen=True):
    """Who decides, and when."""

    now: int
    node: str
    epoch: int
    tzdata: str


def is_started(fire: TaskState) -> bool:
    """Whether anybody has begun with it, or ended it: then nothing is left to decide about it but to write it down."""
    return fire.attempt > 0 or fire.state not in (State.SCHEDULED, State.BLOCKED)


def is_busy(fire: TaskState | None, now: int) -> bool:
    """Whether the next fire would overlap this one: it is on its way, or would be if it had had its turn."""
    if fire is None:
        return False
    return fire.state in BUSY or (fire.state is State.SCHEDULED and fire.due_at <= now)


def outcome_of_started(fire: TaskState) -> tuple[Outcome, str | None]:
    """What the ledger says of a fire that was begun, or ended, before its schedule had looked at it."""
    if fire.attempt == 0 and fire.state in (State.CANCELLED, State.EXPIRED):
        return "skipped", fire.state.word
    return "run", None


def without_ahead(schedule: Schedule) -> Schedule:
    """The schedule with nothing ahead of it."""
    return msgspec.structs.replace(
        schedule,
        next_id=None,
        next_at=None,
        next_local_ms=None,
        next_due_at=None,
        next_collapsed=None,
        look_at=None,
    )


def take_back(schedule: Schedule, tasks: Mapping[str, TaskState], by: Recorder) -> Plan:
    """The schedule with nothing ahead of it: a fire that has begun is decided by that, another was never there."""
    seen = tuple(tasks.values())
    if schedule.next_id is None:
        return Plan(schedule, without_ahead(schedule), seen)
    ahead = tasks.get(schedule.next_id)
    if ahead is not None and not is_started(ahead):
        return Plan(schedule, without_ahead(schedule), seen, withdrawn=(ahead,), withdrawn_at=by.now)
    after, row = decide_started(schedule, tasks, by)
    changes = () if ahead is None else freed(ahead, by.now)
    return Plan(schedule, without_ahead(after), seen, changes=changes, ledger=(row,))


def stand_still(schedule: Schedule, tasks: Mapping[str, TaskState], by: Recorder, reason: str) -> Plan:
    """The same, and whoever waits for the fire before it does not run after all: the ledger says why.

    The fire that it waited for is the one that the next must not overlap.
    """
    plan = take_back(schedule, tasks, by)
    waiting = [one for one in tasks.values() if one.state is State.BLOCKED and one.template_id == schedule.id]
    after = msgspec.structs.replace(plan.after, buffered_id=None, holder_id=None)
    last_id = after.last_id
    if last_id in {one.id for one in waiting}:
        last_id = schedule.holder_id if last_id == schedule.buffered_id else _latest_before(schedule, tasks)
    return msgspec.structs.replace(
        plan,
        after=msgspec.structs.replace(
            after, last_id=last_id, fired=after.fired - len(waiting), skipped=after.skipped + len(waiting)
        ),
        changes=(*plan.changes, *(hold_back(one, by.now, reason) for one in waiting)),
        amended=tuple(Amendment(schedule.id, one.run_at, "skipped", reason) for one in waiting),
    )


def _latest_before(schedule: Schedule, tasks: Mapping[str, TaskState]) -> str | None:
    """Of its fires that have not ended and do not wait in a line, the last; by a clock set back it may not be due."""
    mine = [one for one in tasks.values() if one.template_id == schedule.id and one.id != schedule.next_id]
    left = [one for one in mine if one.state is not State.BLOCKED and one.state not in TERMINAL]
    return max(left, key=lambda one: one.due_at).id if left else None


def pause(
    schedule: Schedule,
    tasks: Mapping[str, TaskState],
    by: Recorder,
    until: int | None,
    note: str | None,
    reason: PauseReason = "requested",
) -> Plan:
    """Nothing of it starts any more until it is resumed, or until then; a second pause takes the place of the first."""
    plan = stand_still(schedule, tasks, by, "paused")
    after = msgspec.structs.replace(
        plan.after,
        paused=True,
        paused_until=until,
        pause_reason=reason,
        look_at=until,
        note=schedule.note if note is None else note,
        version=schedule.version + 1,
        updated_at=by.now,
    )
    return msgspec.structs.replace(plan, after=after)


def freed(ahead: TaskState, now: int) -> tuple[Change, ...]:
    """A fire that is held or was moved by hand: once it is decided, nothing but that stands in its way."""
    is_held = ahead.decide_by is not None and ahead.state in (State.SCHEDULED, State.PAUSED)
    return (let_run(ahead, now),) if is_held else ()


def decide_started(schedule: Schedule, tasks: Mapping[str, TaskState], by: Recorder) -> tuple[Schedule, LedgerRow]:
    """The schedule, and the ledger's row, once its fire ahead is known to have begun. One that is gone had ended.

    One that is held or was moved by hand is not in the way of the next: the one before it is, if that is on its way.
    """
    assert schedule.next_id is not None
    assert schedule.next_at is not None
    assert schedule.next_local_ms is not None
    ahead, last = tasks.get(schedule.next_id), tasks.get(schedule.last_id or "")
    outcome, reason = ("run", None) if ahead is None else outcome_of_started(ahead)
    row = LedgerRow(
        schedule_id=schedule.id,
        nominal_at=schedule.next_at,
        outcome=outcome,
        local_ms=schedule.next_local_ms,
        schedule_version=schedule.version,
        node=by.node,
        epoch=by.epoch,
        tzdata=schedule.tzdata or by.tzdata,
        decided_at=by.now,
        reason=reason,
        task_id=schedule.next_id,
        collapsed=schedule.next_collapsed or 1,
        # Who gave up before it was written down could not be counted then.
        failed=ahead is not None and ahead.state is State.DEAD,
    )
    ran = outcome == "run"
    is_next = ran and (is_busy(ahead, by.now) or not is_busy(last, by.now))
    after = msgspec.structs.replace(
        schedule,
        cursor_at=schedule.next_at,
        cursor_local_ms=schedule.next_local_ms,
        skips=tuple(one for one in schedule.skips if one > schedule.next_at),
        last_id=schedule.next_id if is_next else schedule.last_id,
        last_fire_at=schedule.next_at if ran else schedule.last_fire_at,
        fired=schedule.fired + ran,
        skipped=schedule.skipped + (not ran),
        failed=schedule.failed + row.failed,
    )
    return after, row
