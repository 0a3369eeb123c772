"""What the loop behind the schedules takes for time that nobody has seen."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tasktick.cluster.ownership import Ownership
from tasktick.errors import StoreFull
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.scheduler.materialise import Decider, Materialiser

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000


class SetClock:
    """A clock that is set by hand; the other one goes on by itself only where it is told to."""

    def __init__(self) -> None:
        self.wall = START_MS
        self.monotonic = 0.0

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> float:
        return self.monotonic

    async def sleep_ms(self, duration_ms: float) -> None:
        self.go_on(duration_ms)

    def go_on(self, duration_ms: float) -> None:
        self.wall += int(duration_ms)
        self.monotonic += duration_ms

    def set(self, by_ms: int) -> None:
        self.wall += by_ms


class EmptyStore:
    """Nothing is due; `meanwhile` happens during each read."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None
        self.reads = 0

    @property
    def near(self) -> "EmptyStore":
        return self

    async def read(self, operation: Any) -> Any:
        self.meanwhile()
        self.meanwhile = lambda: None
        return None if self.asked_for_next() else []

    def asked_for_next(self) -> bool:
        """Each look reads what is due, then when there is more."""
        self.reads += 1
        return self.reads % 2 == 0


class Idle:
    """Nothing is about to start, and nothing is written."""

    def is_pressed(self) -> bool:
        return False


class Steps:
    """A materialiser, and a clock to be set."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.store = EmptyStore()
        decider = Decider("node", Ownership("incarnation", self.clock.monotonic_ms), IdMaker(Random(1)))
        self.loop = Materialiser(
            self.clock,
            self.store,  # type: ignore[arg-type] # it is only read here
            decider,
            Metrics(),
            intake=Idle(),  # type: ignore[arg-type] # as far as it is used
            missed_after_ms=MINUTE_MS,
            missed_rows_max=10,
        )

    def gap_until(self) -> int:
        """As a client's change would see it."""
        return self.loop.moment(self.clock.now_ms(), 0).gap_until


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def test_time_that_passes_while_it_looks_each_second_is_seen(steps: Steps) -> None:
    for _ in range(200):
        await steps.loop.step()
        steps.clock.go_on(1_000)

    assert steps.gap_until() == START_MS


async def test_a_step_forward_between_two_looks_is_a_gap(steps: Steps) -> None:
    await steps.loop.step()
    steps.clock.set(DAY_MS)

    await steps.loop.step()

    assert steps.gap_until() == START_MS + DAY_MS


async def test_a_step_forward_in_the_middle_of_a_look_is_a_gap(steps: Steps) -> None:
    steps.store.meanwhile = lambda: steps.clock.set(DAY_MS)

    await steps.loop.step()

    assert steps.gap_until() == START_MS + DAY_MS


async def test_a_look_that_takes_long_is_none(steps: Steps) -> None:
    steps.store.meanwhile = lambda: steps.clock.go_on(10 * MINUTE_MS)

    await steps.loop.step()

    assert steps.gap_until() == START_MS


async def test_a_client_that_comes_before_the_next_look_sees_the_gap(steps: Steps) -> None:
    await steps.loop.step()
    steps.clock.set(DAY_MS)

    assert steps.gap_until() == START_MS + DAY_MS


async def test_a_step_back_brings_times_that_will_be_seen(steps: Steps) -> None:
    steps.clock.set(DAY_MS)
    await steps.loop.step()
    steps.clock.set(-DAY_MS)

    assert steps.gap_until() == START_MS


async def test_steps_back_and_forward_again_with_a_change_between_are_a_gap(steps: Steps) -> None:
    await steps.loop.step()
    steps.clock.set(-DAY_MS)
    assert steps.gap_until() == START_MS - DAY_MS
    steps.clock.set(DAY_MS)

    await steps.loop.step()

    assert steps.gap_until() == START_MS


async def test_a_store_that_does_not_answer_for_long_is_a_gap(steps: Steps) -> None:
    def refuse() -> None:
        steps.store.reads -= 1  # it reads nothing
        raise StoreFull("The disk that holds the store is full.")

    for _ in range(130):
        steps.store.meanwhile = refuse
        await steps.loop.step()
        steps.clock.go_on(500)

    await steps.loop.step()
    assert steps.gap_until() > START_MS + MINUTE_MS
