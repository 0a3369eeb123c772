"""How loops live and die: started in order, stopped in reverse, the first crash named."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from tasktick.errors import ServiceCrashed, StoreUnavailable
from tasktick.service import Services

DEADLINE_S = 5


class StillClock:
    """A clock whose sleepers wake when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[float] = []
        self._wake = asyncio.Event()

    def now_ms(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now

    async def sleep_ms(self, duration_ms: float) -> None:
        self.asked.append(duration_ms)
        await self._wake.wait()

    def wake(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()


class Counting:
    """A loop that counts its steps, and says when it has made one."""

    def __init__(self, name: str = "counting", rest_ms: float = 1_000) -> None:
        self.name = name
        self.wake = asyncio.Event()
        self.steps = 0
        self.rest_ms = rest_ms
        self.stepped = asyncio.Event()

    async def step(self) -> float:
        self.steps += 1
        self.stepped.set()
        return self.rest_ms

    async def next_step(self) -> None:
        await asyncio.wait_for(self.stepped.wait(), DEADLINE_S)
        self.stepped.clear()


@pytest.fixture
async def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def services(clock: StillClock) -> Services:
    return Services(clock)


async def test_a_loop_rests_as_long_as_it_said_and_wakes_for_a_hint(services: Services, clock: StillClock) -> None:
    loop = Counting(rest_ms=700)
    services.run_loop(loop)
    await loop.next_step()
    loop.wake.set()
    await loop.next_step()
    await asyncio.sleep(0)
    clock.wake()
    await loop.next_step()
    assert set(clock.asked) == {700}
    await services.stop()
    steps = loop.steps
    loop.wake.set()
    await asyncio.sleep(0)
    assert loop.steps == steps


async def test_a_hint_during_a_step_is_not_lost(services: Services) -> None:
    loop = Counting()

    async def step() -> float:
        loop.wake.set()
        return await Counting.step(loop)

    loop.step = step  # type: ignore[method-assign] # a hint from within
    services.run_loop(loop)
    await loop.next_step()
    await loop.next_step()
    await services.stop()


async def test_a_loop_that_does_not_rest_lets_others_run(services: Services) -> None:
    busy, other = Counting("busy", rest_ms=0), Counting("other", rest_ms=0)
    services.run_loop(busy)
    services.run_loop(other)
    for _ in range(5):
        await busy.next_step()
        await other.next_step()
    await services.stop()


def stopper(order: list[str], name: str, error: BaseException | None = None) -> Callable[[], Any]:
    async def stop() -> None:
        order.append(name)
        if error is not None:
            raise error

    return stop


async def test_stops_are_in_reverse_and_once(services: Services) -> None:
    order: list[str] = []
    for name in "abc":
        services.on_stop(name, stopper(order, name))
    await services.stop()
    await services.stop()
    assert order == ["c", "b", "a"]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()], ids=["fails", "is cancelled"])
async def test_a_stop_that_fails_is_named_and_passed(services: Services, error: BaseException) -> None:
    order: list[str] = []
    services.on_stop("a", stopper(order, "a"))
    services.on_stop("b", stopper(order, "b", error))
    with structlog.testing.capture_logs() as logs:
        await services.stop()
    assert order == ["b", "a"]
    assert [line["service"] for line in logs if line["event"] == "service_stop_failed"] == ["b"]


async def test_a_stop_that_overruns_is_named_and_passed(services: Services, clock: StillClock) -> None:
    order: list[str] = []
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    services.on_stop("a", stopper(order, "a"))
    services.on_stop("hang", hang, 250)
    with structlog.testing.capture_logs() as logs:
        stopping = asyncio.ensure_future(services.stop())
        await asyncio.wait_for(entered.wait(), DEADLINE_S)
        assert order == []
        clock.wake()
        await asyncio.wait_for(stopping, DEADLINE_S)
        await asyncio.wait_for(cancelled.wait(), DEADLINE_S)
    assert (order, clock.asked) == (["a"], [250])
    assert [line["event"] for line in logs if line.get("service") == "hang"] == ["service_stop_overran"]


async def test_the_first_crash_is_the_cause(services: Services) -> None:
    async def crash(error: Exception) -> None:
        raise error

    services.spawn(crash(ValueError("first")), "one")
    await asyncio.wait({services.crashed}, timeout=DEADLINE_S)
    services.crash("two", KeyError("second"))
    with pytest.raises(ServiceCrashed, match="one: first") as caught:
        await services.crashed
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_loop_that_crashes_ends_the_process(services: Services) -> None:
    loop = Counting("fragile")

    async def step() -> float:
        raise ValueError("broken")

    loop.step = step  # type: ignore[method-assign] # it breaks
    services.run_loop(loop)
    with pytest.raises(ServiceCrashed, match="fragile: broken"):
        await asyncio.wait_for(asyncio.shield(services.crashed), DEADLINE_S)
    await services.stop()


