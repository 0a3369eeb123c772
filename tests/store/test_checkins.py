"""Checks on every store: turns are told once, whoever looks at the same moment, and pings are never lost to a look."""

import asyncio
from typing import Any

from tasktick.model.checkin import Check
from tasktick.scheduler.check_watch import HEAR, Arrival, look
from tasktick.scheduler.checkins import AWAY_AFTER_MS, Said, begun
from tasktick.store import checkins
from tests.store import told
from tests.store.world import TENANT, World

PERIOD_MS, GRACE_MS = 60_000, 10_000


async def made(world: World, name: str, partition: int = 7) -> Check:
    now = world.now
    check = Check(
        id=world.ids.new(now, partition),
        tenant=TENANT,
        version=1,
        created_at=now,
        updated_at=now,
        grace_ms=GRACE_MS,
        period_ms=PERIOD_MS,
        ping_hash=name,
        ping_sealed="",
        status="new",
        status_at=now,
        anchor_at=now,
        key=name,
        tags={"a": "b"},
    )
    check = begun(check, now)
    await world.database.write(lambda tx: checkins.create(tx, check))
    return check


async def seen(world: World) -> None:
    now = world.now
    await world.database.write(lambda tx: checkins.note_seen(tx, now, AWAY_AFTER_MS))


async def kinds(world: World) -> list[str | None]:
    await world.database.number_events()
    return [item.type for _, item in await world.database.read(told.items) if item.type is not None]


async def stored(world: World, check: Check) -> Check:
    return await world.database.read(lambda tx: checkins.find(tx, TENANT, f"chi_{check.id}"))


async def heard(world: World, *arrivals: Arrival) -> list[Any]:
    return await world.database.write_batch(HEAR, list(arrivals))


async def test_a_check_is_read_as_it_was_written(world: World) -> None:
    check = await made(world, "one")
    assert await stored(world, check) == check


async def test_many_who_look_at_once_tell_it_once(world: World) -> None:
    checks = [await made(world, f"c{place}") for place in range(5)]
    await seen(world)
    world.now += PERIOD_MS
    now = world.now
    await world.database.write(lambda tx: checkins.note_seen(tx, now, 1 << 50))
    due = await world.database.read(lambda tx: checkins.due(tx, now, 100))
    assert sorted(due) == [one.id for one in checks]
    await asyncio.gather(*[world.database.write(lambda tx: look(tx, due, now)) for _ in range(8)])
    assert await kinds(world) == ["check.late"] * 5
    assert await world.database.read(lambda tx: checkins.due(tx, now, 100)) == []
    later = await stored(world, checks[0])
    assert (later.status, later.next_at) == ("late", now + GRACE_MS)


async def test_a_ping_and_a_look_at_once_come_one_after_the_other(world: World) -> None:
    check = await made(world, "one")
    world.now += PERIOD_MS + GRACE_MS
    now = world.now
    await world.database.write(lambda tx: checkins.note_seen(tx, now, 1 << 50))
    said = [Arrival("one", Said("success", now, f"r{place}"), "GET") for place in range(10)]
    await asyncio.gather(
        *[heard(world, one) for one in said], *[world.database.write(lambda tx: look(tx, [check.id], now))] * 1
    )
    found = await stored(world, check)
    assert (found.status, found.pings) == ("up", 10)
    assert await kinds(world) == ["check.down", "check.up"]
    pings = await world.database.read(lambda tx: checkins.pings(tx, check.id, None, checkins.BEYOND_ALL, 100))
    assert [one.number for one in pings] == list(range(10, 0, -1))
    assert {one.run for one in pings} == {f"r{place}" for place in range(10)}


async def test_pings_of_a_batch_come_in_their_order_and_to_their_own(world: World) -> None:
    one, two = await made(world, "one"), await made(world, "two")
    await seen(world)
    at = world.now + 1
    results = await heard(
        world,
        Arrival("one", Said("start", at), "GET"),
        Arrival("two", Said("fail", at, exit_code=3), "POST", "127.0.0.1", "curl", "log\n", 4),
        Arrival("nobody", Said("success", at), "GET"),
        Arrival("one", Said("success", at + 5), "GET"),
    )
    assert [None if result is None else dict(result) for result in results] == [
        {},
        {"check.failed": 1},
        None,
        {"check.up": 1},
    ]
    assert ((await stored(world, one)).last_duration_ms, (await stored(world, two)).status) == (5, "down")
    (ping,) = await world.database.read(lambda tx: checkins.pings(tx, two.id, "fail", checkins.BEYOND_ALL, 10))
    assert (ping.exit_code, ping.source, ping.agent, ping.body) == (3, "127.0.0.1", "curl", "log\n")


async def test_the_first_check_of_all_has_missed_nothing(world: World) -> None:
    await made(world, "one")
    watched = await world.database.read(checkins.watched)
    assert (watched.seen_at, watched.away) == (world.now, None)
    world.now += AWAY_AFTER_MS + 1
    await made(world, "two")
    await seen(world)
    away = (await world.database.read(checkins.watched)).away
    assert away is not None
    assert away.until_at - away.from_at == AWAY_AFTER_MS + 1


async def test_each_node_looks_into_its_own_partitions(world: World) -> None:
    one, two = await made(world, "one", 7), await made(world, "two", 8)
    now = world.now + PERIOD_MS
    due = await world.database.read(lambda tx: checkins.due(tx, now, 10, ["07"]))
    assert due == [one.id]
    assert await world.database.read(lambda tx: checkins.due(tx, now, 10, [])) == []
    assert len(await world.database.read(lambda tx: checkins.due(tx, now, 10, ["07", two.id[-2:]]))) == 2
