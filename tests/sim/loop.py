"""An event loop in virtual time: nothing waits, time jumps to the next timer, order is drawn from the seed."""

import asyncio
import selectors
from collections.abc import Callable
from random import Random
from typing import Any

STEPS_MAX = 20_000_000


class JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: a wait is a jump of the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the simulation waits for something that never happens")
        self.now += max(0.0, timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """The loop. `at_step` calls back when so many callbacks have run: a death between any two of them."""

    def __init__(self, random: Random) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)
        self._random = random
        self._steps = 0
        self._alarm: tuple[int, Callable[[], None]] | None = None
        self._born: dict[asyncio.Task[Any], None] = {}
        self.set_task_factory(self._bear)
        # Timers closer than this count as one instant.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now

    def _bear(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._born[task] = None
        task.add_done_callback(lambda ended: self._born.pop(ended, None))
        return task

    def living(self) -> list[asyncio.Task[Any]]:
        """Tasks that have not ended, in the order of their birth."""
        return [task for task in self._born if not task.done()]

    @property
    def steps(self) -> int:
        """Callbacks that have run."""
        return self._steps

    def at_step(self, steps_from_now: int, call: Callable[[], None]) -> None:
        """Call back when so many more callbacks have run."""
        self._alarm = (self._steps + steps_from_now, call)

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined] # the loop's own queue
        if len(ready) > 1:
            shuffled = list(ready)
            ready.clear()
            self._random.shuffle(shuffled)
            ready.extend(shuffled)
        if self._alarm is not None and self._steps >= self._alarm[0]:
            call = self._alarm[1]
            self._alarm = None
            call()
        self._steps += max(1, len(ready))
        if self._steps > STEPS_MAX:
            raise RuntimeError("the simulation does not come to an end")
        super()._run_once()  # type: ignore[misc] # the loop's own round
