"""Short waits: never early, in order, each woken once, and without the kernel's timers as well."""

import asyncio
import time

import pytest

from tasktick import alarm, clock
from tasktick.clock import PRECISE_MS, SystemClock


async def test_no_wait_ends_early() -> None:
    system = SystemClock()
    for duration_ms in (0.05, 0.4, 1.0, 1.5, 3.3, 7.0):
        began = time.monotonic_ns()
        await system.sleep_ms(duration_ms)
        assert time.monotonic_ns() - began >= duration_ms * 1_000_000


async def test_who_is_to_wake_first_does_whoever_came_first() -> None:
    system, woken = SystemClock(), list[float]()

    async def sleep(duration_ms: float) -> None:
        await system.sleep_ms(duration_ms)
        woken.append(duration_ms)

    durations_ms = [30.0, 5.0, 20.0, 1.0, 40.0, 10.0]
    await asyncio.gather(*map(sleep, durations_ms))
    assert woken == sorted(durations_ms)


async def test_who_gave_up_waiting_keeps_nobody_asleep() -> None:
    system = SystemClock()
    first = asyncio.ensure_future(system.sleep_ms(1))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(system.sleep_ms(2), system.sleep_ms(3))
    assert first.cancelled()


async def test_a_loop_of_its_own_has_an_alarm_of_its_own() -> None:
    """The same clock, in one loop after the other."""
    system = SystemClock()
    await system.sleep_ms(1)

    def elsewhere() -> None:
        asyncio.run(system.sleep_ms(1))

    await asyncio.to_thread(elsewhere)
    await system.sleep_ms(1)


@pytest.mark.parametrize("duration_ms", [-1.0, 0.0, PRECISE_MS + 1.0])
async def test_other_waits_need_none(duration_ms: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "alarm_of", lambda loop: pytest.fail("no timer was needed"))
    await SystemClock().sleep_ms(duration_ms)


async def test_without_the_kernels_timers_the_loops_own_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm, "_LIBRARY", None)
    await SystemClock().sleep_ms(1)


async def test_a_timer_that_is_refused_is_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        timerfd_create = alarm._LIBRARY.timerfd_create if alarm._LIBRARY is not None else None

        def timerfd_settime(self, *_: object) -> int:
            return -1

    if alarm._LIBRARY is None:
        pytest.skip("there are none here")
    system = SystemClock()
    await system.sleep_ms(1)
    monkeypatch.setattr(alarm, "_LIBRARY", Refusing())
    began = time.monotonic_ns()
    await asyncio.gather(system.sleep_ms(2), system.sleep_ms(1))
    assert time.monotonic_ns() - began >= 2_000_000
