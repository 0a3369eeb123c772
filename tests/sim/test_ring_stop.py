"""A node of a ring that is told to stop ends, whatever has become of its store."""

import asyncio
from pathlib import Path
from random import Random

from tests.sim.loop import SimLoop
from tests.sim.ring_run import bury
from tests.sim.ring_town import RingTown
from tests.sim.server import reached_by

# Its hand-over, the end of its term and what it has not written are each given up after ten seconds.
ENDS_WITHIN_S = 40


def test_one_whose_store_is_away_ends_all_the_same(tmp_path: Path) -> None:
    """Found by seeds in which a stop overran: who waits for ever for a store must not keep others from stopping."""
    loop = SimLoop(Random(1))
    asyncio.set_event_loop(loop)
    town = RingTown(1, tmp_path, loop, gossips=False)

    async def scenario() -> None:
        node = town.begin("a")
        while not node.is_up:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.05)
        town.server.away = True
        stopping = node.run(node.services.stop())
        await asyncio.wait({stopping}, timeout=ENDS_WITHIN_S)
        assert stopping.done()
        stopping.result()

    try:
        with reached_by(town.wires):
            try:
                loop.run_until_complete(scenario())
            finally:
                bury(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        town.server.close()