async def test_waiting_for_something_ends_with_a_crash(services: Services) -> None:
    event = asyncio.Event()
    event.set()
    await services.until(event)
    waiting = asyncio.ensure_future(services.until(asyncio.Event()))
    await asyncio.sleep(0)
    services.crash("one", ValueError("broken"))
    with pytest.raises(ServiceCrashed):
        await asyncio.wait_for(waiting, DEADLINE_S)


async def test_what_was_spawned_ends_with_the_process(services: Services) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    task = services.spawn(forever(), "forever")
    await services.stop()
    assert task.cancelled()
    assert not services.crashed.done()


async def test_a_crash_during_the_stop_is_raised_at_once(services: Services) -> None:
    """Else the process would wait its grace out with a store that takes nothing, and then say that all is well."""
    draining = asyncio.Event()

    async def drain() -> None:
        draining.set()
        await asyncio.Event().wait()

    services.on_stop("drain", drain)
    ending = asyncio.ensure_future(services.end())
    await asyncio.wait_for(draining.wait(), DEADLINE_S)
    services.crash("store", ValueError("a commit failed"))
    with pytest.raises(ServiceCrashed, match="store: a commit failed"):
        await asyncio.wait_for(ending, DEADLINE_S)


async def test_a_crash_at_the_very_end_is_raised_too(services: Services) -> None:
    async def close() -> None:
        services.crash("store", ValueError("a checkpoint failed"))

    services.on_stop("store", close)
    with pytest.raises(ServiceCrashed, match="a checkpoint failed"):
        await asyncio.wait_for(services.end(), DEADLINE_S)


async def test_an_end_without_a_crash_is_a_stop(services: Services) -> None:
    order: list[str] = []
    services.on_stop("a", stopper(order, "a"))
    await asyncio.wait_for(services.end(), DEADLINE_S)
    assert order == ["a"]


async def test_a_start_that_is_told_to_stop_may_come_to_its_end(services: Services, clock: StillClock) -> None:
    stop, opened = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        await opened.wait()

    beginning = asyncio.ensure_future(services.begin(start(), stop, 5_000))
    stop.set()
    while not clock.asked:  # noqa: ASYNC110 - a list that grows has no event
        await asyncio.sleep(0)
    assert clock.asked == [5_000]
    opened.set()
    assert await beginning


async def test_a_start_that_waits_for_ever_is_given_up(services: Services, clock: StillClock) -> None:
    stop = asyncio.Event()
    stop.set()
    beginning = asyncio.ensure_future(services.begin(asyncio.Event().wait(), stop, 5_000))  # type: ignore[arg-type] # says true
    while not clock.asked:  # noqa: ASYNC110 - a list that grows has no event
        await asyncio.sleep(0)
    clock.wake()
    assert not await beginning


async def test_a_start_that_fails_says_so(services: Services) -> None:
    async def start() -> None:
        raise OSError("it is taken")

    with pytest.raises(OSError, match="it is taken"):
        await services.begin(start(), asyncio.Event(), 5_000)


async def test_a_crash_beside_a_start_is_raised_at_once(services: Services) -> None:
    services.crash("store", OSError("it broke"))
    with pytest.raises(ServiceCrashed, match="store: it broke"):
        await services.begin(asyncio.Event().wait(), asyncio.Event(), 5_000)  # type: ignore[arg-type] # says true


async def test_loops_that_wait_for_a_store_share_one_warning_and_say_when_they_go_on(
    services: Services, clock: StillClock
) -> None:
    class Waiting(Counting):
        is_away = True

        async def step(self) -> float:
            await super().step()
            if self.is_away:
                raise StoreUnavailable("The store is away.")
            return self.rest_ms

    loops = [Waiting("first"), Waiting("second")]
    with structlog.testing.capture_logs() as logs:
        for loop in loops:
            services.run_loop(loop)
        for _ in range(10):
            for loop in loops:
                await loop.next_step()
                loop.wake.set()
        for loop in loops:
            loop.is_away = False
            loop.stepped.clear()
            loop.wake.set()
            await loop.next_step()
        await services.stop()
    assert [line["event"] for line in logs if line["log_level"] in {"warning", "info"}] == [
        "service_waits_for_store",
        "services_go_on",
    ]
