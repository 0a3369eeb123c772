"""What runs is counted where it was claimed from, and seen by its row."""

from tasktick.model.state import State
from tasktick.store import tenants
from tests.store.world import TENANT, World


async def by_state(world: World) -> dict[int, int]:
    return {state: number for (_, state), number in (await world.counted()).items()}


async def test_a_claim_is_seen_by_its_row_and_its_end_is_counted_from_where_it_was_claimed(world: World) -> None:
    first, other = await world.claimed(), await world.claimed()
    await world.create()
    assert await by_state(world) == {State.SCHEDULED: 1, State.RUNNING: 2}
    tenant = await world.database.read(lambda tx: tenants.find(tx, TENANT))
    assert tenant is not None
    assert (tenant.pending, tenant.running) == (3, 2)
    assert await world.finish(first) is State.SUCCEEDED
    assert await world.finish(other, 500) is State.RETRYING
    assert await by_state(world) == {State.SCHEDULED: 1, State.RETRYING: 1, State.SUCCEEDED: 1}
    (again,) = await world.claim(other.id, was_due={other.id: (await world.state(other.id)).wake_at})
    assert await by_state(world) == {State.SCHEDULED: 1, State.RUNNING: 1, State.SUCCEEDED: 1}
    assert await world.finish(again) is State.SUCCEEDED
    assert await by_state(world) == {State.SCHEDULED: 1, State.SUCCEEDED: 2}


async def test_what_is_given_back_is_where_it_was(world: World) -> None:
    assert await world.give_back(await world.claimed(), sent=False) is State.SCHEDULED
    assert await by_state(world) == {State.SCHEDULED: 1}
