"""Schedules that are edited: no time is lost between the rule that was and the one that is to be."""

import pytest

from tasktick.model.schedule import Rule, pause
from tasktick.scheduler.plan import edit, resume
from tasktick.store import retention
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def test_an_edit_of_a_paused_schedule_writes_down_the_times_of_the_pause(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    await calendar.pass_ms(3 * MINUTE_MS)
    wanted = Rule(every_ms=7 * MINUTE_MS)

    await calendar.move(
        name, lambda seen: edit(seen.schedule, replaced(seen.schedule, rule=wanted), seen.tasks, calendar.moment())
    )

    assert await calendar.outcomes(name) == ["skipped(paused)"] * 3
    assert (await calendar.row(name)).next_id is None
    await calendar.move(name, lambda seen: resume(seen.schedule, seen.tasks, calendar.moment()))
    assert await calendar.outcomes(name) == ["skipped(paused)"] * 3


@pytest.mark.parametrize("fields", [{"rule": Rule(every_ms=7 * MINUTE_MS)}, {"end_at": 1}, {"start_at": 2**42}])
async def test_an_edit_does_not_lose_a_fire_that_its_spread_put_off(
    calendar: Calendar, fields: dict[str, object]
) -> None:
    name = await calendar.create(jitter_ms=MINUTE_MS)
    ahead = await calendar.ahead(name)
    assert ahead.due_at > ahead.run_at
    calendar.world.now = ahead.due_at - 1
    wanted = replaced((await calendar.row(name)), **fields)

    await calendar.move(name, lambda seen: edit(seen.schedule, wanted, seen.tasks, calendar.moment()))

    [entry] = await calendar.ledger(name)
    assert (entry.row.nominal_at, entry.row.outcome, entry.row.task_id) == (ahead.run_at, "run", ahead.id)
    calendar.world.now = ahead.due_at
    assert len(await calendar.world.claim(ahead.id)) == 1


async def test_an_edit_of_what_a_put_off_fire_sends_is_sent_by_it(calendar: Calendar) -> None:
    name = await calendar.create(jitter_ms=MINUTE_MS)
    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at - 1
    wanted = replaced((await calendar.row(name)), name="another")

    await calendar.move(name, lambda seen: edit(seen.schedule, wanted, seen.tasks, calendar.moment()))

    after = await calendar.ahead(name)
    assert ((after.run_at, after.due_at), after.id == ahead.id) == ((ahead.run_at, ahead.due_at), False)
    assert await calendar.outcomes(name) == []


async def test_one_at_its_end_stays_there_though_its_last_run_was_cancelled_until_it_is_changed(
    calendar: Calendar,
) -> None:
    """Times since its end are not made up for; a change of its rule met no fire ahead of it, and failed."""
    name = await calendar.create(max_fires=1)
    await calendar.pass_ms(MINUTE_MS)
    task_id = (await calendar.ledger(name))[0].row.task_id
    assert task_id is not None
    await calendar.world.act("cancel", task_id)
    await calendar.pass_ms(10 * MINUTE_MS)
    ended = await calendar.row(name)
    assert (ended.ended, ended.fired, await calendar.outcomes(name)) == (True, 0, ["skipped(cancelled)"])
    wanted = replaced(ended, rule=Rule(every_ms=2 * MINUTE_MS))

    await calendar.move(name, lambda seen: edit(seen.schedule, wanted, seen.tasks, calendar.moment()))

    after = await calendar.row(name)
    assert after.next_at is not None
    assert after.next_at > calendar.world.now
    assert await calendar.outcomes(name) == ["skipped(cancelled)"]


@pytest.mark.parametrize("bound", ["max_fires", "end_at"])
async def test_a_schedule_that_had_ended_goes_on_from_now(calendar: Calendar, bound: str) -> None:
    begun = calendar.world.now
    if bound == "max_fires":
        name = await calendar.create(max_fires=1)
    else:
        name = await calendar.create(end_at=begun + MINUTE_MS)
    await calendar.fire(name)
    calendar.world.now = begun + HOUR_MS
    wanted = replaced(await calendar.row(name), max_fires=None, end_at=None)

    await calendar.move(name, lambda seen: edit(seen.schedule, wanted, seen.tasks, calendar.moment()))
    await calendar.settle()

    assert await calendar.outcomes(name) == ["run"]
    assert (await calendar.ahead(name)).run_at == begun + HOUR_MS + MINUTE_MS


async def test_a_pause_that_was_over_while_nobody_was_there_skips_only_its_own_times(calendar: Calendar) -> None:
    name = await calendar.create()
    until = calendar.world.now + 2 * MINUTE_MS
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, until, None))

    await calendar.pass_ms(5 * MINUTE_MS, seen=False)

    missed = ["missed(catch_up:latest)"] * 2
    assert await calendar.outcomes(name) == ["skipped(paused)"] * 2 + missed + ["run"]


async def test_a_fire_that_ran_ahead_of_its_time_and_was_forgotten_is_not_run_again(calendar: Calendar) -> None:
    name = await calendar.create(Rule(every_ms=60 * 24 * HOUR_MS))
    ahead = await calendar.ahead(name)
    await calendar.world.act("run", ahead.id)
    [claimed] = await calendar.world.claim(ahead.id)
    await calendar.world.finish(claimed)
    later = calendar.world.now + 1
    await calendar.world.database.write(lambda tx: retention.remove_finished(tx, later, 100))
    wanted = replaced(await calendar.row(name), name="another")

    await calendar.move(name, lambda seen: edit(seen.schedule, wanted, seen.tasks, calendar.moment()))

    assert await calendar.outcomes(name) == ["run"]
    assert (await calendar.ahead(name)).run_at > ahead.run_at
