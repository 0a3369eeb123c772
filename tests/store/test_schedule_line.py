"""No two fires of a schedule at once, and none too late, whatever is cancelled, taken back or given back meanwhile."""

import pytest

from tasktick.model.attempt import release
from tasktick.model.schedule import Rule, pause
from tasktick.model.state import State
from tasktick.scheduler.plan import edit, resume
from tasktick.store import schedules
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.world import HOUR_MS, NODE, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _waiting(calendar: Calendar) -> tuple[str, str]:
    """A schedule with a fire under way, and the fire that waits for it."""
    name = await calendar.create(overlap="buffer_one")
    await calendar.run_ahead(name)
    await calendar.pass_ms(MINUTE_MS)
    waiting = (await calendar.row(name)).buffered_id
    assert waiting is not None
    return name, waiting


async def test_a_claim_that_is_given_back_leaves_its_fire_undecided(calendar: Calendar) -> None:
    name = await calendar.create()
    claimed = await calendar.run_ahead(name)
    await calendar.world.end(release(claimed, NODE, calendar.world.now, sent=False))
    calendar.world.now += HOUR_MS

    assert await calendar.world.claim(claimed.id) == [], "it is late, and nobody has decided"

    calendar.gap_until = calendar.world.now
    await calendar.settle()
    assert (await calendar.world.state(claimed.id)).state is State.MISSED


async def test_a_claim_that_is_given_back_once_it_is_decided_may_be_made_again(calendar: Calendar) -> None:
    name = await calendar.create()
    claimed = await calendar.run_ahead(name)
    await calendar.settle()
    await calendar.world.end(release(claimed, NODE, calendar.world.now, sent=False))
    calendar.world.now += HOUR_MS

    assert len(await calendar.world.claim(claimed.id)) == 1


async def test_a_fire_that_was_cancelled_does_not_hide_the_one_before_it(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.run_ahead(name)
    await calendar.settle()
    await calendar.world.act("cancel", (await calendar.ahead(name)).id)

    await calendar.pass_ms(2 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["run", "skipped(cancelled)", "skipped(overlap)"]


async def test_one_that_waited_and_is_cancelled_does_not_hide_the_one_before_it(calendar: Calendar) -> None:
    name, waiting = await _waiting(calendar)
    ahead = await calendar.ahead(name)

    await calendar.world.act("cancel", waiting)

    calendar.world.now = ahead.due_at
    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()
    assert (await calendar.outcomes(name))[-1] == "run(buffered)", "it takes the place in line"


async def test_one_that_waited_and_is_paused_does_not_hide_the_one_before_it(calendar: Calendar) -> None:
    name, waiting = await _waiting(calendar)
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    assert (await calendar.world.state(waiting)).state is State.SKIPPED
    await calendar.move(name, lambda seen: resume(seen.schedule, seen.tasks, calendar.moment()))

    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at

    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()
    assert await calendar.outcomes(name) == ["run", "skipped(paused)", "run(buffered)"]


@pytest.mark.parametrize("bound", ["max_fires", "end_at"])
async def test_a_schedule_that_is_given_more_time_makes_up_for_none(calendar: Calendar, bound: str) -> None:
    if bound == "max_fires":
        name = await calendar.create(max_fires=1)
    else:
        name = await calendar.create(end_at=calendar.world.now + MINUTE_MS)
    await calendar.fire(name)
    calendar.world.now += HOUR_MS

    seen = await calendar.find(name)
    wanted = replaced(seen.schedule, max_fires=None, end_at=None)
    plan = edit(seen.schedule, wanted, seen.tasks, calendar.moment())
    await calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    assert (await calendar.ahead(name)).run_at == calendar.world.now + MINUTE_MS
    assert await calendar.outcomes(name) == ["run"]


async def test_an_edit_of_its_rule_writes_down_the_times_of_a_pause(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    await calendar.pass_ms(2 * MINUTE_MS)
    wanted = Rule(every_ms=7 * MINUTE_MS)

    await calendar.move(
        name, lambda seen: edit(seen.schedule, replaced(seen.schedule, rule=wanted), seen.tasks, calendar.moment())
    )

    assert await calendar.outcomes(name) == ["skipped(paused)"] * 2
