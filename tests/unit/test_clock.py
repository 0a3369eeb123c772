"""The machine's clock, and waiting for an event or a time."""

import asyncio
import time

import pytest

from tasktick.clock import SystemClock, until_ms, wait_for_event

DEADLINE_S = 5


def test_the_wall_clock_is_the_machines() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().now_ms() <= time.time_ns() // 1_000_000


def test_the_other_clock_counts_on_while_the_machine_sleeps() -> None:
    clock = SystemClock()
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6
    first, second = clock.monotonic_ms(), clock.monotonic_ms()
    assert before <= first <= second <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


@pytest.mark.parametrize("duration_ms", [-5.0, 0.0, 3.0])
async def test_a_sleep_lasts_about_so_long(duration_ms: float) -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    await asyncio.wait_for(clock.sleep_ms(duration_ms), DEADLINE_S)
    assert clock.monotonic_ms() - before >= duration_ms - 1


def test_what_is_left_knows_parts_of_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_250_000)
    clock = SystemClock()
    assert clock.now_ms() == 5_000
    assert until_ms(clock, 5_001) == 0.75
    assert until_ms(clock, 5_000) == -0.25


async def test_an_event_ends_the_wait_and_stays_set() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await asyncio.wait_for(wait_for_event(event, SystemClock(), 60_000), DEADLINE_S)
    assert event.is_set()
    assert await wait_for_event(event, SystemClock(), 60_000)


async def test_time_ends_the_wait() -> None:
    assert not await asyncio.wait_for(wait_for_event(asyncio.Event(), SystemClock(), 1), DEADLINE_S)


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    waiting = asyncio.ensure_future(wait_for_event(asyncio.Event(), SystemClock(), 60_000))
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {waiting}
    waiting.cancel()
    await asyncio.wait({waiting, *left}, timeout=DEADLINE_S)
    assert asyncio.all_tasks() == before
