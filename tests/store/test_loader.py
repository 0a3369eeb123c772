"""What the loader takes into memory: all that is due, and of the horizon all that it says it knows."""

from collections.abc import Iterable

import pytest

from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model.task import Due, Timers
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.scheduler import loader as loading
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.loader import Loader
from tasktick.scheduler.ticker import Ticker
from tasktick.settings import SchedulerConfig
from tasktick.store import due
from tasktick.store.tasks import Create
from tests.store.world import HOUR_MS, World, WorldClock

PAGE_ROWS = 7
HORIZON_MS = 600_000


class Memory:
    """A loader, and what it loads into."""

    def __init__(self, world: World, **settings: int) -> None:
        self.config = SchedulerConfig(horizon_ms=HORIZON_MS, **settings)
        clock = WorldClock(world)
        database = world.database
        self.ready = ReadyQueue(Limits(), self.config.ready_max, self.config.lane_max)
        self.horizon = Horizon(world.now, early_ms=0, near_ms=self.config.near_ms, timers_max=self.config.timers_max)
        ticker = Ticker(clock, self.horizon, self.ready, database.near, database, Metrics(), lambda: None)
        self.foreseen: list[set[str]] = []
        self.loader = Loader(
            clock, self.horizon, self.ready, database.near, self.config, ticker=ticker, in_hand=lambda task_id: False
        )
        self.loader.foresee = self._foresee

    def _foresee(self, rows: Iterable[Due]) -> None:
        self.foreseen.append({row.tenant for row in rows})

    def expire(self, until: int) -> set[str]:
        """What comes out of the wheel by then."""
        known, unknown = self.horizon.expire(until)
        return {row.id for row in known} | set(unknown)

    def holds(self, rows: dict[str, int]) -> set[str]:
        """Which of these are ready."""
        return set(rows).difference(self.ready.missing(rows))


async def make(world: World, times: list[int]) -> dict[str, int]:
    """Tasks due at these times, in this order, of ids that grow."""
    made = [world.task(run_at=at) for at in times]
    assert set(await world.create_all([Create(one) for one in made])) == {None}
    return {one.state.id: one.state.wake_at for one in made}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PAGE_ROWS", PAGE_ROWS)
    monkeypatch.setattr(loading, "FAR_PAGE_ROWS", PAGE_ROWS)
    monkeypatch.setattr(loading, "FAR_TAKEN_AT_ONCE", 3)


async def test_a_slot_of_many_pages_is_loaded_whole(world: World) -> None:
    """Overdue, near and far; in each so many in one slot, at instants that are in no order with the ids."""
    slot = due.slot_begins(world.now + 120_000)
    far = [slot + number * 389 % 1_024 for number in range(60)] + [slot - 1, slot + 1_024, world.now + HORIZON_MS]
    near = [world.now + 1 + number * 389 % 900 for number in range(30)]
    overdue = [world.now - number * 389 % 700 for number in range(30)] + [world.now - HOUR_MS]
    rows = await make(world, [*far, *near, *overdue, world.now + HORIZON_MS + 1, world.now + HOUR_MS])
    memory = Memory(world)
    await memory.loader.step()
    assert memory.horizon.loaded_until == world.now + HORIZON_MS
    assert memory.holds(rows) == {task_id for task_id, at in rows.items() if at <= world.now}
    within = {task_id for task_id, at in rows.items() if world.now < at <= world.now + HORIZON_MS}
    assert memory.expire(world.now + HOUR_MS) == within


async def test_whose_tasks_are_due_soon_is_told_before(world: World) -> None:
    """Not of what is overdue, which goes at once, nor of what is due in minutes."""
    times = {"late": world.now - 1, "soon": world.now + 1_500, "later": world.now + 60_000}
    made = [world.task(run_at=at, tenant=tenant) for tenant, at in times.items()]
    assert set(await world.create_all([Create(one) for one in made])) == {None}
    memory = Memory(world)
    await memory.loader.step()
    assert memory.foreseen == [{"soon"}]


@pytest.mark.parametrize("timers_max", [1, 5, 10, 30, 64])
async def test_what_a_full_wheel_says_it_knows_it_knows(world: World, timers_max: int) -> None:
    slot = due.slot_begins(world.now + 120_000)
    times = [slot + number * 389 % 2_500 for number in range(60)]
    rows = await make(world, times)
    memory = Memory(world, timers_max=timers_max)
    await memory.loader.step()
    known_until = memory.horizon.loaded_until
    assert {task_id for task_id, at in rows.items() if at <= known_until} <= memory.expire(world.now + HOUR_MS)
    # What was left out comes when there is room: everything comes out on time, whatever was known when.
    memory = Memory(world, timers_max=timers_max)
    seen: set[str] = set()
    while world.now < slot + 4_000:
        await memory.loader.step()
        seen |= memory.expire(world.now) | memory.holds(rows)
        assert {task_id for task_id, at in rows.items() if at <= world.now} <= seen
        world.now += 250 if world.now > slot - 4_000 else 10_000


async def test_a_full_reading_ends_and_what_became_due_meanwhile_is_read(world: World) -> None:
    """It lasts longer than the near reading looks back; what becomes due meanwhile has lower ids than what was read."""
    later = await make(world, [world.now + 500, world.now + 40_000, world.now + 41_000])
    rows = await make(world, [world.now - number % 3 for number in range(4 * PAGE_ROWS)])
    memory = Memory(world)
    take = memory.loader._take

    async def slowly(rows: list[Due], now: int) -> None:
        world.now += 15_000 if rows else 0
        await take(rows, now)

    memory.loader._take = slowly  # type: ignore[method-assign] # so that time goes by
    await memory.loader._read_full()
    assert memory.holds(rows | later) == set(rows | later)


async def test_a_page_that_cannot_be_read_takes_nothing_back_and_doubles_nothing(world: World) -> None:
    """Every other reading of what is far fails: each time it goes on from where it was."""
    slots = [world.now + 120_000 + 1_024 * number for number in range(6 * PAGE_ROWS)]
    made = await make(world, slots)
    memory = Memory(world)
    read, tries = memory.loader._timers, 0

    async def now_and_then(stretch: due.Stretch, rows: int) -> Timers:
        nonlocal tries
        tries += 1
        if tries % 2 == 0:
            raise StoreUnavailable("The store cannot be reached.")
        return await read(stretch, rows)

    memory.loader._timers = now_and_then  # type: ignore[method-assign] # so that it fails
    known = memory.horizon.loaded_until
    while memory.horizon.loaded_until < world.now + HORIZON_MS:
        try:
            await memory.loader._read_far(world.now)
        except StoreUnavailable:
            assert memory.horizon.loaded_until > known
            known = memory.horizon.loaded_until
    # The slot in which a page ended is read again.
    assert len(memory.horizon) <= len(made) + 6
    assert memory.expire(world.now + HOUR_MS) == set(made)
