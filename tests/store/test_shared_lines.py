"""Lines that schedules share, and decisions and ends that come at once, from several nodes."""

import asyncio
from collections.abc import Sequence

import pytest

from tasktick.model import change
from tasktick.model.ids import wire
from tasktick.model.schedule import pause
from tasktick.model.state import State
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import settle
from tasktick.store import schedules, tasks
from tasktick.store.protocol import Transaction
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.line import settle_in_turns, standing, states, task_of, under_way
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _two(calendar: Calendar, *overlaps: str, key: str = "shared") -> list[str]:
    return [await calendar.create(overlap=overlap, overlap_key=key) for overlap in overlaps]


async def test_schedules_that_share_a_key_are_one_for_overlap(calendar: Calendar) -> None:
    first, second = await _two(calendar, "skip", "skip")
    calendar.world.now += MINUTE_MS

    await settle_in_turns(calendar)

    assert sorted([*await calendar.outcomes(first), *await calendar.outcomes(second)]) == ["run", "skipped(overlap)"]


async def test_two_that_are_planned_at_once_are_not_both_let_run(calendar: Calendar) -> None:
    await _two(calendar, "skip", "skip")
    calendar.world.now += MINUTE_MS
    found = await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100))
    plans = [settle(one.schedule, one.tasks, heeding(calendar.moment(), {}, one.line)) for one in found]
    first, second = [plan for plan in plans if plan is not None]

    assert await calendar.write(first) == [True]
    assert await calendar.write(second) == [False], "another stands in the line by now"
    assert await calendar.settle() == 1


async def test_all_that_are_skipped_for_one_that_is_at_work_are_decided_at_once(calendar: Calendar) -> None:
    """However many share a line: they must not hold up all other schedules, one round for each of them."""
    first, *others = await _two(calendar, *["skip"] * 5)
    await settle_in_turns(calendar)
    calendar.world.now += MINUTE_MS
    found = await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100))
    (seen,) = [one for one in found if one.schedule.id == first]
    plan = settle(seen.schedule, seen.tasks, heeding(calendar.moment(), {}, seen.line))
    assert plan is not None
    assert await calendar.write(plan) == [True]

    assert await calendar.settle() == len(others)

    for name in others:
        assert await calendar.outcomes(name) == ["skipped(overlap)"]


async def test_who_changes_a_line_comes_after_those_who_leave_it_as_it_is(calendar: Calendar) -> None:
    first, replacing, skipping = await _two(calendar, "allow", "cancel_other", "skip")
    calendar.world.now += MINUTE_MS
    found = await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100))
    plans = {
        one.schedule.id: settle(one.schedule, one.tasks, heeding(calendar.moment(), {}, one.line)) for one in found
    }
    begun = plans[first]
    assert begun is not None
    assert await calendar.write(begun) == [True]
    found = await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100))
    plans = {
        one.schedule.id: settle(one.schedule, one.tasks, heeding(calendar.moment(), {}, one.line)) for one in found
    }
    changing, leaving = plans[replacing], plans[skipping]
    assert changing is not None
    assert leaving is not None

    assert await calendar.write(changing, leaving) == [True, True]

    assert await calendar.outcomes(skipping) == ["skipped(overlap)"]
    assert len(await standing(calendar, first)) == 1


async def test_one_of_each_key_of_each_tenant(calendar: Calendar) -> None:
    first, second = await calendar.create(overlap="skip", overlap_key="a"), await calendar.create(overlap_key="b")

    await calendar.pass_ms(MINUTE_MS)

    assert (await calendar.outcomes(first), await calendar.outcomes(second)) == (["run"], ["run"])


async def test_a_shared_line_goes_on_in_the_order_of_its_times(calendar: Calendar) -> None:
    first, second = await _two(calendar, "buffer_all", "buffer_all")
    calendar.world.now += MINUTE_MS
    await settle_in_turns(calendar)
    (at_work,) = [row for row in await standing(calendar, first) if not row.waits]
    (running,) = await calendar.world.claim(at_work.task_id)
    for _ in range(2):
        calendar.world.now += MINUTE_MS
        await settle_in_turns(calendar)

    order: list[int] = []
    while True:
        order.append(running.run_at)
        await calendar.world.finish(running)
        rows = [row for row in await standing(calendar, first) if not row.waits]
        if not rows:
            break
        assert len(rows) == 1, "one at a time"
        (running,) = await calendar.world.claim(rows[0].task_id)

    assert order == sorted(order)
    assert len(order) == 6
    assert set(await calendar.outcomes(first) + await calendar.outcomes(second)) == {"run", "run(buffered)"}


