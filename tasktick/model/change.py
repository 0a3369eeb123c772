"""Changes to a task that no attempt makes: one constructor for each, from the row before to the row after.

A change is a value; `store.tasks.change` writes it, guarded by the version and the state it was made from.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tasktick.errors import IllegalTransition
from tasktick.model.ids import wire
from tasktick.model.state import TERMINAL, Event, State, advice, after
from tasktick.model.task import TaskState

# In these states a fire may have been decided not to run.
IDLE = frozenset({State.SKIPPED, State.MISSED, State.CANCELLED, State.EXPIRED})
SUPERSEDED = "cancel_other:"


class Change(msgspec.Struct, frozen=True):
    """A transition of one task."""

    event: Event
    before: TaskState
    after: TaskState

    @property
    def frees_key(self) -> bool:
        """Whether the task's key may be used again."""
        return self.after.keyed and self.after.state in TERMINAL

    @property
    def runs_later(self) -> bool:
        """Whether it takes up what never ran: the ledger of a schedule may say that it was missed or skipped."""
        return self.before.state in IDLE and self.after.state not in TERMINAL

    @property
    def reopens(self) -> bool:
        """Whether it takes up what had ended."""
        return self.before.state in TERMINAL and self.after.state not in TERMINAL

    @property
    def takes_key(self) -> bool:
        """Whether the task needs its key again, which it gave up when it ended."""
        return self.after.keyed and self.reopens

    @property
    def ends_unbegun(self) -> bool:
        """Whether this is the end of a fire that was let run and never began: its time was skipped after all."""
        row = self.after
        ended = row.state in (State.CANCELLED, State.EXPIRED) and self.before.state not in TERMINAL
        return ended and row.attempt == 0 and row.template_id is not None


def _change(event: Event, task: TaskState, now: int, **fields: Any) -> Change:
    state = after(event, task.state)
    return Change(event, task, msgspec.structs.replace(task, state=state, updated_at=now, **fields))


def cancel(task: TaskState, now: int) -> Change:
    """Cancel it, or ask it to stop: a running attempt may end, and only a success of it is kept."""
    if task.state is State.RUNNING:
        return Change(Event.CHANGE, task, msgspec.structs.replace(task, cancel_requested=True, updated_at=now))
    return _change(Event.CANCEL, task, now, completed_at=now, reason="cancelled")


def supersede(task: TaskState, now: int, successor_id: str) -> Change:
    """Cancel a fire for the one that takes its place, which the reason names."""
    reason = f"{SUPERSEDED}{wire('tsk', successor_id)}"
    made = cancel(task, now)
    return msgspec.structs.replace(made, after=msgspec.structs.replace(made.after, reason=reason))


def pause(task: TaskState, now: int) -> Change:
    """Hold it until it is resumed."""
    return _change(Event.PAUSE, task, now)


def resume(task: TaskState, now: int) -> Change:
    """Let it go on, at its old time, or at once if that has passed."""
    return _change(Event.RESUME, task, now, wake_at=task.due_at)


def run_now(task: TaskState, now: int) -> Change:
    """Make it due at once; its nominal time stays."""
    return _change(Event.RUN_NOW, task, now, due_at=min(task.due_at, now), wake_at=now)


def expire(task: TaskState, now: int) -> Change:
    """It was to start by a time that has passed."""
    return _change(Event.EXPIRE, task, now, completed_at=now, reason="expired")


def reopen(task: TaskState, now: int, *, waits: bool = False) -> Change:
    """Start a new series of a finished task: its id, attempts and fences go on, the limit counts anew.

    One that `waits` does so until its turn comes.
    """
    return _change(
        Event.REOPEN_IN_LINE if waits else Event.REOPEN,
        task,
        now,
        due_at=now,
        wake_at=now,
        expires_at=None,
        decide_by=None,
        after_id=None,
        series=task.series + 1,
        series_base=task.attempt,
        uncounted=0,
        interruptions=0,
        started_at=None,
        completed_at=None,
        sla_met=None,
        reason=None,
        cancel_requested=False,
    )


def hold_back(task: TaskState, now: int, reason: str) -> Change:
    """A fire that its schedule does not let run."""
    return _change(Event.SKIP, task, now, completed_at=now, reason=reason, decide_by=None, after_id=None)


def miss(task: TaskState, now: int, reason: str) -> Change:
    """A fire for which nobody was there in time."""
    return _change(Event.MISS, task, now, completed_at=now, reason=reason, decide_by=None, after_id=None)


def buffer(task: TaskState, now: int) -> Change:
    """A fire that waits until the one before it has ended."""
    return _change(Event.BUFFER, task, now, decide_by=None, after_id=None)


def let_run(task: TaskState, now: int) -> Change:
    """Its schedule has decided that it runs, whenever that be."""
    return _change(Event.CHANGE, task, now, decide_by=None, after_id=None)


def patch(task: TaskState, now: int, **fields: Any) -> Change:
    """Change what it is before it runs; `fields` are columns of its row."""
    return _change(Event.CHANGE, task, now, **fields)


# What `retry` takes up again: a success is not one of them (that is what `run` is for).
RETRYABLE = frozenset({State.DEAD, State.CANCELLED, State.EXPIRED})


def run(task: TaskState, now: int) -> Change:
    """Run it now, whatever it waits for; a finished one starts a new series."""
    return reopen(task, now) if task.state in TERMINAL else run_now(task, now)


def retry(task: TaskState, now: int) -> Change:
    """Try it again now, without waiting for its backoff, or though it had given up."""
    if task.state in RETRYABLE:
        return reopen(task, now)
    if task.state is State.RETRYING:
        return run_now(task, now)
    raise IllegalTransition(
        f"A task that is {task.state.word} cannot be retried.{advice(RETRYABLE | {State.RETRYING})}"
    )


ACTIONS: dict[str, Callable[[TaskState, int], Change]] = {
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "run": run,
    "retry": retry,
}
