"""What is told of schedules: missed, late, failing; once, in the transaction of the fact."""

from typing import Any

import pytest

from tasktick.model.change import expire, patch
from tasktick.model.change import pause as pause_task
from tasktick.model.ids import wire
from tasktick.model.schedule import CatchUp, FireTemplate
from tasktick.model.state import State
from tasktick.scheduler.backfill import Verdict
from tasktick.store import lateness, schedules
from tasktick.store.protocol import Transaction
from tests.store import told
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.filling import fill
from tests.store.world import HOUR_MS, TENANT, World

SLA_MS = 30_000


async def told_of(world: World) -> list[tuple[str, dict[str, Any]]]:
    """What is told of schedules: type and data."""
    await world.database.number_events()
    found = await world.database.read(told.items)
    return [(str(item.type), item.data or {}) for _, item in found if item.type is not None]


async def kinds(world: World) -> list[str]:
    return [kind for kind, _ in await told_of(world)]


async def sweep(world: World, held_by: dict[str, str | None] | None = None) -> int:
    ids = await world.database.read(lambda tx: lateness.find(tx, world.now, 100))
    return await world.database.write(lambda tx: lateness.tell(tx, ids, world.now, held_by or {}))


async def test_a_fire_that_does_not_begin_is_told_once_while_it_waits(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    fire = await calendar.ahead(name)
    world.now = fire.due_at + SLA_MS - 1
    assert await sweep(world) == 0
    world.now += 1
    assert await sweep(world, {fire.id: "host"}) == 1
    assert await sweep(world) == 0

    [(kind, data)] = await told_of(world)
    assert (kind, data["task"], data["nominal_at"], data["held_by"]) == (
        "schedule.late",
        wire("tsk", fire.id),
        fire.run_at,
        "host",
    )
    assert (data["state"], data["started_at"]) == ("scheduled", None)
    await calendar.settle()
    await world.claim(fire.id)
    assert await kinds(world) == ["schedule.late"], "a late start is not told again"


async def test_one_that_begins_late_unseen_is_told_by_its_claim(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    fire = await calendar.ahead(name)
    world.now = fire.due_at + SLA_MS + 5
    await calendar.settle()
    (claimed,) = await world.claim(fire.id)

    [(kind, data)] = await told_of(world)
    assert (kind, data["state"], data["started_at"]) == ("schedule.late", "running", world.now)
    await world.give_back(claimed, sent=False)
    assert await sweep(world) == 0
    await world.claim(fire.id)
    assert len(await told_of(world)) == 1


async def test_one_that_is_given_back_before_it_was_sent_can_still_be_late(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    fire = await calendar.ahead(name)
    world.now = fire.due_at
    (claimed,) = await world.claim(fire.id)
    world.now += SLA_MS
    assert await sweep(world) == 0, "it runs"
    await world.give_back(claimed, sent=False)
    assert await sweep(world) == 1


async def test_one_that_is_held_is_late_and_one_that_was_put_off_is_late_later(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    held = await calendar.ahead(name)
    assert await world.write(pause_task(held, world.now)) == [held.id]
    world.now = held.due_at + SLA_MS
    assert await sweep(world) == 1
    other = await calendar.create()
    fire = await calendar.ahead(other)
    later = fire.due_at + 10 * MINUTE_MS
    assert await world.write(patch(fire, world.now, due_at=later, wake_at=later)) == [fire.id]
    world.now = fire.due_at + SLA_MS
    assert await sweep(world) == 0
    world.now = later + SLA_MS
    assert await sweep(world) == 1
    assert (await told_of(world))[-1][1]["due_at"] == later


async def test_one_that_has_ended_is_not_late(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    fire = await calendar.ahead(name)
    assert (await world.act("cancel", fire.id)).state is State.CANCELLED
    world.now = fire.due_at + SLA_MS
    assert await sweep(world) == 0
    assert await kinds(world) == []


async def backfilled(world: World, calendar: Calendar, name: str, *, in_line: bool = False) -> list[str]:
    """All of the last hour, after all: its tasks."""

    async def operation(tx: Transaction) -> list[Verdict]:
        seen = await schedules.find(tx, TENANT, f"sch_{name}")
        stretch = (world.now - HOUR_MS, world.now)
        return await fill(tx, seen, calendar.moment(), stretch, in_line=in_line)

    assert any(one.runs for one in await world.database.write(operation))
    rows = [one.row for one in await calendar.ledger(name)]
    return [str(row.task_id) for row in rows if row.reason == "backfill"]


@pytest.mark.parametrize("by", ["backfill", "hand"])
async def test_one_that_runs_after_all_is_late_from_when_it_was_asked_for(world: World, by: str) -> None:
    world.now -= world.now % HOUR_MS
    calendar = Calendar(world)
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS + 1, seen=False)
    await calendar.settle()
    missed = [str(one.row.task_id) for one in await calendar.ledger(name) if one.row.outcome == "missed"]
    world.now += SLA_MS
    await sweep(world)  # of the one that is not missed
    told_before = len(await told_of(world))
    asked_at = world.now
    if by == "backfill":
        # Among them are times before its first, which have no rows yet.
        ids = await backfilled(world, calendar, name)
        assert set(missed) < set(ids)
    else:
        ids = missed
        for one in ids:
            await world.act("run", one)

    world.now = asked_at + SLA_MS - 1
    assert await sweep(world) == 0
    first, second = ids[:2]
    for claimed in await world.claim(first):
        await world.finish(claimed, 500)
    assert len(await told_of(world)) == told_before, "a start in time is not told"
    assert (await world.state(first)).sla_met is True
    world.now = (await world.state(first)).due_at + HOUR_MS
    for claimed in await world.claim(first):
        await world.finish(claimed, 200)
    assert (await world.state(first)).sla_met is True, "a second attempt changes nothing of it"

    for claimed in await world.claim(second):
        await world.finish(claimed, 200)
    assert (await world.state(second)).sla_met is False
    [(kind, data)] = (await told_of(world))[told_before:]
    assert (kind, data["task"], data["due_at"]) == ("schedule.late", wire("tsk", second), asked_at)


async def test_one_asked_for_afterwards_whose_first_attempt_is_cut_off_is_in_time_still(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS + 1, seen=False)
    await calendar.settle()
    missed = str((await calendar.ledger(name))[0].row.task_id)
    await world.act("run", missed)
    (claimed,) = await world.claim(missed)
    world.now += SLA_MS
    await world.give_back(claimed, sent=True)
    (claimed,) = await world.claim(missed)
    await world.finish(claimed, 200)
    assert (await world.state(missed)).sla_met is True


async def test_missed_times_are_told_with_the_ledger(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(10 * MINUTE_MS, seen=False)
    await calendar.settle()

    found = [data for kind, data in await told_of(world) if kind == "schedule.missed"]
    rows = [one.row for one in await calendar.ledger(name) if one.row.outcome == "missed"]
    assert [(data["nominal_at"], data["times"]) for data in found] == [(row.nominal_at, row.times) for row in rows]
    assert len(rows) > 1
    before = len(await told_of(world))
    await calendar.settle()
    assert len(await told_of(world)) == before


async def test_what_is_left_of_missed_times_is_not_told_again_when_some_of_them_run(world: World) -> None:
    calendar = Calendar(world)
    calendar.missed_rows_max = 5
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(50 * MINUTE_MS, seen=False)
    await calendar.settle()
    rows = [one.row for one in await calendar.ledger(name)]
    (stretch,) = [row for row in rows if row.until_at is not None]
    before = await told_of(world)
    moment, middle = calendar.moment(), stretch.nominal_at + 5 * MINUTE_MS

    async def operation(tx: Transaction) -> None:
        seen = await schedules.find(tx, TENANT, f"sch_{name}")
        await fill(tx, seen, moment, (middle, middle + 2 * MINUTE_MS))

    await world.database.write(operation)
    assert await told_of(world) == before
    parts = [one.row for one in await calendar.ledger(name) if one.row.until_at is not None]
    assert sum(row.times for row in parts) == stretch.times - 3, "the stretch was cut"


async def test_a_fire_that_gives_up_or_expires_is_told(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    assert await calendar.fire(name, 400) is State.DEAD
    [(kind, data)] = await told_of(world)
    assert (kind, data["reason"], data["status"], data["attempts"]) == ("schedule.failing", "rejected", 400, 1)


async def test_each_failure_in_a_row_is_told_and_the_success_that_ends_them(world: World) -> None:
    calendar = Calendar(world)
    name = await calendar.create()
    for status in (400, 400, 200, 200):
        await calendar.fire(name, status)
        world.now += MINUTE_MS
    assert [(kind, data.get("consecutive_failures")) for kind, data in await told_of(world)] == [
        ("schedule.failing", 1),
        ("schedule.failing", 2),
        ("schedule.recovered", None),
    ]


async def test_a_fire_that_was_to_start_by_a_time_is_told_when_that_has_passed(world: World) -> None:
    calendar = Calendar(world)
    template = FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000, expires_in_ms=1_000)
    fire = await calendar.ahead(await calendar.create(template=template))
    world.now = fire.due_at + 1_000
    assert await world.write(expire(fire, world.now)) == [fire.id]
    [(kind, data)] = await told_of(world)
    assert (kind, data["reason"], data["task"]) == ("schedule.failing", "expired", wire("tsk", fire.id))
