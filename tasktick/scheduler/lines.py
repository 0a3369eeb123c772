"""What becomes of a fire that comes while others of its line are under way. Pure.

The same for a schedule that stands alone and for those that share an overlap key. The store lets go who waits, in the
order of the line; here is decided who waits, who does not come at all, and whose place somebody takes.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tasktick.model.change import Change, supersede
from tasktick.model.line import LineFire
from tasktick.model.schedule import Schedule, is_busy
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskState

OVERLAP, BUFFER_FULL = "overlap", "buffer_full"


class Place(msgspec.Struct, frozen=True):
    """What a line has for a fire: it goes, waits, or is skipped for a reason."""

    waits: bool = False
    refused: str | None = None


class Line:
    """The line of a schedule, as it grows by what is decided."""

    def __init__(self, schedule: Schedule, tasks: Mapping[str, TaskState], line: Sequence[LineFire], now: int) -> None:
        assert schedule.line is not None
        self._schedule = schedule
        self._name = schedule.line
        self._now = now
        self.joins: list[LineFire] = []
        there = {one.task_id: one for one in line if one.line == self._name}
        self._waiting = sum(one.waits for one in there.values())
        self._busy = [tasks[one] for one in there if one in tasks and (there[one].waits or is_busy(tasks[one], now))]
        # Its own that stand in no line, or in another that it stood in once.
        for task in tasks.values():
            if task.template_id == schedule.id and task.id not in {schedule.next_id, *there} and is_busy(task, now):
                self.join(task, waits=False)

    @property
    def is_free(self) -> bool:
        """Whether nobody is in the way."""
        return not self._busy

    def place(self) -> Place:
        """What there is for a fire that is due now."""
        schedule = self._schedule
        if self.is_free:
            return Place()
        match schedule.overlap:
            case "allow":
                return Place()
            case "skip":
                return Place(refused=OVERLAP)
            case "buffer_one":
                return Place(refused=OVERLAP) if self._waiting else Place(waits=True)
            case "buffer_all":
                is_full = self._waiting >= schedule.catch_up.max
                return Place(refused=BUFFER_FULL) if is_full else Place(waits=True)
            case "cancel_other":
                # Who runs may end its attempt; all others are out of the way at once.
                return Place(waits=any(task.state is State.RUNNING for task in self._busy))

    def join(self, task: TaskState, *, waits: bool) -> None:
        """A fire stands in it from now on."""
        schedule = self._schedule
        self.joins.append(LineFire(task.id, self._name, schedule.tenant, schedule.id, task.due_at, waits))
        self._busy.append(task)
        self._waiting += waits

    def clear(self, successor_id: str) -> list[Change]:
        """Cancel who is in the way, for the fire that takes their place."""
        changes = [
            supersede(task, self._now, successor_id)
            for task in self._busy
            if not (task.state is State.RUNNING and task.cancel_requested)
        ]
        self._busy = [task for task in self._busy if task.state is State.RUNNING]
        self._waiting = 0
        left = {one.after.id for one in changes if one.after.state in TERMINAL}
        self.joins = [row for row in self.joins if row.task_id not in left]
        return changes
