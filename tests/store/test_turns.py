"""Schedules that share a line and are due at once: one round of the loop decides about all of them."""

from random import Random

import msgspec
import pytest

from tasktick.model.calendar import Calendar as Kept
from tasktick.model.calendar import CalendarUse, Content, Days
from tasktick.model.change import run_now
from tasktick.model.ids import wire
from tasktick.model.schedule import Plan, pause
from tasktick.model.state import State
from tasktick.scheduler.book import heeding
from tasktick.scheduler.materialise import Materialiser
from tasktick.scheduler.plan import edit
from tasktick.scheduler.turns import Turns, in_lines
from tasktick.store import calendars, schedules
from tests.store.calendar import MINUTE_MS, PARTITION, Calendar
from tests.store.line import standing, states, task_of
from tests.store.test_materialise import materialiser_of
from tests.store.world import HOUR_MS, TENANT, World, WorldClock

SHARED = 12


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


@pytest.fixture
def loop(calendar: Calendar) -> Materialiser:
    return materialiser_of(calendar.world, WorldClock(calendar.world))


async def shared(calendar: Calendar, *overlaps: str) -> list[str]:
    """Schedules of one key, in the order in which they are decided."""
    return sorted([await calendar.create(overlap=overlap, overlap_key="shared") for overlap in overlaps])


async def planned(calendar: Calendar) -> list[Plan]:
    """What is decided about all that is due, not yet written."""
    due = await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100))
    found = []
    for together in in_lines(due):
        turn = Turns(together)
        found += [turn.plan(one, calendar.moment()) for one in together]
    return [plan for plan in found if plan is not None]


async def outcomes(calendar: Calendar, names: list[str]) -> list[str]:
    return [word for name in names for word in await calendar.outcomes(name)]


async def test_of_those_that_take_each_others_place_the_last_runs(calendar: Calendar, loop: Materialiser) -> None:
    names = await shared(calendar, *["cancel_other"] * SHARED)
    calendar.world.now += MINUTE_MS

    await loop.step()

    assert await outcomes(calendar, names) == ["skipped(overlap)"] * (SHARED - 1) + ["run"]
    assert [row.task_id for row in await standing(calendar, *names)] == [(await task_of(calendar, names[-1], 0)).id]
    for name in names:
        assert (await calendar.row(name)).next_due_at == calendar.world.now + MINUTE_MS


async def test_all_that_wait_for_each_other_join_at_once(calendar: Calendar, loop: Materialiser) -> None:
    names = await shared(calendar, *["buffer_all"] * SHARED)
    calendar.world.now += MINUTE_MS

    await loop.step()

    assert await outcomes(calendar, names) == ["run"] + ["run(buffered)"] * (SHARED - 1)
    rows = await standing(calendar, *names)
    assert sorted(row.waits for row in rows) == [False] + [True] * (SHARED - 1)
    order = []
    while rows := await standing(calendar, *names):
        (first,) = [row for row in rows if not row.waits]
        (claimed,) = await calendar.world.claim(first.task_id)
        await calendar.world.finish(claimed)
        order.append(first.schedule_id)
    assert sorted(order) == names


async def test_of_one_that_waits_the_others_know_at_once(calendar: Calendar, loop: Materialiser) -> None:
    names = await shared(calendar, *["buffer_one"] * 4)
    calendar.world.now += MINUTE_MS

    await loop.step()

    assert await outcomes(calendar, names) == ["run", "run(buffered)", "skipped(overlap)", "skipped(overlap)"]


async def test_who_is_at_work_is_asked_to_stop_once_for_all_that_take_its_place(
    calendar: Calendar, loop: Materialiser
) -> None:
    names = await shared(calendar, *["cancel_other"] * 4)
    calendar.world.now += MINUTE_MS
    await loop.step()
    running = await task_of(calendar, names[-1], 0)
    (claimed,) = await calendar.world.claim(running.id)
    calendar.world.now += MINUTE_MS

    await loop.step()

    assert [(await calendar.outcomes(name))[-1] for name in names] == ["skipped(overlap)"] * 3 + ["run(buffered)"]
    assert (await calendar.world.state(claimed.id)).cancel_requested
    await calendar.world.finish(claimed, 500)
    assert (await task_of(calendar, names[-1], 1)).state is State.SCHEDULED


async def test_nobody_gives_way_to_one_that_has_been_paused_meanwhile(calendar: Calendar) -> None:
    *others, last = await shared(calendar, *["cancel_other"] * 3)
    calendar.world.now += MINUTE_MS
    plans = await planned(calendar)
    await calendar.move(last, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))

    assert await calendar.write(*plans) == [False, False, False]

    again = await planned(calendar)
    assert all(await calendar.write(*again))
    assert await outcomes(calendar, others) == ["skipped(overlap)", "run"]
    assert await calendar.outcomes(last) == []


async def test_nobody_gives_way_to_one_that_a_calendar_holds(calendar: Calendar, loop: Materialiser) -> None:
    now = calendar.world.now
    closed = Kept(TENANT, "closed", 1, now, now, Content(dates=(Days(0, 100_000),)))
    await calendar.world.database.write(lambda tx: calendars.put(tx, closed))
    first = await calendar.create(overlap="cancel_other", overlap_key="shared")
    held = await calendar.create(overlap="cancel_other", overlap_key="shared", calendars=(CalendarUse("closed"),))
    assert first < held
    calendar.world.now += MINUTE_MS

    await loop.step()
    await loop.step()

    assert await calendar.outcomes(held) == ["skipped(calendar:closed)"]
    assert await calendar.outcomes(first) == ["run"]


