"""Tenants in the store, and their quota: as many unfinished tasks as it says, whichever way they come."""

import asyncio
from typing import Any

import pytest

from tasktick.errors import Refused
from tasktick.model import change
from tasktick.store import secrets, tenants
from tasktick.store.names import StoredAnswer
from tasktick.store.rows import KeyRow, TenantRow
from tasktick.store.tasks import Create
from tests.store.world import TENANT, World


async def limit(world: World, max_pending: int | None, tenant: str = TENANT) -> None:
    await world.database.write(
        lambda tx: tenants.put(tx, tenant, max_pending=max_pending, create_rate=None, now=world.now)
    )


def codes(results: list[Any]) -> list[str | None]:
    """What became of each: None was made, else the code of the refusal."""
    return [one.code if isinstance(one, Refused) else None for one in results]


async def test_a_batch_is_let_in_as_far_as_there_is_room(world: World) -> None:
    await limit(world, 3)
    made = [Create(world.task()) for _ in range(5)]
    others = [Create(world.task(tenant="free")) for _ in range(2)]
    results = await world.create_all([made[0], others[0], *made[1:], others[1]])

    assert codes(results) == [None, None, None, None, "quota_exceeded", "quota_exceeded", None]
    refused = results[4]
    assert refused.retry_after_ms
    assert "(3) is used up" in refused.detail


async def test_those_who_come_at_once_share_the_room(world: World) -> None:
    await limit(world, 10)
    results = await asyncio.gather(*(world.create_all([Create(world.task())]) for _ in range(30)))
    assert [one for [one] in results].count(None) == 10


async def test_room_returns_when_a_task_ends(world: World) -> None:
    await limit(world, 1)
    first = await world.create()
    assert codes(await world.create_all([Create(world.task())])) == ["quota_exceeded"]
    [claimed] = await world.claim(first)
    assert codes(await world.create_all([Create(world.task())])) == ["quota_exceeded"], "a running one is not finished"
    await world.finish(claimed)
    assert codes(await world.create_all([Create(world.task())])) == [None]


async def test_one_that_was_refused_takes_no_key(world: World) -> None:
    await limit(world, 0)
    refused = world.task(key="k")
    assert codes(await world.create_all([world.idempotent(refused, "i-1")])) == ["quota_exceeded"]
    await limit(world, 1)
    assert await world.create_all([world.idempotent(refused, "i-1")]) == [None]
    [again] = await world.create_all([world.idempotent(world.task(key="k"), "i-1")])
    assert isinstance(again, StoredAnswer), "a repetition needs no room"
    assert codes(await world.create_all([Create(world.task(key="k"))])) == ["key_taken"]


async def test_what_is_taken_up_again_needs_room(world: World) -> None:
    ended = [await world.create(key=f"k-{n}") for n in range(3)]
    for one in ended:
        await world.act("cancel", one)
    await limit(world, 2)
    await world.create()
    reopened = [change.reopen(await world.state(one), world.now) for one in ended]

    assert len(await world.write(*reopened)) == 1, "of several, those that find no room are left out"
    with pytest.raises(Refused, match="used up") as refusal:
        await world.act("retry", ended[2])
    assert refusal.value.code == "quota_exceeded"
    assert await world.create_all([Create(world.task(key="k-2", tenant="free"))]) == [None]


async def test_what_is_not_finished_goes_on_above_a_quota_that_was_lowered(world: World) -> None:
    made = [await world.create() for _ in range(3)]
    await limit(world, 1)
    await world.act("pause", made[0])
    await world.act("resume", made[0])
    await world.act("run", made[1])
    assert len(await world.claim(*made)) == 3
    assert codes(await world.create_all([Create(world.task())])) == ["quota_exceeded"]
    await limit(world, None)
    await world.create()


async def test_tenants_are_known_by_limits_keys_and_tasks(world: World) -> None:
    store = world.database

    async def names(beyond: str | None = None, most: int = 10) -> list[str]:
        return [row.name for row in await store.read(lambda tx: tenants.page(tx, beyond, most))]

    assert await names() == [TENANT]
    await limit(world, 5, "limited")
    await store.write(lambda tx: secrets.add_key(tx, KeyRow("key", "prefix", "0", "keyed", "viewer", None, 1)))
    busy = await world.create(tenant="busy")
    await world.claim(busy)
    await world.create(tenant="busy")
    assert await names() == ["busy", TENANT, "keyed", "limited"]
    assert await names("busy", 2) == [TENANT, "keyed"]
    assert await store.read(lambda tx: tenants.find(tx, "busy")) == TenantRow("busy", pending=2, running=1)
    assert await store.read(lambda tx: tenants.find(tx, "limited")) == TenantRow(
        "limited", 5, None, world.now, world.now
    )
    assert await store.read(lambda tx: tenants.find(tx, "nobody")) is None

    await store.write(lambda tx: secrets.revoke_key(tx, "key", 2))
    assert [await store.write(lambda tx: tenants.delete(tx, "limited")) for _ in range(2)] == [1, 0]
    assert await names() == ["busy", TENANT]


async def test_a_tenants_limits_are_replaced_whole(world: World) -> None:
    store = world.database
    await store.write(lambda tx: tenants.put(tx, "a", max_pending=1, create_rate="9/1s", now=5))
    assert await store.read(lambda tx: tenants.create_rate(tx, "a")) == "9/1s"
    await store.write(lambda tx: tenants.put(tx, "a", max_pending=2, create_rate=None, now=6))
    assert await store.read(lambda tx: tenants.create_rate(tx, "a")) is None
    assert await store.read(lambda tx: tenants.create_rate(tx, "b")) is None
    assert await store.read(lambda tx: tenants.find(tx, "a")) == TenantRow("a", 2, None, 5, 6)
