"""Whatever the end of a fire of a line, it leaves its place, and the next goes."""

from typing import Any

import pytest

from tasktick.model.attempt import release
from tasktick.model.change import expire
from tasktick.model.schedule import FireTemplate, stand_still
from tasktick.model.state import State
from tasktick.model.task import Claimed
from tasktick.store import due as due_store
from tasktick.store import lines, schedules
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.line import standing, states, task_of, under_way
from tests.store.world import HOUR_MS, NODE, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _cancelled(calendar: Calendar, claimed: Claimed) -> None:
    await calendar.world.act("cancel", claimed.id)
    await calendar.world.finish(claimed, 500)


async def _expired(calendar: Calendar, claimed: Claimed) -> None:
    await calendar.world.end(release(claimed, NODE, calendar.world.now, sent=False))
    assert await calendar.world.write(expire(await calendar.world.state(claimed.id), calendar.world.now))


async def _died(calendar: Calendar, claimed: Claimed) -> None:
    assert await calendar.world.finish(claimed, 400) is State.DEAD


async def _lost(calendar: Calendar, claimed: Claimed) -> None:
    calendar.world.now = claimed.lease_until + 1
    await calendar.world.rescue(claimed)
    await calendar.world.act("cancel", claimed.id)


async def _unclaimed(calendar: Calendar, claimed: Claimed) -> None:
    await calendar.world.end(release(claimed, NODE, calendar.world.now, sent=False))
    await calendar.world.act("cancel", claimed.id)


@pytest.mark.parametrize("end", [_cancelled, _expired, _died, _lost, _unclaimed])
async def test_whatever_the_end_of_a_fire_it_leaves_its_line(calendar: Calendar, end: Any) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)

    await end(calendar, running)

    assert [row.waits for row in await standing(calendar, name)] == [False]
    assert (await task_of(calendar, name, 1)).state is State.SCHEDULED


async def test_one_that_waits_and_is_cancelled_is_passed_over(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)

    await calendar.world.act("cancel", (await task_of(calendar, name, 1)).id)
    assert (await calendar.row(name)).fired == 2
    await calendar.world.finish(running)

    assert await states(calendar, name) == ["succeeded", "cancelled", "scheduled"]
    assert await calendar.outcomes(name) == ["run", "skipped(cancelled)", "run(buffered)"]


async def test_one_that_waits_too_long_expires_in_its_place(calendar: Calendar) -> None:
    template = FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000, expires_in_ms=30_000)
    name = await calendar.create(overlap="buffer_all", template=template)
    running = await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    calendar.world.now += 30_000
    now = calendar.world.now

    late = await calendar.world.database.read(lambda tx: due_store.expired(tx, now, 10))
    assert [one.state for one in late] == [State.BLOCKED]
    await calendar.world.write(*(expire(one, now) for one in late))

    assert await calendar.outcomes(name) == ["run", "skipped(expired)"]
    assert await states(calendar, name) == ["running", "expired"]
    row = await calendar.row(name)
    assert (row.fired, row.skipped) == (1, 1)
    await calendar.world.finish(running)
    assert await standing(calendar, name) == []


async def test_a_fire_that_was_let_run_and_expires_before_it_begins_is_skipped(calendar: Calendar) -> None:
    template = FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000, expires_in_ms=10_000)
    name = await calendar.create(template=template)
    await calendar.pass_ms(MINUTE_MS)
    calendar.world.now += 10_000
    fire = await task_of(calendar, name, 0)
    assert await calendar.world.claim(fire.id) == []

    await calendar.world.write(expire(fire, calendar.world.now))

    assert await calendar.outcomes(name) == ["skipped(expired)"]
    assert (await calendar.row(name)).last_fire_at == fire.run_at


async def test_removing_a_schedule_leaves_no_line_behind(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)
    row = await calendar.row(name)
    seen = await calendar.find(name)
    plan = stand_still(seen.schedule, seen.tasks, calendar.moment().by, "deleted")

    await calendar.world.database.write(lambda tx: schedules.delete(tx, plan))
    assert [one.task_id for one in await calendar.world.database.read(lambda tx: lines.read(tx, [row]))] == [running.id]
    await calendar.world.finish(running)

    assert await calendar.world.database.read(lambda tx: lines.read(tx, [row])) == []
