"""Lines: fires of a schedule that wait for each other, and what lets them go."""

from typing import Any

import pytest

from tasktick.model.ids import wire
from tasktick.model.schedule import CatchUp, pause
from tasktick.model.state import State
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import edit, resume
from tasktick.store import schedules
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.line import standing, states, task_of, under_way
from tests.store.world import HOUR_MS, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


@pytest.mark.parametrize("overlap", ["buffer_all", "cancel_other"])
async def test_nobody_claims_a_fire_of_a_line_before_it_is_decided(calendar: Calendar, overlap: str) -> None:
    name = await calendar.create(overlap=overlap)
    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at

    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()

    assert len(await calendar.world.claim(ahead.id)) == 1


async def test_everything_runs_one_after_the_other_in_order(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(3 * MINUTE_MS)
    assert await calendar.outcomes(name) == ["run", *["run(buffered)"] * 3]
    assert await states(calendar, name) == ["running", *["blocked"] * 3]

    for place in (1, 2, 3):
        (ended,) = await calendar.world.end(await calendar.world.answered(running))
        waiting = await task_of(calendar, name, place)
        assert (ended.woken is not None and ended.woken.id, waiting.state) == (waiting.id, State.SCHEDULED)
        (running,) = await calendar.world.claim(waiting.id)
        assert (await states(calendar, name))[place + 1 :] == ["blocked"] * (3 - place)

    await calendar.world.finish(running)
    assert await standing(calendar, name) == []


async def test_a_line_is_bounded_and_says_so(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all", catch_up=CatchUp(max=2))
    running = await under_way(calendar, name)

    await calendar.pass_ms(4 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["run", *["run(buffered)"] * 2, *["skipped(buffer_full)"] * 2]
    await calendar.world.finish(running)
    await calendar.pass_ms(MINUTE_MS)
    assert (await calendar.outcomes(name))[-1] == "run(buffered)", "there is room again"


async def test_what_an_outage_left_runs_one_after_the_other(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all", catch_up=CatchUp(mode="all", max=3))

    await calendar.pass_ms(5 * MINUTE_MS, seen=False)

    missed, waited = ["missed(catch_up:all)"] * 2, ["run", "run(buffered)", "run(buffered)"]
    assert await calendar.outcomes(name) == missed + waited


async def test_one_that_runs_is_asked_to_stop_and_the_new_one_waits_for_its_end(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await under_way(calendar, name)

    await calendar.pass_ms(MINUTE_MS)

    asked, new = await task_of(calendar, name, 0), await task_of(calendar, name, 1)
    assert (asked.cancel_requested, asked.reason) == (True, f"cancel_other:{wire('tsk', new.id)}")
    assert new.state is State.BLOCKED
    assert await calendar.world.finish(running, 500) is State.CANCELLED
    assert (await calendar.world.state(running.id)).reason == f"cancel_other:{wire('tsk', new.id)}"
    assert (await calendar.world.state(new.id)).state is State.SCHEDULED
    assert await calendar.outcomes(name) == ["run", "run(buffered)"]


async def test_one_that_runs_and_succeeds_after_all_keeps_its_success(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)

    assert await calendar.world.finish(running) is State.SUCCEEDED

    assert (await calendar.world.state(running.id)).reason is None
    assert await states(calendar, name) == ["succeeded", "scheduled"]


async def test_one_that_waits_for_its_next_attempt_is_cancelled_at_once(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await under_way(calendar, name)
    assert await calendar.world.finish(running, 500) is State.RETRYING

    await calendar.pass_ms(MINUTE_MS)

    new = await task_of(calendar, name, 1)
    old = await calendar.world.state(running.id)
    assert (old.state, old.reason) == (State.CANCELLED, f"cancel_other:{wire('tsk', new.id)}")
    assert new.state is State.SCHEDULED
    assert await calendar.outcomes(name) == ["run", "run"]


async def test_one_that_waited_is_replaced_by_the_one_behind_it(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    await calendar.pass_ms(MINUTE_MS)

    last = await task_of(calendar, name, 2)
    assert await states(calendar, name) == ["running", "cancelled", "blocked"]
    assert await calendar.outcomes(name) == ["run", f"skipped(cancel_other:{wire('tsk', last.id)})", "run(buffered)"]
    row = await calendar.row(name)
    assert (row.fired, row.skipped) == (2, 1)
    await calendar.world.finish(running)
    assert (await calendar.world.state(last.id)).state is State.SCHEDULED


async def test_of_times_that_are_due_at_once_the_last_takes_the_place_of_all(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")

    await calendar.pass_ms(3 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["skipped(overlap)", "skipped(overlap)", "run"]


@pytest.mark.parametrize("wanted", ["skip", "buffer_one", "cancel_other"])
async def test_another_overlap_does_not_forget_who_waits(calendar: Calendar, wanted: Any) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    seen = await calendar.find(name)
    plan = edit(
        seen.schedule,
        replaced(seen.schedule, overlap=wanted),
        seen.tasks,
        heeding(calendar.moment(), seen.calendars, seen.line),
    )
    await calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    await calendar.pass_ms(MINUTE_MS)
    await calendar.world.finish(running)

    expected = {
        "skip": (["run", "run(buffered)", "skipped(overlap)"], ["succeeded", "scheduled", "skipped"]),
        "buffer_one": (["run", "run(buffered)", "run(buffered)"], ["succeeded", "scheduled", "blocked"]),
        "cancel_other": (None, ["succeeded", "cancelled", "scheduled"]),
    }[wanted]
    assert await states(calendar, name) == expected[1]
    if expected[0] is not None:
        assert await calendar.outcomes(name) == expected[0]


async def test_one_that_waited_and_ends_does_not_hide_those_before_it_from_another_overlap(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    await under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    seen = await calendar.find(name)
    plan = edit(seen.schedule, replaced(seen.schedule, overlap="skip"), seen.tasks, calendar.moment())
    await calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    await calendar.world.act("cancel", (await task_of(calendar, name, 1)).id)

    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at
    assert await calendar.world.claim(ahead.id) == [], "the first one still runs"
    await calendar.settle()
    assert await calendar.outcomes(name) == ["run", "skipped(cancelled)", "skipped(overlap)"]


async def test_a_fire_that_was_under_way_before_the_line_was_is_in_the_way(calendar: Calendar) -> None:
    name = await calendar.create(overlap="skip")
    running = await calendar.run_ahead(name)
    await calendar.settle()
    seen = await calendar.find(name)
    plan = edit(seen.schedule, replaced(seen.schedule, overlap="buffer_all"), seen.tasks, calendar.moment())
    await calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    await calendar.pass_ms(MINUTE_MS)

    assert await states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)
    assert await states(calendar, name) == ["succeeded", "scheduled"]


async def test_one_that_was_run_by_hand_is_in_the_way_of_the_next(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    ahead = await calendar.ahead(name)
    await calendar.world.act("run", ahead.id)
    (running,) = await calendar.world.claim(ahead.id)

    await calendar.pass_ms(MINUTE_MS)
    await calendar.pass_ms(MINUTE_MS)

    assert await states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)
    assert await states(calendar, name) == ["succeeded", "scheduled"]


async def test_a_line_outlives_a_pause(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await under_way(calendar, name)
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    await calendar.move(
        name, lambda seen: resume(seen.schedule, seen.tasks, heeding(calendar.moment(), seen.calendars, seen.line))
    )

    await calendar.pass_ms(MINUTE_MS)

    assert await states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)