async def test_a_fire_takes_the_place_of_one_of_another_schedule(calendar: Calendar) -> None:
    first = await calendar.create(overlap="skip", overlap_key="shared")
    await calendar.pass_ms(MINUTE_MS)
    await calendar.move(first, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    second = await calendar.create(overlap="cancel_other", overlap_key="shared")

    await calendar.pass_ms(MINUTE_MS)

    new = await task_of(calendar, second, 0)
    assert await calendar.outcomes(first) == [f"skipped(cancel_other:{wire('tsk', new.id)})"]
    assert (await calendar.row(first)).fired == 0
    assert new.state is State.SCHEDULED
    assert [row.task_id for row in await standing(calendar, first)] == [new.id]


async def test_a_pause_holds_back_all_that_wait_and_lets_others_of_the_line_go(calendar: Calendar) -> None:
    first, second = await _two(calendar, "buffer_all", "buffer_all")
    calendar.world.now += MINUTE_MS
    await settle_in_turns(calendar)
    calendar.world.now += MINUTE_MS
    await settle_in_turns(calendar)
    waiting = [row for row in await standing(calendar, first) if row.waits]
    assert len(waiting) == 3

    await calendar.move(first, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))

    left = await standing(calendar, second)
    assert {row.schedule_id for row in left if row.waits} == {second}
    paused = (await calendar.outcomes(first)).count("skipped(paused)")
    assert paused == sum(row.schedule_id == first for row in waiting)
    assert (await calendar.row(first)).skipped == paused


class _Node:
    """Decides about what is due of its partitions, against others."""

    def __init__(self, calendar: Calendar, names: Sequence[str]) -> None:
        self._calendar, self._names = calendar, set(names)

    async def decide(self) -> None:
        """Until nothing is due."""
        world = self._calendar.world
        while True:
            found = await world.database.read(lambda tx: schedules.due(tx, world.now, 100))
            mine = [one for one in found if one.schedule.id in self._names]
            if not mine:
                return
            plans = [
                settle(one.schedule, one.tasks, heeding(self._calendar.moment(), one.calendars, one.line))
                for one in mine
            ]
            await self._calendar.write(*[plan for plan in plans if plan is not None])


@pytest.mark.parametrize("overlap", ["skip", "buffer_all", "cancel_other"])
async def test_nodes_that_decide_at_once_never_let_two_run_together(calendar: Calendar, overlap: str) -> None:
    names = [
        (
            await calendar.create(
                overlap=overlap, overlap_key="shared", id=calendar.world.ids.new(calendar.world.now, at)
            )
        )
        for at in (3, 200, 90, 41)
    ]
    nodes = [_Node(calendar, [name]) for name in names]

    async def end() -> int:
        ended = 0
        for row in await standing(calendar, names[0]):
            for claimed in await calendar.world.claim(row.task_id):
                await calendar.world.finish(claimed)
                ended += 1
        return ended

    ran = 0
    for _ in range(6):
        calendar.world.now += MINUTE_MS
        ending = asyncio.ensure_future(end())
        await asyncio.gather(ending, *(node.decide() for node in nodes))
        ran += ending.result()
        left = await standing(calendar, names[0])
        at_work = [await calendar.world.state(row.task_id) for row in left if not row.waits]
        assert len([one for one in at_work if one.state is not State.BLOCKED]) <= 1
        assert not left or at_work, "who waits does so for somebody"
        ran += len(at_work)
    assert ran
    while await end():
        pass
    assert await standing(calendar, names[0]) == []


async def test_an_end_and_a_decision_at_once_leave_nobody_waiting_for_nobody(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    for _ in range(8):
        running = await under_way(calendar, name)
        calendar.world.now += MINUTE_MS

        await asyncio.gather(calendar.world.finish(running), _Node(calendar, [name]).decide())

        (row,) = await standing(calendar, name)
        assert not row.waits, "it goes, whoever was first"
        assert (await calendar.world.state(row.task_id)).state is State.SCHEDULED
        await calendar.world.finish((await calendar.world.claim(row.task_id))[0])


async def test_a_cancellation_and_an_end_at_once_let_the_next_go(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)
    first = await task_of(calendar, name, 1)

    async def cancelled(tx: Transaction) -> list[str]:
        (row,) = await tasks.states(tx, [first.id])
        return await tasks.change(tx, [change.cancel(row, calendar.world.now)])

    async def cancel() -> None:
        while not await calendar.world.database.write(cancelled):  # it was let go a moment before
            pass

    await asyncio.gather(calendar.world.finish(running), cancel())

    assert await states(calendar, name) == ["succeeded", "cancelled", "scheduled"]
