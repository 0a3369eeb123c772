"""An event loop in virtual time: nothing waits, time jumps to the next timer, order is drawn from the seed."""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

STEPS_MAX = 20_000_000
# Whose process a callback belongs to: what it starts belongs to the same.
PROCESS: ContextVar[str | None] = ContextVar("process", default=None)


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
        self._alarms: list[tuple[int, Callable[[], None]]] = []
        self._born: dict[asyncio.Task[Any], None] = {}
        self.set_task_factory(self._bear)
        # Processes that are stopped, and what would have run in them, in order.
        self._frozen: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...], Context]]] = {}
        # Timers closer than this count as one instant.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now

    def _bear(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._born[task] = None
        task.add_done_callback(lambda ended: self._born.pop(ended, None))
        return task

    def freeze(self, process: str) -> None:
        """SIGSTOP: nothing of this process runs, whatever it waits for."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """SIGCONT: everything runs that should have run meanwhile."""
        for call, arguments, context in self._frozen.pop(process, []):
            self.call_soon(call, *arguments, context=context)

    def thaw_all(self) -> None:
        """Let everything end."""
        for process in list(self._frozen):
            self.thaw(process)

    def is_frozen(self, process: str) -> bool:
        """Whether it is stopped."""
        return process in self._frozen

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override] # any callback
        context = copy_context() if context is None else context  # one that is empty is false
        return super().call_soon(*self._gated(callback, args, context), context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override] # any callback
        context = copy_context() if context is None else context  # one that is empty is false
        return super().call_at(when, *self._gated(callback, args, context), context=context)

    def _gated(self, callback: Any, args: tuple[Any, ...], context: Context) -> tuple[Any, ...]:
        process = context.get(PROCESS)
        return (callback, *args) if process is None else (self._run_in, process, callback, args, context)

    def _run_in(self, process: str, callback: Any, args: tuple[Any, ...], context: Context) -> None:
        held = self._frozen.get(process)
        if held is None:
            callback(*args)
        else:
            held.append((callback, args, context))

    def living(self) -> list[asyncio.Task[Any]]:
        """Tasks that have not ended, in the order of their birth."""
        return [task for task in self._born if not task.done()]

    @property
    def steps(self) -> int:
        """Callbacks that have run."""
        return self._steps

    def at_step(self, steps_from_now: int, call: Callable[[], None]) -> None:
        """Call back when so many more callbacks have run."""
        self._alarms.append((self._steps + steps_from_now, call))

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined] # the loop's own queue
        if len(ready) > 1:
            shuffled = list(ready)
            ready.clear()
            self._random.shuffle(shuffled)
            ready.extend(shuffled)
        if self._alarms:
            come = [call for step, call in self._alarms if step <= self._steps]
            self._alarms = [one for one in self._alarms if one[0] > self._steps]
            for call in come:
                call()
        self._steps += max(1, len(ready))
        if self._steps > STEPS_MAX:
            raise RuntimeError("the simulation does not come to an end")
        super()._run_once()  # type: ignore[misc] # the loop's own round
