"""Of which new tasks the scheduler wants to be told."""

from collections.abc import Callable
from typing import cast

import pytest

from tasktick.clock import Clock
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.intake import ON_ITS_WAY_MS, Intake
from tests.fakes.clock import StandingClock

NEAR_MS = 2_000


def intake_of(clock: StandingClock, horizon: Horizon, owns: Callable[[str], bool] | None = None) -> Intake:
    ready = ReadyQueue(Limits(), 10, 10)
    return Intake(cast(Clock, clock), horizon, ready, lambda: None, owns=owns)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock(1_800_000_000_000)


def horizon_of(clock: StandingClock) -> Horizon:
    return Horizon(clock.now_ms(), early_ms=15, near_ms=NEAR_MS, timers_max=100)


def test_of_those_that_it_takes_and_that_are_near_by_the_time_of_their_commit(clock: StandingClock) -> None:
    horizon = horizon_of(clock)
    intake = intake_of(clock, horizon)
    assert intake.wants_until() == clock.now_ms() + NEAR_MS + ON_ITS_WAY_MS

    horizon.loaded_until = clock.now_ms() + 600_000
    assert intake.wants_until() == horizon.loaded_until + ON_ITS_WAY_MS


def test_of_all_where_others_own_partitions(clock: StandingClock) -> None:
    assert intake_of(clock, horizon_of(clock), owns=lambda _: True).wants_until() is None
