"""The claim is the authority: the state, the due time, the lease's own term, all at once."""

from typing import Any

import msgspec
import pytest

from tasktick.model import change
from tasktick.model.state import State
from tasktick.store import due, tasks
from tests.store.world import EARLY_MS, HOUR_MS, MARGIN_MS, NODE, START_DELAY_MS, TIMEOUT_MS, World


async def test_a_task_that_is_named_twice_is_claimed_once(world: World) -> None:
    task_id = await world.create()
    assert [one.id for one in await world.claim(task_id, task_id)] == [task_id]
    assert await world.database.read(lambda tx: due.by_ids(tx, [task_id, task_id])) == []
    other = await world.create()
    assert len(await world.database.read(lambda tx: due.by_ids(tx, [other, other]))) == 1


async def test_a_claim_marks_the_attempt(world: World) -> None:
    (claimed,) = await world.claim(await world.create(key="k", detail={"sla_ms": 77, "schedule_id": "s"}))
    row = await world.state(claimed.id)
    assert (row.state, row.attempt, row.node, row.incarnation) == (State.RUNNING, 1, NODE, world.incarnation)
    assert row.lease_until == world.now + START_DELAY_MS + TIMEOUT_MS + MARGIN_MS == claimed.lease_until
    assert (row.epoch, row.picked_at, row.fence) == (world.epochs[17], world.now, world.now)
    same = set(claimed.__struct_fields__) & set(row.__struct_fields__)
    assert {name: getattr(claimed, name) for name in same} == {name: getattr(row, name) for name in same}
    assert (claimed.sla_ms, claimed.schedule_id, claimed.claimed_from) == (77, "s", State.SCHEDULED)


async def test_a_batch_is_claimed_at_once(world: World) -> None:
    ids = [await world.create() for _ in range(5)]
    await world.act("pause", ids[1])
    assert {one.id for one in await world.claim(*ids)} == {ids[n] for n in (0, 2, 3, 4)}
    assert await world.claim(*ids) == []
    assert await world.claim() == []


@pytest.mark.parametrize("early_ms", [0, EARLY_MS])
async def test_nothing_is_claimed_before_its_time(world: World, early_ms: int) -> None:
    wake_at = world.now + HOUR_MS
    task_id = await world.create(run_at=wake_at)
    before = await world.state(task_id)
    world.now = wake_at - early_ms - 1
    assert await world.claim(task_id, early_ms=early_ms) == []
    assert await world.state(task_id) == before
    world.now += 1
    assert len(await world.claim(task_id, early_ms=early_ms)) == 1


async def test_a_task_that_was_moved_is_not_claimed_at_its_old_time(world: World) -> None:
    task_id = await world.create()
    moved = change.patch(await world.state(task_id), world.now, due_at=world.now + HOUR_MS, wake_at=world.now + HOUR_MS)
    await world.write(moved)
    assert await world.claim(task_id) == []


@pytest.mark.parametrize("action", ["pause", "cancel"])
async def test_what_was_stopped_a_millisecond_before_is_not_claimed(world: World, action: str) -> None:
    task_id = await world.create()
    row = await world.act(action, task_id)
    world.now += 1
    assert await world.claim(task_id) == []
    assert await world.state(task_id) == row


@pytest.mark.parametrize(
    "term",
    [
        {"epochs": {17: 99}},
        {"epochs": {17: 0}},
        {"epochs": {18: 1}},
        {"epochs": {}},
        {"incarnation": "somebody-else"},
    ],
    ids=["later epoch", "earlier epoch", "another partition", "none", "incarnation"],
)
async def test_a_claim_needs_the_live_term(world: World, term: dict[str, Any]) -> None:
    task_id = await world.create()
    before = await world.state(task_id)
    assert await world.claim(task_id, **term) == []
    assert await world.state(task_id) == before
    assert len(await world.claim(task_id)) == 1


async def test_the_term_of_a_predecessor_claims_nothing(world: World) -> None:
    task_id = await world.create()
    old = world.request()
    await world.start("incarnation-2")
    assert await world.claim(task_id, incarnation=old.incarnation, epochs=old.epochs) == []
    assert await world.claim(task_id, incarnation=old.incarnation) == [], "the epoch alone is not the term"
    assert await world.claim(task_id, epochs=old.epochs) == [], "nor is the incarnation"
    assert len(await world.claim(task_id)) == 1


@pytest.mark.parametrize("late_ms", [0, 1])
async def test_what_is_too_late_to_start_is_not_claimed(world: World, late_ms: int) -> None:
    task_id = await world.create(expires_at=world.now + 1_000)
    world.now += 1_000 + late_ms
    assert await world.claim(task_id) == []
    world.now -= late_ms + 1
    assert len(await world.claim(task_id)) == 1


async def test_a_fence_grows_whatever_the_clock_does(world: World) -> None:
    task_id = await world.create()
    fences = [0]
    for step_ms in (0, 0, 50, -HOUR_MS, -HOUR_MS, 0, 3 * HOUR_MS):
        world.now += step_ms
        wanted = max(fences[-1] + 1, world.now)
        (claimed,) = await world.claim(task_id, early_ms=10 * HOUR_MS)
        fences.append(claimed.fence)
        assert claimed.fence == wanted
        await world.give_back(claimed, sent=False)
    assert fences == sorted(set(fences))


async def test_a_rescue_raises_the_fence_too(world: World) -> None:
    claimed = await world.claimed()
    world.now = claimed.lease_until
    await world.rescue(claimed)
    raised = (await world.state(claimed.id)).fence
    world.now -= HOUR_MS
    (again,) = await world.claim(claimed.id, early_ms=2 * HOUR_MS)
    assert (raised, again.fence) == (claimed.lease_until, raised + 1)


async def test_what_is_sent_is_what_the_claim_returned(world: World) -> None:
    """A change between claim and send reaches the next attempt, not this one."""
    task_id = await world.create()
    (claimed,) = await world.claim(task_id)
    first = await world.payload(claimed)
    await world.finish(claimed, 500)
    before = await world.state(task_id)

    async def replace(tx: Any) -> None:
        await tasks.add_payload(tx, task_id, 2, msgspec.structs.replace(first, traceparent="new"))
        await tasks.change(tx, [change.patch(before, world.now, payload_version=2)])

    await world.database.write(replace)
    assert await world.payload(claimed) == first
    world.now += HOUR_MS
    (again,) = await world.claim(task_id)
    assert (again.payload_version, (await world.payload(again)).traceparent) == (2, "new")


async def test_a_claim_that_is_asked_for_again_says_the_same_and_counts_once(world: World) -> None:
    task_id = await world.create()
    (claimed,) = await world.claim(task_id, claim_id=41)
    row = await world.state(task_id)
    world.now += 5
    assert await world.claim(task_id, claim_id=41) == [claimed]
    assert await world.state(task_id) == row
    assert await world.claim(task_id, claim_id=42) == []


async def test_a_request_to_cancel_is_about_one_attempt(world: World) -> None:
    claimed = await world.claimed()
    await world.act("cancel", claimed.id)
    await world.give_back(claimed, sent=False)
    row = await world.act("retry", claimed.id)
    assert not row.cancel_requested
    (claimed,) = await world.claim(claimed.id)
    assert await world.finish(claimed, 500) is State.RETRYING


@pytest.mark.parametrize("bits", [1, 2**62 - 1])
async def test_a_claim_id_keeps_all_its_bits(world: World, bits: int) -> None:
    (claimed,) = await world.claim(await world.create(), claim_id=bits)
    assert claimed.claim_id == bits
    assert await world.finish(claimed) is State.SUCCEEDED
