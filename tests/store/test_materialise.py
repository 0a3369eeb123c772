"""The loop behind the schedules, on a real store."""

import asyncio

import pytest

from tasktick.cluster.ownership import Ownership
from tasktick.metrics import Metrics
from tasktick.model.schedule import LedgerRow, Schedule
from tasktick.model.task import Due, TaskState
from tasktick.scheduler import pace, plan, turns
from tasktick.scheduler.materialise import FAILED_REST_MS, LOOK_AT_LEAST_MS, Decider, Materialiser
from tasktick.scheduler.pace import ROUND_EVERY_MS
from tasktick.store import schedules
from tasktick.store.fires import ledger_row
from tests.store.calendar import MINUTE_MS, PARTITION, Calendar
from tests.store.world import HOUR_MS, NODE, World, WorldClock

DEADLINE_S = 5.0


class Unheard:
    """Nobody takes these hints."""

    def due(self, rows: list[Due]) -> None: ...

    def born(self, states: list[TaskState]) -> None: ...

    def is_pressed(self) -> bool:
        return False

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
    await calendar.world.database.write(lambda tx: tx.run("ledger_insert", rows=[ledger_row(row)]))
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

    monkeypatch.setattr(turns, "settle", settle_or_fail)
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


async def test_what_comes_due_close_together_is_decided_together(
    calendar: Calendar, materialiser: Materialiser
) -> None:
    for jitter_ms in (0, 0, 1):
        await calendar.create(jitter_ms=jitter_ms)
    calendar.world.now += MINUTE_MS

    # Not at once, though something may have come due meanwhile; and no longer than that.
    assert await materialiser.step() == ROUND_EVERY_MS
    assert 0 < await materialiser.step() <= LOOK_AT_LEAST_MS


async def test_a_backlog_is_decided_without_rest(
    calendar: Calendar, materialiser: Materialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "QUIET_SCHEDULES_MAX", 1)
    for _ in range(3):
        await calendar.create()
    calendar.world.now += MINUTE_MS

    assert [await materialiser.step() for _ in range(3)] == [0, 0, 0]
    assert await materialiser.step() > 0


async def test_of_several_partitions_each_has_its_share_of_a_look(calendar: Calendar) -> None:
    names = [await calendar.create() for _ in range(3)]
    world = calendar.world
    world.now += MINUTE_MS
    mine = ["00", f"{PARTITION:02x}"]

    async def look(partitions: list[str]) -> tuple[list[str], int | None]:
        due = await world.database.read(lambda tx: schedules.due(tx, world.now, 250, partitions))
        upcoming = await world.database.read(lambda tx: schedules.next_look(tx, world.now - 1, partitions))
        return sorted(one.schedule.id for one in due), upcoming

    assert await look(mine) == (sorted(names), world.now)
    assert await look(["00"]) == ([], None)
    assert await look([]) == ([], None)
