"""The loop behind the schedules, on a real store."""

import asyncio

import msgspec
import pytest

from tasktick.cluster.ownership import Ownership
from tasktick.metrics import Metrics
from tasktick.model.schedule import LedgerRow, Schedule
from tasktick.model.task import Due, TaskState
from tasktick.scheduler import materialise, plan
from tasktick.scheduler.materialise import FAILED_REST_MS, Decider, Materialiser
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, NODE, World

DEADLINE_S = 5.0


class WorldClock:
    """The time of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.now

    def monotonic_ms(self) -> float:
        return float(self._world.now)

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(0)


class Unheard:
    """Nobody takes these hints."""

    def due(self, rows: list[Due]) -> None: ...

    def written(self, states: list[TaskState]) -> None: ...


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


def _ownership(world: World) -> Ownership:
    ownership = Ownership(world.incarnation, lambda: 0.0)
    ownership.reconcile(world.epochs, 0)
    ownership.trust_for_ever()
    return ownership


@pytest.fixture
def materialiser(calendar: Calendar) -> Materialiser:
    return materialiser_of(calendar.world, WorldClock(calendar.world))


def materialiser_of(world: World, clock: WorldClock, ownership: Ownership | None = None) -> Materialiser:
    """The loop, of this node."""
    return Materialiser(
        clock,
        world.database,
        Decider(NODE, ownership or _ownership(world), world.ids),
        Metrics(),
        intake=Unheard(),  # type: ignore[arg-type] # as far as it is used
        missed_after_ms=MINUTE_MS,
        missed_rows_max=1_000,
    )


async def test_a_plan_that_cannot_be_written_holds_up_no_other(calendar: Calendar, materialiser: Materialiser) -> None:
    names = [await calendar.create() for _ in range(5)]
    at_fault, others = names[2], [*names[:2], *names[3:]]
    nominal_at = calendar.world.now + MINUTE_MS
    row = LedgerRow(at_fault, nominal_at, "run", nominal_at, 1, NODE, 1, "2026a", calendar.world.now)
    await calendar.world.database.write(lambda tx: tx.run("ledger_insert", rows=[msgspec.structs.asdict(row)]))
    calendar.world.now = nominal_at

    while await materialiser.step() == 0:
        pass

    assert [await calendar.outcomes(one) for one in others] == [["run"]] * 4
    stuck = await calendar.row(at_fault)
    assert (stuck.fired, stuck.look_at) == (0, nominal_at + FAILED_REST_MS)


async def test_a_store_without_the_last_renewal_lets_nothing_be_decided(calendar: Calendar) -> None:
    """It has forgotten what it said last, and perhaps what was decided then."""
    ownership = _ownership(calendar.world)
    materialiser = materialiser_of(calendar.world, WorldClock(calendar.world), ownership)
    name = await calendar.create()
    calendar.world.now += MINUTE_MS
    ownership.beat = 1
    assert await materialiser.step() > 0
    assert await calendar.outcomes(name) == []
    ownership.beat = 0
    while await materialiser.step() == 0:
        pass
    assert await calendar.outcomes(name) == ["run"]


async def test_a_schedule_that_cannot_be_planned_holds_up_no_other(
    calendar: Calendar, materialiser: Materialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_fault, other = [await calendar.create() for _ in range(2)]
    settle = plan.settle

    def settle_or_fail(schedule: Schedule, *rest: object) -> object:
        if schedule.id == at_fault:
            raise ZeroDivisionError
        return settle(schedule, *rest)  # type: ignore[arg-type] # handed on

    monkeypatch.setattr(materialise, "settle", settle_or_fail)
    calendar.world.now += MINUTE_MS

    while await materialiser.step() == 0:
        pass

    assert await calendar.outcomes(other) == ["run"]
    assert await calendar.outcomes(at_fault) == []


class HastyClock(WorldClock):
    """A minute passes each time that somebody looks."""

    def now_ms(self) -> int:
        self._world.now += MINUTE_MS
        return self._world.now


async def test_a_start_waits_for_no_time_that_comes_due_meanwhile(calendar: Calendar) -> None:
    world = calendar.world
    name = await calendar.create(overlap="allow")
    world.now += HOUR_MS
    loop = materialiser_of(world, HastyClock(world))

    await asyncio.wait_for(loop.start(), DEADLINE_S)

    assert "run" in await calendar.outcomes(name)
    assert (await calendar.row(name)).look_at is not None
