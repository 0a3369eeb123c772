"""What was read ahead of a claim is what the claim would have brought, or is not used."""

from typing import Any

import pytest
from msgspec.structs import replace

from tasktick.cluster.ownership import Ownership
from tasktick.model import change
from tasktick.model.task import Foreseen, Taken
from tasktick.store import claims, due, lateness
from tasktick.store.claims import PAYLOAD_CHARS_SURE
from tasktick.store.protocol import Lane, Transaction
from tasktick.store.tasks import Create
from tests.store.world import HOUR_MS, World

CHARS = 1_024


async def foresee(world: World, *ids: str, chars_max: int = CHARS) -> dict[str, Foreseen]:
    found = await world.database.read(lambda tx: claims.read_ahead(tx, list(ids), chars_max))
    return {one.id: one for one in found}


async def take(world: World, foreseen: dict[str, Foreseen], *ids: str, **fields: Any) -> list[Taken]:
    request = world.request(**fields)
    taken: list[Taken]
    (taken,) = await world.database.write_batch(claims.CLAIM, [claims.Asked(list(ids), request, foreseen)])
    said = {one.claimed.id: one for one in taken}
    assert said == await stored(world, *said, claim_id=request.claim_id), "as the store has it"
    return taken


async def stored(world: World, *ids: str, claim_id: int) -> dict[str, Taken]:
    """The same, as it is read for who asks what became of a claim."""
    given = {"ids": list(ids), "claim_id": claim_id, "chars_max": PAYLOAD_CHARS_SURE}
    return {
        one.claimed.id: one for one in await world.database.read(lambda tx: tx.rows("task_claimed", Taken, **given))
    }


async def test_a_claim_of_what_was_foreseen_says_what_the_store_says(world: World) -> None:
    ids = [await world.create(tenant=f"t{number}", priority=number) for number in range(3)]
    foreseen = await foresee(world, *ids)
    assert set(foreseen) == set(ids)
    assert {one.claimed.id for one in await take(world, foreseen, *ids)} == set(ids)
    assert await take(world, foreseen, *ids) == [], "not twice"


async def test_a_claim_that_is_tried_again_says_the_same(world: World) -> None:
    (one,) = (await foresee(world, await world.create())).values()
    assert one.claimed(5, 6, 7, 8) == one.claimed(5, 6, 7, 8)


async def test_what_takes_more_memory_than_its_characters_say_is_left_to_its_claim(world: World) -> None:
    headers = {f"X-{n}": "v" for n in range(20)}
    targets: list[dict[str, Any]] = [{"headers": headers}, {"body_kind": "text", "body": "é" * 300}, {}]
    tasks = [world.task() for _ in targets]
    wide = [
        replace(one.payload, target=replace(one.payload.target, **fields))
        for one, fields in zip(tasks, targets, strict=True)
    ]
    await world.create_all([Create(replace(one, payload=payload)) for one, payload in zip(tasks, wide, strict=True)])
    assert set(await foresee(world, *(one.state.id for one in tasks))) == {tasks[2].state.id}


async def test_some_are_foreseen_and_some_are_not(world: World) -> None:
    ids = [await world.create() for _ in range(4)]
    foreseen = await foresee(world, *ids[:2])
    assert {one.claimed.id for one in await take(world, foreseen, *ids)} == set(ids)


async def test_a_retry_is_foreseen_with_what_it_has_behind_it(world: World) -> None:
    first = await world.claimed()
    await world.finish(first, 500)
    world.now = (await world.state(first.id)).wake_at
    (again,) = await take(world, await foresee(world, first.id), first.id)
    assert (again.claimed.attempt, again.claimed.fence > first.fence) == (2, True)


async def test_a_fence_grows_whatever_the_clock_does(world: World) -> None:
    first = await world.claimed()
    await world.finish(first, 500)
    foreseen = await foresee(world, first.id)
    world.now -= HOUR_MS
    was_due = {first.id: foreseen[first.id].wake_at}
    taken = await take(world, foreseen, first.id, was_due=was_due)
    assert all(one.claimed.fence > first.fence for one in taken)


@pytest.mark.parametrize("field", [{"priority": 1}, {"timeout_ms": 77}, {"payload_version": 2}])
async def test_what_was_changed_since_is_read_with_the_claim(world: World, field: dict[str, int]) -> None:
    task_id = await world.create()
    foreseen = await foresee(world, task_id)
    changed = change.patch(await world.state(task_id), world.now, **field)
    assert await world.write(changed) == [task_id]
    (one,) = await take(world, foreseen, task_id)
    assert {name: getattr(one.claimed, name) for name in field} == field


async def test_what_was_put_off_since_is_claimed_at_its_new_time(world: World) -> None:
    task_id = await world.create()
    foreseen = await foresee(world, task_id)
    later = {task_id: world.now + 1_000}
    await world.database.write(lambda tx: due.park(tx, later))
    assert await take(world, foreseen, task_id) == []
    world.now += 1_000
    (one,) = await take(world, foreseen, task_id)
    assert one.claimed.wake_at == world.now


async def test_when_a_fire_is_late_is_foreseen_unless_that_has_changed(world: World) -> None:
    ids = [await world.create(detail={"schedule_id": "s", "sla_ms": 5}, late_at=world.now + 5) for _ in range(2)]
    foreseen = await foresee(world, *ids)
    await world.database.write(lambda tx: lateness.tell(tx, ids[:1], world.now + 6, {}))
    taken = {one.claimed.id: one.claimed.late_at for one in await take(world, foreseen, *ids)}
    assert taken == {ids[0]: None, ids[1]: world.now + 5}


async def test_what_was_stopped_since_is_not_claimed(world: World) -> None:
    task_id = await world.create()
    foreseen = await foresee(world, task_id)
    await world.act("pause", task_id)
    assert await take(world, foreseen, task_id) == []
    assert await foresee(world, task_id) == {}


async def test_a_task_with_a_large_payload_is_left_to_its_claim(world: World) -> None:
    assert await foresee(world, await world.create(), chars_max=10) == {}


async def test_a_hand_over_during_a_claim_changes_nothing_of_it(world: World) -> None:
    """What was claimed under a term was claimed under it, though the partition is given up before that is known."""
    task_id = await world.create(partition=17)
    foreseen = await foresee(world, task_id)
    own = Ownership(world.incarnation, lambda: 0.0)
    own.reconcile(world.epochs, world.now)
    own.trust_for_ever()
    request = world.request(epochs=own.epochs)

    async def claim(tx: Transaction) -> list[Taken]:
        own.give_up([17])
        return await claims.take(tx, [task_id], request, foreseen)

    (one,) = await world.database.write(claim, Lane.FIRE)
    assert (one.claimed.epoch, own.owns(task_id)) == (world.epochs[17], False)


async def test_a_claim_that_is_asked_for_again_says_the_same(world: World) -> None:
    ids = [await world.create() for _ in range(2)]
    foreseen = await foresee(world, *ids)
    request = world.request()

    async def claim() -> dict[str, Taken]:
        (taken,) = await world.database.write_batch(claims.CLAIM, [claims.Asked(ids, request, foreseen)])
        return {one.claimed.id: one for one in taken}

    assert await claim() == await claim()
