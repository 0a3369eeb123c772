"""Overlap when fires are ended by hand, or held back: who was waited for is still on its way."""

import pytest

from tasktick.model.schedule import pause
from tasktick.model.state import State
from tasktick.scheduler.plan import resume
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def test_a_fire_in_line_that_is_cancelled_leaves_the_one_before_it_in_the_way(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_one")
    running = await calendar.run_ahead(name)
    await calendar.pass_ms(MINUTE_MS)
    in_line = (await calendar.row(name)).buffered_id
    assert in_line is not None

    await calendar.world.act("cancel", in_line)

    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at
    assert await calendar.world.claim(ahead.id) == [], "the first one still runs"
    await calendar.settle()
    assert (await calendar.world.state(ahead.id)).state is State.BLOCKED
    await calendar.world.finish(running)
    assert (await calendar.world.state(ahead.id)).state is State.SCHEDULED


async def test_a_pause_that_holds_back_a_fire_in_line_leaves_the_one_before_it_in_the_way(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_one")
    running = await calendar.run_ahead(name)
    await calendar.pass_ms(MINUTE_MS)
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    await calendar.move(name, lambda seen: resume(seen.schedule, seen.tasks, calendar.moment()))

    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at

    assert await calendar.world.claim(ahead.id) == [], "the first one still runs"
    await calendar.world.finish(running)
    assert len(await calendar.world.claim(ahead.id)) == 1
    assert await calendar.outcomes(name) == ["run", "skipped(paused)"]


async def test_a_fire_that_is_cancelled_ahead_of_its_time_leaves_the_one_before_it_in_the_way(
    calendar: Calendar,
) -> None:
    name = await calendar.create()
    await calendar.run_ahead(name)
    await calendar.settle()
    await calendar.world.act("cancel", (await calendar.ahead(name)).id)

    await calendar.pass_ms(2 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["run", "skipped(cancelled)", "skipped(overlap)"]


async def test_nobody_in_line_goes_to_a_receiver_that_is_gone(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_one")
    running = await calendar.run_ahead(name)
    await calendar.pass_ms(MINUTE_MS)
    in_line = (await calendar.row(name)).buffered_id
    assert in_line is not None

    ended = await calendar.world.end(await calendar.world.answered(running, 410))

    assert [one.woken for one in ended] == [None]
    assert (await calendar.world.state(in_line)).state is State.SKIPPED
    assert await calendar.outcomes(name) == ["run", "skipped(paused)"]
    await calendar.world.check_counts()
