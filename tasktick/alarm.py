"""Short waits that end on time.

An event loop's own timers come in whole milliseconds, up to half of one early or a whole one late: too coarse for what
is to start at its millisecond. The kernel's timers come as file descriptors too, by the nanosecond, and wake a loop
like any socket does. One serves all waits of a loop; where there is none, the loop's own timers do.
"""

import asyncio
import ctypes
import os
import sys
import time
from heapq import heappop, heappush
from itertools import count

_NS_PER_S = 1_000_000_000
_BIT_64 = 8


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Moment), ("first", _Moment))


def _kernel() -> ctypes.CDLL | None:
    """The C library, if it has such timers."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "timerfd_create") else None


_LIBRARY = _kernel()


class Alarm:
    """Wakes who sleeps, in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self.loop = loop
        self._descriptor = descriptor
        self._tickets = count()
        # When, in the order of their coming, who.
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        loop.add_reader(descriptor, self._ring)

    async def sleep_ms(self, duration_ms: float) -> None:
        """Wait so long, and hardly longer."""
        now = time.monotonic_ns()
        wakes_at = now + round(duration_ms * 1_000_000)
        sleeper = self.loop.create_future()
        first = self._sleepers[0][0] if self._sleepers else None
        heappush(self._sleepers, (wakes_at, next(self._tickets), sleeper))
        if first is None or wakes_at < first:
            self._set(max(wakes_at - now, 1))  # none at all would be no alarm
        await sleeper

    def close(self) -> None:
        """Let go of the timer; who still sleeps is woken by nobody."""
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _ring(self) -> None:
        try:
            os.read(self._descriptor, _BIT_64)
        except BlockingIOError:  # it was set anew since
            return
        self._wake()

    def _wake(self) -> None:
        now, sleepers = time.monotonic_ns(), self._sleepers
        while sleepers and (sleepers[0][0] <= now or sleepers[0][2].done()):
            _, _, sleeper = heappop(sleepers)
            if not sleeper.done():
                sleeper.set_result(None)
        if sleepers:
            self._set(max(sleepers[0][0] - now, 1))

    def _set(self, left_ns: int) -> None:
        setting = _Setting(_Moment(0, 0), _Moment(left_ns // _NS_PER_S, left_ns % _NS_PER_S))
        assert _LIBRARY is not None
        if _LIBRARY.timerfd_settime(self._descriptor, 0, ctypes.byref(setting), None) != 0:
            # Who stands between us and the kernel may refuse it; nobody is to sleep for ever.
            self.loop.call_later(left_ns / _NS_PER_S, self._wake)


def alarm_of(loop: asyncio.AbstractEventLoop) -> Alarm | None:
    """One for this loop; None where there is no such thing."""
    if _LIBRARY is None:
        return None
    descriptor: int = _LIBRARY.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:  # too many files are open
        return None
    try:
        return Alarm(loop, descriptor)
    except NotImplementedError:  # this loop watches no files
        os.close(descriptor)
        return None