async def test_who_stands_behind_one_that_has_changed_comes_in_the_next_round(calendar: Calendar) -> None:
    first, second, third = await shared(calendar, *["buffer_all"] * 3)
    calendar.world.now += MINUTE_MS
    plans = await planned(calendar)
    await calendar.move(first, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))

    assert await calendar.write(*plans) == [False, False, False], "the others rest on it"

    assert all(await calendar.write(*await planned(calendar)))
    assert await outcomes(calendar, [second, third]) == ["run", "run(buffered)"]


async def test_more_than_are_decided_at_once_come_in_the_next_round(
    calendar: Calendar, loop: Materialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasktick.scheduler.materialise.TURNS_MAX", 3)
    names = await shared(calendar, *["buffer_all"] * 7)
    calendar.world.now += MINUTE_MS

    assert [await loop.step() for _ in range(2)] == [0, 0]
    await loop.step()

    assert await outcomes(calendar, names) == ["run"] + ["run(buffered)"] * 6


@pytest.mark.parametrize("seed", range(6))
async def test_a_mixed_line_stays_sound_and_is_decided_whole(calendar: Calendar, loop: Materialiser, seed: int) -> None:
    """Whatever shares a line: each time has its row, nobody overlaps, and nothing is left behind."""
    random = Random(seed)
    modes = ("skip", "buffer_one", "buffer_all", "cancel_other")
    names = await shared(calendar, *(random.choice(modes) for _ in range(8)))
    for _ in range(5):
        calendar.world.now += MINUTE_MS
        for _ in range(len(names)):
            await loop.step()
        rows = await standing(calendar, *names)
        at_work = [row for row in rows if not row.waits]
        assert len(at_work) == 1
        state = await calendar.world.state(at_work[0].task_id)
        if state.state is State.SCHEDULED and random.random() < 0.8:
            (claimed,) = await calendar.world.claim(state.id)
            if random.random() < 0.6:
                await calendar.world.finish(claimed)
    for name in names:
        row = await calendar.row(name)
        ledger = [one.row for one in await calendar.ledger(name)]
        assert [one.nominal_at for one in ledger] == [row.created_at + MINUTE_MS * n for n in range(1, 6)]
        assert row.fired == sum(one.outcome == "run" for one in ledger)
        assert row.skipped == sum(one.outcome == "skipped" for one in ledger)
    await calendar.world.check_counts()
    assert {word for name in names for word in await states(calendar, name)} <= {
        *["scheduled", "blocked", "running", "succeeded", "skipped", "cancelled"]
    }


async def counted(calendar: Calendar, name: str) -> list[str]:
    """What became of its times; its counts are those of its ledger."""
    row, ledger = await calendar.row(name), [one.row for one in await calendar.ledger(name)]
    for outcome, count in (("run", row.fired), ("skipped", row.skipped), ("missed", row.missed)):
        assert count == sum(one.times for one in ledger if one.outcome == outcome), outcome
    return await calendar.outcomes(name)


async def replaced_by(calendar: Calendar, name: str, place: int) -> str:
    return f"skipped(cancel_other:{wire('tsk', (await task_of(calendar, name, place)).id)})"


async def test_whose_fire_is_replaced_counts_that_beside_what_is_decided_of_it_then(
    calendar: Calendar, loop: Materialiser
) -> None:
    """Both are written at once: what is said of the times of one must not undo what the other has counted of them."""
    replaced = await calendar.create(overlap="skip", overlap_key="shared")
    calendar.world.now += MINUTE_MS
    await loop.step()
    replacing = await calendar.create(overlap="cancel_other", overlap_key="shared")
    calendar.world.now += MINUTE_MS

    await loop.step()

    assert await counted(calendar, replaced) == [await replaced_by(calendar, replacing, 0), "skipped(overlap)"]
    assert await counted(calendar, replacing) == ["run"]


async def test_a_fire_that_was_run_by_hand_is_replaced_in_the_decision_that_writes_it_down(
    calendar: Calendar, loop: Materialiser
) -> None:
    """It was changed twice in one transaction, which one writer cannot undo and do again: the process ended."""
    name = await calendar.create(overlap="cancel_other")
    ahead = await calendar.ahead(name)
    assert await calendar.world.write(run_now(ahead, calendar.world.now)) == [ahead.id]
    calendar.world.now += 3 * MINUTE_MS

    await loop.step()

    assert await counted(calendar, name) == [await replaced_by(calendar, name, 2), "skipped(overlap)", "run"]
    assert (await calendar.world.state(ahead.id)).state is State.CANCELLED
    assert [row.task_id for row in await standing(calendar, name)] == [(await task_of(calendar, name, 2)).id]


async def test_nobody_joins_a_line_behind_one_that_leaves_it_at_the_same_time(
    calendar: Calendar, loop: Materialiser
) -> None:
    """Its schedule stands in another line by now, and takes its place: nobody would let go who waits for it."""
    earlier = [calendar.world.ids.new(calendar.world.now, PARTITION) for _ in range(2)]
    leaving = await calendar.create(overlap="cancel_other", overlap_key="shared")
    calendar.world.now += MINUTE_MS
    await loop.step()
    seen = await calendar.find(leaving)
    wanted = msgspec.structs.replace(seen.schedule, overlap_key=None)
    changed = edit(seen.schedule, wanted, seen.tasks, heeding(calendar.moment(), {}, seen.line))
    await calendar.world.database.write(lambda tx: schedules.define(tx, changed))
    others = [await calendar.create(id=one, overlap="buffer_all", overlap_key="shared") for one in earlier]
    calendar.world.now += MINUTE_MS

    for _ in range(4):
        await loop.step()

    rows = await standing(calendar, *others)
    assert [one.waits for one in rows] == [False, True]
