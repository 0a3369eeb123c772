"""The only door to time. Everything else is handed a `Clock`, so that a test may own it.

`now_ms` is the wall clock, which may step; `monotonic_ms` never goes back and, on Linux, goes on
counting while the machine is suspended (CLOCK_BOOTTIME), as a lease at a receiver would.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol

from tasktick.alarm import Alarm, alarm_of

# How unevenly two clocks may run.
DRIFT = 0.0005
# Waits up to this long end on time; others are woken for something that they then look at.
PRECISE_MS = 50
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What tells the time, and waits."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds that only grow; for timeouts, never for instants."""
        ...

    async def sleep_ms(self, duration_ms: float) -> None:
        """Wait at least about so long. It may wake a little early: look again."""
        ...


class SystemClock:
    """The machine's own clock."""

    def __init__(self) -> None:
        self._alarm: Alarm | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def until_ms(self, at_ms: int) -> float:
        """How long until `now_ms` says this, to the part of a millisecond."""
        return (at_ms * 1_000_000 - time.time_ns()) / 1_000_000

    def monotonic_ms(self) -> float:
        return time.clock_gettime_ns(_BOOTTIME) / 1_000_000

    async def sleep_ms(self, duration_ms: float) -> None:
        if 0 < duration_ms <= PRECISE_MS and (alarm := self._alarm_here()) is not None:
            await alarm.sleep_ms(duration_ms)
        else:
            await asyncio.sleep(max(0.0, duration_ms) / 1_000)

    def _alarm_here(self) -> Alarm | None:
        loop = asyncio.get_running_loop()
        if self._alarm is None or self._alarm.loop is not loop:
            if self._alarm is not None:
                self._alarm.close()
            self._alarm = alarm_of(loop)
        return self._alarm


class StoreClock:
    """The time of a shared store, as a node may know it: told by the store, and counted on from the answer.

    It is a lower bound, by as much as the answer took: nothing is early by it. What is to last counts from `latest_ms`,
    the upper one, so that no better clock finds it short. Until it is told anything, it is the machine's own; a store
    that is nobody else's tells nothing.
    """

    def __init__(self, own: Clock) -> None:
        self.own = own
        # Asked several times for each call: spared a call of its own.
        self.monotonic_ms: Callable[[], float] = own.monotonic_ms
        self._told_ms: float | None = None
        self._at_ms = 0.0
        self._doubt_ms = 0.0

    def now_ms(self) -> int:
        told_ms = self._told_ms  # spared a call of its own, too
        return self.own.now_ms() if told_ms is None else int(told_ms + self.monotonic_ms() - self._at_ms)

    def until_ms(self, at_ms: int) -> float:
        """How long until `now_ms` says this."""
        if self._told_ms is not None:
            return at_ms - self._counted_ms(self.own.monotonic_ms())
        return until_ms(self.own, at_ms)

    def latest_ms(self) -> int:
        """What the store's time is at most."""
        if self._told_ms is None:
            return self.own.now_ms()
        monotonic_ms = self.own.monotonic_ms()
        drift_ms = DRIFT * (monotonic_ms - self._at_ms)
        return math.ceil(self._counted_ms(monotonic_ms) + self._doubt_ms + drift_ms)

    async def sleep_ms(self, duration_ms: float) -> None:
        await self.own.sleep_ms(duration_ms)

    def _counted_ms(self, monotonic_ms: float) -> float:
        assert self._told_ms is not None
        return self._told_ms + monotonic_ms - self._at_ms

    def learn(self, told_ms: float, asked_ms: float, replied_ms: float) -> float:
        """The store said this between those two; by how much its clock was set since the last time, as far as seen."""
        took_ms = replied_ms - asked_ms
        if self._told_ms is None:
            self._told_ms, self._at_ms, self._doubt_ms = told_ms, replied_ms, took_ms * (1 + DRIFT) + 1
            return 0.0
        expected_ms, drift_ms = self._counted_ms(replied_ms), DRIFT * (replied_ms - self._at_ms)
        # What was counted is a lower bound of a time that is at most so much later; so is what was told now.
        ahead_ms = expected_ms - drift_ms - (told_ms + took_ms + 1)
        behind_ms = told_ms - (expected_ms + drift_ms + self._doubt_ms + 1)
        latest_ms = told_ms + took_ms * (1 + DRIFT) + 1
        if ahead_ms <= 0 and behind_ms <= 0:  # both hold, what was known and what is told: the better of each bound
            latest_ms = min(latest_ms, expected_ms + drift_ms + self._doubt_ms)
            self._told_ms = max(float(told_ms), expected_ms - drift_ms)
        else:
            self._told_ms = told_ms
        self._doubt_ms = max(0.0, latest_ms - self._told_ms)
        self._at_ms = replied_ms
        return behind_ms if behind_ms > 0 else -max(ahead_ms, 0.0)

    @property
    def offset_ms(self) -> int:
        """How far the machine's own clock is ahead."""
        return self.own.now_ms() - self.now_ms()


def latest_ms(clock: Clock) -> int:
    """What the time is at most: what a clock does not know for certain counts against it."""
    return clock.latest_ms() if isinstance(clock, StoreClock) else clock.now_ms()


def until_ms(clock: Clock, at_ms: int) -> float:
    """How long until the clock says this: a wait for whole milliseconds would be late by half of one on average.

    Where only these are known, they are all there is.
    """
    return clock.until_ms(at_ms) if isinstance(clock, StoreClock | SystemClock) else at_ms - clock.now_ms()


def _is_loops_own(clock: Clock) -> bool:
    """Whether its longer waits are the event loop's own."""
    return isinstance(clock, SystemClock) or (isinstance(clock, StoreClock) and _is_loops_own(clock.own))


async def turns(count: int) -> None:
    """Let everybody else who has something to do go first, so many times. Where there is nobody it takes no time."""
    for _ in range(count):
        await asyncio.sleep(0)


def supervisor_us() -> int:
    """Microseconds of CLOCK_MONOTONIC, by which systemd orders what it is told."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000


async def wait_for_event(event: asyncio.Event, clock: Clock, timeout_ms: float) -> bool:
    """Wait for the event or the timeout, whichever is first; true if the event came.

    The event is not cleared. This is how every loop sleeps: woken early by a hint, and polling the
    truth when no hint comes.
    """
    if event.is_set():
        return True
    if timeout_ms > PRECISE_MS and _is_loops_own(clock):
        # Tasks for both cost twice as much, and a busy loop waits often.
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await event.wait()
        except TimeoutError:
            pass
        return event.is_set()
    waiter = asyncio.ensure_future(event.wait())
    sleeper = asyncio.ensure_future(clock.sleep_ms(timeout_ms))
    try:
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        waiter.cancel()
        sleeper.cancel()
