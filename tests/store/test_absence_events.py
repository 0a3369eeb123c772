"""What is told of schedules: missed, late, failing; once, in the transaction of the fact."""

from typing import Any

from tasktick.model.change import expire, patch
from tasktick.model.change import pause as pause_task
from tasktick.model.ids import wire
from tasktick.model.schedule import CatchUp, FireTemplate
from tasktick.model.state import State
from tasktick.store import lateness
from tests.store import told
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import World

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
