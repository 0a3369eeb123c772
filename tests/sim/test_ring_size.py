"""How much moves when a ring grows, and rings of many nodes."""

import asyncio
from collections import Counter

import pytest

from tasktick.model.partition import ALL_PARTITIONS
from tests.sim.town import TTL_MS, Town, play

MANY = 64
# Until each of them has heard of each other; the last ones take some seconds.
LEARNED_S = TTL_MS / 1_000
SOON_MS = 30
HINTED_MS = 20
SHARE = len(ALL_PARTITIONS) / MANY


async def _epochs(town: Town) -> dict[int, tuple[int, str | None]]:
    return {lease.partition: (lease.epoch, lease.incarnation) for lease in (await town.view()).leases}


@pytest.mark.parametrize("gossips", [True, False])
def test_a_third_node_takes_its_third_and_nothing_else_moves(gossips: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.add("a", "b")
        await town.settled()
        before = await _epochs(town)
        [third] = await town.add("c")
        await town.settled()
        after = await _epochs(town)
        moved = {one for one in ALL_PARTITIONS if before[one] != after[one]}
        assert moved == {one for one in ALL_PARTITIONS if after[one][1] == third.node.incarnation}
        assert all(after[one][0] == before[one][0] + 1 for one in moved), "each has moved once"
        assert 0.25 < len(moved) / len(ALL_PARTITIONS) < 0.42

    play(scenario, gossips=gossips)


@pytest.mark.slow
def test_sixty_four_nodes_share_hand_over_and_take_over() -> None:
    async def scenario(town: Town) -> None:
        names = [f"node-{number:02}" for number in range(MANY)]
        await town.add(*names)
        await town.settled()
        shares = [len(one.owned) for one in town.residents.values()]
        assert sum(shares) == len(ALL_PARTITIONS)
        assert max(shares) <= 4 * SHARE
        before = await _epochs(town)
        leaving, dying = (town.residents[name].node.incarnation for name in names[:2])
        await town.create(2_000, 60, by=names[5])
        await town.stop(names[0])
        town.kill(names[1])
        await asyncio.sleep(TTL_MS / 1_000)
        await town.settled()
        after = await _epochs(town)
        moved = {one for one in ALL_PARTITIONS if before[one] != after[one]}
        assert moved == {one for one in ALL_PARTITIONS if before[one][1] in {leaving, dying}}
        assert max(Counter(owner for _, owner in after.values()).values()) <= 4 * SHARE
        await town.ended()
        assert town.doubles() == []

    play(scenario)


@pytest.mark.slow
def test_sixty_four_nodes_tell_each_other_what_is_due() -> None:
    """What is due before its owner would read of it in the store leaves on time, whichever node took it."""

    async def scenario(town: Town) -> None:
        names = [f"node-{number:02}" for number in range(MANY)]
        await town.add(*names)
        await town.settled()
        await asyncio.sleep(LEARNED_S)
        for by in names[::4]:
            await town.create(SOON_MS, 40, by=by)
            await asyncio.sleep(0.01)
        await town.ended()
        late_ms = town.late_ms()
        assert len(late_ms) == 16 * 40
        assert max(late_ms.values()) <= HINTED_MS, "it waited for the next reading"
        # The check itself: what nobody is told of is late.
        untold = await town.create(SOON_MS, 40)
        await town.ended()
        assert max(town.late_ms()[one] for one in untold) > 10 * HINTED_MS

    play(scenario)
