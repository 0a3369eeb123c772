"""Fires that give up one after the other: counted, and enough of them pause their schedule."""

import pytest

from tasktick.model.schedule import pause
from tasktick.model.state import State
from tasktick.scheduler.plan import resume
from tasktick.store.schedule_events import TYPES
from tests.store import told
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _told(calendar: Calendar) -> list[tuple[str, object]]:
    """What is told of schedules that stand still or go on: the type, and the reason of a pause."""
    await calendar.world.database.number_events()
    items = await calendar.world.database.read(told.items)
    return [(item.type, (item.data or {}).get("reason")) for _, item in items if item.type in TYPES]


async def test_so_many_failures_in_a_row_pause_it_and_say_so(calendar: Calendar) -> None:
    name = await calendar.create(pause_on_failures=3)

    for _ in range(2):
        assert await calendar.fire(name, 400) is State.DEAD
    before = await calendar.row(name)
    assert (before.consecutive_failures, before.paused) == (2, False)

    assert await calendar.fire(name, 400) is State.DEAD

    row = await calendar.row(name)
    assert (row.paused, row.paused_until, row.note, row.pause_reason) == (
        True,
        None,
        "paused after 3 failures",
        "failures",
    )
    assert (row.consecutive_failures, row.failed, row.next_id) == (3, 3, None)
    assert row.version == before.version + 1
    assert await _told(calendar) == [("schedule.paused", "failures")]


async def test_a_success_counts_anew(calendar: Calendar) -> None:
    name = await calendar.create(pause_on_failures=2)

    for status in (400, 200, 400, 200, 400):
        await calendar.fire(name, status)

    row = await calendar.row(name)
    assert (row.consecutive_failures, row.failed, row.paused) == (1, 3, False)


async def test_what_is_cancelled_or_expires_says_nothing_about_the_receiver(calendar: Calendar) -> None:
    name = await calendar.create(pause_on_failures=2)
    await calendar.fire(name, 400)

    await calendar.world.act("cancel", (await calendar.ahead(name)).id)
    await calendar.pass_ms(MINUTE_MS)

    assert (await calendar.row(name)).consecutive_failures == 1
    await calendar.fire(name, 400)
    assert (await calendar.row(name)).paused


async def test_a_resume_counts_anew(calendar: Calendar) -> None:
    name = await calendar.create(pause_on_failures=1)
    await calendar.fire(name, 400)

    await calendar.move(name, lambda seen: resume(seen.schedule, seen.tasks, calendar.moment()))

    row = await calendar.row(name)
    assert (row.paused, row.pause_reason, row.consecutive_failures) == (False, None, 0)
    assert await _told(calendar) == [("schedule.paused", "failures"), ("schedule.resumed", None)]


async def test_without_a_bound_failures_are_counted_and_nothing_is_paused(calendar: Calendar) -> None:
    name = await calendar.create()

    for _ in range(5):
        await calendar.fire(name, 400)

    row = await calendar.row(name)
    assert (row.consecutive_failures, row.paused) == (5, False)


async def test_an_end_that_a_plan_has_not_seen_is_not_forgotten_by_it(calendar: Calendar) -> None:
    name = await calendar.create(overlap="allow")
    claimed = await calendar.run_ahead(name)
    seen = await calendar.find(name)
    await calendar.world.finish(claimed, 400)

    plan = pause(seen.schedule, {}, calendar.moment().by, None, "by hand")
    await calendar.write(plan)

    row = await calendar.row(name)
    assert (row.note, row.pause_reason, row.consecutive_failures) == ("by hand", "requested", 1)


async def test_ends_of_one_batch_count_in_their_order(calendar: Calendar) -> None:
    name = await calendar.create(overlap="allow", pause_on_failures=2)
    claimed = []
    for _ in range(4):
        claimed.append(await calendar.run_ahead(name))
        await calendar.settle()

    statuses = (400, 400, 200, 400)
    ends = [await calendar.world.answered(one, status) for one, status in zip(claimed, statuses, strict=True)]
    await calendar.world.end(*ends)

    row = await calendar.row(name)
    assert (row.consecutive_failures, row.failed, row.paused) == (1, 3, False)
