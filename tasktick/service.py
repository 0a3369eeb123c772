"""How a loop lives and dies, once for all of them.

A service is a `step()` that does one round of work and says how long to rest, and what it needs at
its start and its end. `Services` starts them in order, stops them in reverse, and turns the first
crash into the end of the process with a named cause: a daemon that limps is worse than one that
systemd restarts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from tasktick import logs
from tasktick.clock import Clock, wait_for_event
from tasktick.errors import ServiceCrashed, StoreUnavailable
from tasktick.outage import Outage

log = logs.get("service")

# A store that cannot be reached is no reason to end, nor to ask for it all the time.
STORE_REST_MS = 500


class Loop(Protocol):
    """A loop body: `wake` is set by hints, `step` works and returns how long to rest (ms)."""

    name: str
    wake: asyncio.Event

    async def step(self) -> float: ...


class Spawner(Protocol):
    """Starts a task whose failure is not lost."""

    def __call__(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class Services:
    """Starts in order, stops in reverse, crashes loudly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stops: list[tuple[str, Callable[[], Awaitable[None]], float | None]] = []
        # In the order of their start, so that a simulation can repeat it.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self._outage = Outage(
            clock, partial(log.warning, "service_waits_for_store"), partial(log.info, "services_go_on")
        )
        self._waiting: set[str] = set()
        # When each loop last came round, so that others can see whether it does.
        self.rounds: dict[str, float] = {}

    def on_stop(self, name: str, stop: Callable[[], Awaitable[None]], within_ms: float | None = None) -> None:
        """Register what ends something that is now running; called in reverse order.

        A stop that takes longer than `within_ms` is cancelled and passed; without a bound it is waited for.
        """
        self._stops.append((name, stop, within_ms))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` beside everything else; if it fails, the process stops with its cause."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def run_loop(self, loop: Loop) -> None:
        """Run a loop until it is stopped; its stop is registered here."""
        task = self.spawn(self._run(loop), loop.name)

        async def stop() -> None:
            task.cancel()
            await asyncio.wait({task})

        self.on_stop(loop.name, stop)

    async def _run(self, loop: Loop) -> None:
        while True:
            loop.wake.clear()
            try:
                rest_ms = await loop.step()
            except StoreUnavailable as error:
                self._waiting.add(loop.name)
                self._outage.failed(str(error), service=loop.name)
                rest_ms = STORE_REST_MS
            else:
                self._goes_on(loop.name)
                self.rounds[loop.name] = self._clock.monotonic_ms()
            if rest_ms > 0 and not loop.wake.is_set():
                await wait_for_event(loop.wake, self._clock, rest_ms)
            else:  # whoever hints at itself must not keep everybody else from running
                await asyncio.sleep(0)

    def _goes_on(self, name: str) -> None:
        """One warning speaks for all that wait; it is over when the last of them goes on."""
        if name in self._waiting:
            self._waiting.discard(name)
            if not self._waiting:
                self._outage.over()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.crash(task.get_name(), error)

    def crash(self, name: str, error: BaseException) -> None:
        """Stop the process because of this error; the first one names the cause."""
        log.error("service_crashed", service=name, error=str(error), kind=type(error).__name__)
        if not self._crash.done():
            crashed = ServiceCrashed(f"{name}: {error}")
            crashed.__cause__ = error
            self._crash.set_exception(crashed)
            self._crash.exception()  # retrieved: an unwatched crash must not warn at exit

    async def begin(self, start: Coroutine[Any, Any, None], stop: asyncio.Event, grace_ms: float) -> bool:
        """Run the start; false if it was to stop before that, and the start did not come to its end: it may wait for a
        store that is away. What it has started is still to be stopped."""
        starting = asyncio.ensure_future(start)
        stopped = asyncio.ensure_future(stop.wait())
        waiting = None
        try:
            await self._first(starting, stopped)
            if stopped.done() and not starting.done():
                waiting = asyncio.ensure_future(self._clock.sleep_ms(grace_ms))
                await self._first(starting, waiting)
            if starting.done():
                starting.result()
                return True
            starting.cancel()
            if self._crash.done():
                self._crash.result()
            await asyncio.wait({starting})
            return False
        finally:
            for one in (starting, stopped, waiting):
                if one is not None:
                    one.cancel()

    async def _first(self, *futures: "asyncio.Future[Any]") -> None:
        """Wait for the first of these, or a crash."""
        await asyncio.wait({*futures, self._crash}, return_when=asyncio.FIRST_COMPLETED)

    async def until(self, event: asyncio.Event) -> None:
        """Wait for the event; a crash meanwhile is raised here."""
        waiter = asyncio.ensure_future(event.wait())
        futures: set[asyncio.Future[Any]] = {waiter, self._crash}
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._crash.done():
            self._crash.result()

    @property
    def crashed(self) -> asyncio.Future[None]:
        """Never has a result; its exception is the first crash."""
        return self._crash

    async def end(self) -> None:
        """Stop, and raise a crash that comes meanwhile, at once: what was still to be written cannot be."""
        stopping = asyncio.ensure_future(self.stop())
        await asyncio.wait({stopping, self._crash}, return_when=asyncio.FIRST_COMPLETED)
        if self._crash.done():
            self._crash.result()

    async def stop(self) -> None:
        """End everything in the reverse order of its start; a stop that fails or overruns is named and passed."""
        if self._stopping:
            return
        self._stopping = True
        while self._stops:
            await self._stop_one(*self._stops.pop())
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _stop_one(self, name: str, stop: Callable[[], Awaitable[None]], within_ms: float | None) -> None:
        ending = asyncio.ensure_future(stop())
        waited: set[asyncio.Future[None]] = {ending}
        if within_ms is not None:
            waited.add(asyncio.ensure_future(self._clock.sleep_ms(within_ms)))
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await asyncio.wait({ending})
            raise
        finally:
            for other in waited - {ending}:
                other.cancel()
        if not ending.done():
            ending.cancel()
            log.error("service_stop_overran", service=name, within_ms=within_ms)
        elif ending.cancelled():
            log.error("service_stop_failed", service=name, error="it was cancelled", kind="CancelledError")
        elif (error := ending.exception()) is not None:
            # One that cannot stop must not keep the others running.
            log.error("service_stop_failed", service=name, error=str(error), kind=type(error).__name__)
        else:
            log.debug("service_stopped", service=name)
