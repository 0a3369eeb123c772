"""The only door to time. Everything else is handed a `Clock`, so that a test may own it.

`now_ms` is the wall clock, which may step; `monotonic_ms` never goes back and, on Linux, goes on
counting while the machine is suspended (CLOCK_BOOTTIME), as a lease at a receiver would.
"""

import asyncio
import time
from typing import Protocol

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
        """Wait at least about so long. An event loop may wake up to 0.5 ms early: look again."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.clock_gettime_ns(_BOOTTIME) / 1_000_000

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(max(0.0, duration_ms) / 1_000)


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
    waiter = asyncio.ensure_future(event.wait())
    sleeper = asyncio.ensure_future(clock.sleep_ms(timeout_ms))
    try:
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        waiter.cancel()
        sleeper.cancel()
