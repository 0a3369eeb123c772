"""Lines: fires that wait for each other, whether of one schedule or of several, and what lets them go."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tasktick.model import change
from tasktick.model.attempt import release
from tasktick.model.change import expire
from tasktick.model.ids import wire
from tasktick.model.line import LineFire
from tasktick.model.schedule import CatchUp, FireTemplate, pause, stand_still
from tasktick.model.state import State
from tasktick.model.task import Claimed, TaskState
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import edit, resume, settle
from tasktick.store import due as due_store
from tasktick.store import lines, schedules, tasks
from tasktick.store.protocol import Transaction
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.world import HOUR_MS, NODE, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _states(calendar: Calendar, name: str) -> list[str]:
    """The states of the fires of its ledger, the earliest first."""
    rows = await calendar.ledger(name)
    return [State(one.state).word if one.state is not None else "-" for one in rows]


async def _standing(calendar: Calendar, *names: str) -> list[LineFire]:
    """Who stands in their lines."""
    rows = [await calendar.row(name) for name in names]
    return await calendar.world.database.read(lambda tx: lines.read(tx, rows))


async def _run(calendar: Calendar, name: str, place: int = -1) -> Claimed:
    """Claim a fire of its ledger."""
    task_id = (await calendar.ledger(name))[place].row.task_id
    assert task_id is not None
    (claimed,) = await calendar.world.claim(task_id)
    return claimed


async def _task(calendar: Calendar, name: str, place: int) -> TaskState:
    task_id = (await calendar.ledger(name))[place].row.task_id
    assert task_id is not None
    return await calendar.world.state(task_id)


async def _under_way(calendar: Calendar, name: str) -> Claimed:
    """Its next fire, decided and running."""
    await calendar.pass_ms(MINUTE_MS)
    return await _run(calendar, name)


async def _settle_in_turns(calendar: Calendar) -> None:
    """Decide about everything that is due; of those that share a line one at a time is let through."""
    while found := await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100)):
        plans = [settle(one.schedule, one.tasks, heeding(calendar.moment(), one.calendars, one.line)) for one in found]
        assert any(await calendar.write(*[plan for plan in plans if plan is not None]))


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
    running = await _under_way(calendar, name)
    await calendar.pass_ms(3 * MINUTE_MS)
    assert await calendar.outcomes(name) == ["run", *["run(buffered)"] * 3]
    assert await _states(calendar, name) == ["running", *["blocked"] * 3]

    for place in (1, 2, 3):
        (ended,) = await calendar.world.end(await calendar.world.answered(running))
        waiting = await _task(calendar, name, place)
        assert (ended.woken is not None and ended.woken.id, waiting.state) == (waiting.id, State.SCHEDULED)
        (running,) = await calendar.world.claim(waiting.id)
        assert (await _states(calendar, name))[place + 1 :] == ["blocked"] * (3 - place)

    await calendar.world.finish(running)
    assert await _standing(calendar, name) == []


async def test_a_line_is_bounded_and_says_so(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all", catch_up=CatchUp(max=2))
    running = await _under_way(calendar, name)

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
    running = await _under_way(calendar, name)

    await calendar.pass_ms(MINUTE_MS)

    asked, new = await _task(calendar, name, 0), await _task(calendar, name, 1)
    assert (asked.cancel_requested, asked.reason) == (True, f"cancel_other:{wire('tsk', new.id)}")
    assert new.state is State.BLOCKED
    assert await calendar.world.finish(running, 500) is State.CANCELLED
    assert (await calendar.world.state(running.id)).reason == f"cancel_other:{wire('tsk', new.id)}"
    assert (await calendar.world.state(new.id)).state is State.SCHEDULED
    assert await calendar.outcomes(name) == ["run", "run(buffered)"]


async def test_one_that_runs_and_succeeds_after_all_keeps_its_success(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await _under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)

    assert await calendar.world.finish(running) is State.SUCCEEDED

    assert (await calendar.world.state(running.id)).reason is None
    assert await _states(calendar, name) == ["succeeded", "scheduled"]


async def test_one_that_waits_for_its_next_attempt_is_cancelled_at_once(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await _under_way(calendar, name)
    assert await calendar.world.finish(running, 500) is State.RETRYING

    await calendar.pass_ms(MINUTE_MS)

    new = await _task(calendar, name, 1)
    old = await calendar.world.state(running.id)
    assert (old.state, old.reason) == (State.CANCELLED, f"cancel_other:{wire('tsk', new.id)}")
    assert new.state is State.SCHEDULED
    assert await calendar.outcomes(name) == ["run", "run"]


async def test_one_that_waited_is_replaced_by_the_one_behind_it(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")
    running = await _under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    await calendar.pass_ms(MINUTE_MS)

    last = await _task(calendar, name, 2)
    assert await _states(calendar, name) == ["running", "cancelled", "blocked"]
    assert await calendar.outcomes(name) == ["run", f"skipped(cancel_other:{wire('tsk', last.id)})", "run(buffered)"]
    row = await calendar.row(name)
    assert (row.fired, row.skipped) == (2, 1)
    await calendar.world.finish(running)
    assert (await calendar.world.state(last.id)).state is State.SCHEDULED


async def test_of_times_that_are_due_at_once_the_last_takes_the_place_of_all(calendar: Calendar) -> None:
    name = await calendar.create(overlap="cancel_other")

    await calendar.pass_ms(3 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["skipped(overlap)", "skipped(overlap)", "run"]


async def _two(calendar: Calendar, *overlaps: str, key: str = "shared") -> list[str]:
    return [await calendar.create(overlap=overlap, overlap_key=key) for overlap in overlaps]


async def test_schedules_that_share_a_key_are_one_for_overlap(calendar: Calendar) -> None:
    first, second = await _two(calendar, "skip", "skip")
    calendar.world.now += MINUTE_MS

    await _settle_in_turns(calendar)

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


async def test_one_of_each_key_of_each_tenant(calendar: Calendar) -> None:
    first, second = await calendar.create(overlap="skip", overlap_key="a"), await calendar.create(overlap_key="b")

    await calendar.pass_ms(MINUTE_MS)

    assert (await calendar.outcomes(first), await calendar.outcomes(second)) == (["run"], ["run"])


async def test_a_shared_line_goes_on_in_the_order_of_its_times(calendar: Calendar) -> None:
    first, second = await _two(calendar, "buffer_all", "buffer_all")
    calendar.world.now += MINUTE_MS
    await _settle_in_turns(calendar)
    (at_work,) = [row for row in await _standing(calendar, first) if not row.waits]
    (running,) = await calendar.world.claim(at_work.task_id)
    for _ in range(2):
        calendar.world.now += MINUTE_MS
        await _settle_in_turns(calendar)

    order: list[int] = []
    while True:
        order.append(running.run_at)
        await calendar.world.finish(running)
        rows = [row for row in await _standing(calendar, first) if not row.waits]
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

    new = await _task(calendar, second, 0)
    assert await calendar.outcomes(first) == [f"skipped(cancel_other:{wire('tsk', new.id)})"]
    assert (await calendar.row(first)).fired == 0
    assert new.state is State.SCHEDULED
    assert [row.task_id for row in await _standing(calendar, first)] == [new.id]


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
    running = await _under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)

    await end(calendar, running)

    assert [row.waits for row in await _standing(calendar, name)] == [False]
    assert (await _task(calendar, name, 1)).state is State.SCHEDULED


async def test_one_that_waits_and_is_cancelled_is_passed_over(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await _under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)

    await calendar.world.act("cancel", (await _task(calendar, name, 1)).id)
    assert (await calendar.row(name)).fired == 2
    await calendar.world.finish(running)

    assert await _states(calendar, name) == ["succeeded", "cancelled", "scheduled"]
    assert await calendar.outcomes(name) == ["run", "skipped(cancelled)", "run(buffered)"]


async def test_one_that_waits_too_long_expires_in_its_place(calendar: Calendar) -> None:
    template = FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000, expires_in_ms=30_000)
    name = await calendar.create(overlap="buffer_all", template=template)
    running = await _under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    calendar.world.now += 30_000
    now = calendar.world.now

    late = await calendar.world.database.read(lambda tx: due_store.expired(tx, now, 10))
    assert [one.state for one in late] == [State.BLOCKED]
    await calendar.world.write(*(expire(one, now) for one in late))

    assert await calendar.outcomes(name) == ["run", "skipped(expired)"]
    assert await _states(calendar, name) == ["running", "expired"]
    row = await calendar.row(name)
    assert (row.fired, row.skipped) == (1, 1)
    await calendar.world.finish(running)
    assert await _standing(calendar, name) == []


async def test_a_fire_that_was_let_run_and_expires_before_it_begins_is_skipped(calendar: Calendar) -> None:
    template = FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000, expires_in_ms=10_000)
    name = await calendar.create(template=template)
    await calendar.pass_ms(MINUTE_MS)
    calendar.world.now += 10_000
    fire = await _task(calendar, name, 0)
    assert await calendar.world.claim(fire.id) == []

    await calendar.world.write(expire(fire, calendar.world.now))

    assert await calendar.outcomes(name) == ["skipped(expired)"]
    assert (await calendar.row(name)).last_fire_at == fire.run_at


async def test_a_pause_holds_back_all_that_wait_and_lets_others_of_the_line_go(calendar: Calendar) -> None:
    first, second = await _two(calendar, "buffer_all", "buffer_all")
    calendar.world.now += MINUTE_MS
    await _settle_in_turns(calendar)
    calendar.world.now += MINUTE_MS
    await _settle_in_turns(calendar)
    waiting = [row for row in await _standing(calendar, first) if row.waits]
    assert len(waiting) == 3

    await calendar.move(first, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))

    left = await _standing(calendar, second)
    assert {row.schedule_id for row in left if row.waits} == {second}
    paused = (await calendar.outcomes(first)).count("skipped(paused)")
    assert paused == sum(row.schedule_id == first for row in waiting)
    assert (await calendar.row(first)).skipped == paused


async def test_removing_a_schedule_leaves_no_line_behind(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await _under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)
    row = await calendar.row(name)
    seen = await calendar.find(name)
    plan = stand_still(seen.schedule, seen.tasks, calendar.moment().by, "deleted")

    await calendar.world.database.write(lambda tx: schedules.delete(tx, plan))
    assert [one.task_id for one in await calendar.world.database.read(lambda tx: lines.read(tx, [row]))] == [running.id]
    await calendar.world.finish(running)

    assert await calendar.world.database.read(lambda tx: lines.read(tx, [row])) == []


@pytest.mark.parametrize("wanted", ["skip", "buffer_one", "cancel_other"])
async def test_another_overlap_does_not_forget_who_waits(calendar: Calendar, wanted: Any) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await _under_way(calendar, name)
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
    assert await _states(calendar, name) == expected[1]
    if expected[0] is not None:
        assert await calendar.outcomes(name) == expected[0]


async def test_one_that_waited_and_ends_does_not_hide_those_before_it_from_another_overlap(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    await _under_way(calendar, name)
    await calendar.pass_ms(MINUTE_MS)
    seen = await calendar.find(name)
    plan = edit(seen.schedule, replaced(seen.schedule, overlap="skip"), seen.tasks, calendar.moment())
    await calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    await calendar.world.act("cancel", (await _task(calendar, name, 1)).id)

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

    assert await _states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)
    assert await _states(calendar, name) == ["succeeded", "scheduled"]


async def test_one_that_was_run_by_hand_is_in_the_way_of_the_next(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    ahead = await calendar.ahead(name)
    await calendar.world.act("run", ahead.id)
    (running,) = await calendar.world.claim(ahead.id)

    await calendar.pass_ms(MINUTE_MS)
    await calendar.pass_ms(MINUTE_MS)

    assert await _states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)
    assert await _states(calendar, name) == ["succeeded", "scheduled"]


async def test_a_line_outlives_a_pause(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await _under_way(calendar, name)
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))
    await calendar.move(
        name, lambda seen: resume(seen.schedule, seen.tasks, heeding(calendar.moment(), seen.calendars, seen.line))
    )

    await calendar.pass_ms(MINUTE_MS)

    assert await _states(calendar, name) == ["running", "blocked"]
    await calendar.world.finish(running)


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
    ran = 0
    for _ in range(6):
        calendar.world.now += MINUTE_MS

        async def end() -> None:
            for row in await _standing(calendar, names[0]):
                for claimed in await calendar.world.claim(row.task_id):
                    await calendar.world.finish(claimed)

        await asyncio.gather(*(node.decide() for node in nodes), end())
        standing = await _standing(calendar, names[0])
        at_work = [await calendar.world.state(row.task_id) for row in standing if not row.waits]
        assert len([one for one in at_work if one.state is not State.BLOCKED]) <= 1
        assert not standing or at_work, "who waits does so for somebody"
        ran += len(at_work)
    assert ran

    async def drain() -> int:
        done = 0
        for row in await _standing(calendar, names[0]):
            for claimed in await calendar.world.claim(row.task_id):
                await calendar.world.finish(claimed)
                done += 1
        return done

    while await drain():
        pass
    assert await _standing(calendar, names[0]) == []


async def test_an_end_and_a_decision_at_once_leave_nobody_waiting_for_nobody(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    for _ in range(8):
        running = await _under_way(calendar, name)
        calendar.world.now += MINUTE_MS

        await asyncio.gather(calendar.world.finish(running), _Node(calendar, [name]).decide())

        (row,) = await _standing(calendar, name)
        assert not row.waits, "it goes, whoever was first"
        assert (await calendar.world.state(row.task_id)).state is State.SCHEDULED
        await calendar.world.finish((await calendar.world.claim(row.task_id))[0])


async def test_a_cancellation_and_an_end_at_once_let_the_next_go(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_all")
    running = await _under_way(calendar, name)
    await calendar.pass_ms(2 * MINUTE_MS)
    first = await _task(calendar, name, 1)

    async def cancelled(tx: Transaction) -> list[str]:
        (row,) = await tasks.states(tx, [first.id])
        return await tasks.change(tx, [change.cancel(row, calendar.world.now)])

    async def cancel() -> None:
        while not await calendar.world.database.write(cancelled):  # it was let go a moment before
            pass

    await asyncio.gather(calendar.world.finish(running), cancel())

    assert await _states(calendar, name) == ["succeeded", "cancelled", "scheduled"]
