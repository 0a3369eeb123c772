"""Hints from whoever has just written: a new task, a moved one, one that waits no more.

A hint that is lost costs at most a round of the loader; so nothing here may fail a request.
"""

from collections.abc import Callable, Sequence

from tasktick.clock import Clock
from tasktick.model.state import WAITING
from tasktick.model.task import Due, TaskState, Timer, due_of
from tasktick.ready.queue import ReadyQueue
from tasktick.scheduler.horizon import Horizon

# What is picked up within this is about to start.
SOON_MS = 50
# What comes in while a new task is on its way to the store.
ON_ITS_WAY_MS = 60_000


class Intake:
    """Takes hints into the horizon, and wakes the ticker when it has reason to look."""

    def __init__(
        self,
        clock: Clock,
        horizon: Horizon,
        ready: ReadyQueue,
        wake_ticker: Callable[[], None],
        *,
        owns: Callable[[str], bool] | None = None,
        nudge: Callable[[Sequence[Due]], None] = lambda rows: None,
    ) -> None:
        self._clock = clock
        self._horizon = horizon
        self._ready = ready
        self._wake_ticker = wake_ticker
        # None is everything.
        self._owns = owns
        self._nudge = nudge

    def wants_until(self) -> int:
        """Until when new tasks are due of which it wants to be told: most are far away."""
        return self._takes_until() + ON_ITS_WAY_MS

    def born(self, states: Sequence[TaskState]) -> None:
        """These rows were just inserted: nothing is known of them yet."""
        until = self._takes_until()
        states = [state for state in states if state.wake_at <= until]
        if states:
            self.due([due_of(state) for state in states if state.state in WAITING])

    def _takes_until(self) -> int:
        """What is due later is of no use to anybody: owners of other partitions are told of what is near alone, as near
        as our own horizon always reaches."""
        return self._horizon.takes_until(self._clock.now_ms())

    def written(self, states: Sequence[TaskState]) -> None:
        """These rows were just committed as they are here."""
        waiting: list[Due] = []
        for state in states:
            if state.state in WAITING:
                self._forget(state.id)
                waiting.append(due_of(state))
            else:
                self._forget(state.id)
        self.due(waiting)

    def due(self, rows: Sequence[Due]) -> None:
        """These tasks wait, until these times; those of other nodes' partitions are for them to hear of."""
        if self._owns is not None:
            mine: list[Due] = []
            theirs: list[Due] = []
            for row in rows:
                (mine if self._owns(row.id) else theirs).append(row)
            rows = mine
            self._nudge(theirs)
        if rows and self._horizon.add(rows, self._clock.now_ms()):
            self._wake_ticker()

    def is_pressed(self) -> bool:
        """Whether something is about to start, or waits for its turn."""
        if len(self._ready):
            return True
        upcoming = self._horizon.next_look()
        return upcoming is not None and upcoming <= self._clock.now_ms() + SOON_MS

    def heard(self, timers: Sequence[Timer]) -> None:
        """Another node has written these and says that they are ours: hints, which the store is asked about in time."""
        mine = [timer for timer in timers if self._owns is None or self._owns(timer.id)]
        if mine and self._horizon.hear(mine, self._clock.now_ms()):
            self._wake_ticker()

    def _forget(self, task_id: str) -> None:
        self._horizon.forget(task_id)
        self._ready.remove(task_id)
