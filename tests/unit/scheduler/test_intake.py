"""Of which new tasks the scheduler wants to be told."""

from typing import Any, cast

import pytest

from tasktick.clock import Clock
from tasktick.model.state import State
from tasktick.model.task import Due, TaskState
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.intake import ON_ITS_WAY_MS, Intake
from tests.fakes.clock import StandingClock

NEAR_MS = 2_000


MINE, OTHER = "0" * 31 + "1", "0" * 31 + "2"


def intake_of(clock: StandingClock, horizon: Horizon, **of_a_ring: Any) -> Intake:
    ready = ReadyQueue(Limits(), 10, 10)
    return Intake(cast(Clock, clock), horizon, ready, lambda: None, **of_a_ring)


def born_at(task_id: str, due_at: int) -> TaskState:
    return TaskState(task_id, "default", State.SCHEDULED, "q", "h:1", 5, due_at, due_at, due_at, 1, 1_000, due_at)


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


def test_of_no_more_where_others_own_partitions(clock: StandingClock) -> None:
    horizon = horizon_of(clock)
    told: list[Due] = []
    intake = intake_of(clock, horizon, owns=lambda task_id: task_id == MINE, nudge=told.extend)
    assert intake.wants_until() == clock.now_ms() + NEAR_MS + ON_ITS_WAY_MS

    intake.born(
        [born_at(task_id, clock.now_ms() + in_ms) for in_ms in (NEAR_MS, NEAR_MS + 1) for task_id in (MINE, OTHER)]
    )
    assert [(one.id, one.due_at) for one in told] == [(OTHER, clock.now_ms() + NEAR_MS)]
    assert len(horizon) == 1
