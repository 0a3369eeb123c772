"""Fires that were due before the clock was set back: an earlier time lets nobody go who was held."""

import pytest

from tasktick.model.change import patch
from tasktick.model.state import State
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.line import task_of
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def test_a_fire_that_waits_for_its_decision_waits_on(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at - HOUR_MS

    assert await calendar.world.claim(ahead.id, was_due={ahead.id: ahead.wake_at}) == []

    await calendar.pass_ms(HOUR_MS)
    assert len(await calendar.world.claim(ahead.id)) == 1


async def test_a_fire_that_nothing_holds_goes(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at - HOUR_MS

    assert len(await calendar.world.claim(ahead.id, was_due={ahead.id: ahead.wake_at})) == 1


async def test_a_fire_does_not_go_past_the_one_before_it(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.pass_ms(MINUTE_MS)
    first, ahead = await task_of(calendar, name, 0), await calendar.ahead(name)
    calendar.world.now = ahead.due_at - HOUR_MS
    was_due = {one.id: one.wake_at for one in (first, ahead)}

    assert await calendar.world.claim(ahead.id, was_due=was_due) == []

    (running,) = await calendar.world.claim(first.id, was_due=was_due)
    await calendar.world.finish(running)
    assert len(await calendar.world.claim(ahead.id, was_due=was_due)) == 1


async def test_who_stands_in_a_line_waits_for_the_one_before_it(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    await calendar.pass_ms(3 * MINUTE_MS)
    first, second, third = [await task_of(calendar, name, place) for place in range(3)]
    assert [one.state for one in (first, second, third)] == [State.SCHEDULED, State.BLOCKED, State.BLOCKED]
    calendar.world.now -= HOUR_MS

    await calendar.world.act("cancel", third.id)
    assert (await calendar.world.state(second.id)).state is State.BLOCKED

    calendar.world.now += HOUR_MS
    (running,) = await calendar.world.claim(first.id)
    await calendar.world.finish(running)
    assert (await calendar.world.state(second.id)).state is State.SCHEDULED


async def test_who_was_moved_to_later_by_hand_is_in_nobodys_way(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    await calendar.pass_ms(3 * MINUTE_MS)
    first, second, third = [await task_of(calendar, name, place) for place in range(3)]
    calendar.world.now -= HOUR_MS
    later = first.due_at + 2 * HOUR_MS
    await calendar.world.write(patch(first, calendar.world.now, due_at=later, wake_at=later))

    await calendar.world.act("cancel", third.id)

    assert (await calendar.world.state(second.id)).state is State.SCHEDULED
