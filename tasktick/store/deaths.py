"""Writes which incarnations have ended, for whoever has waited for their processes: proof of death (RULES 3).

It waits for a store that is away, and is no node: it reads nothing and takes nothing.
"""

import secrets
from random import Random

from tasktick.clock import Clock
from tasktick.service import Spawner
from tasktick.settings import StoreConfig
from tasktick.store import leases
from tasktick.store.opening import place_of
from tasktick.store.postgres_links import Gate, PostgresAddress
from tasktick.store.postgres_writer import PostgresWriter
from tasktick.store.protocol import Lane


class Deaths:
    """One connection, made when the first is to be written."""

    def __init__(self, config: StoreConfig, *, spawn: Spawner, clock: Clock, random: Random) -> None:
        place = place_of(config)
        assert isinstance(place, PostgresAddress), "several processes share a store"
        self._clock = clock
        gate = Gate(place, clock, random)
        gate.is_known = True  # its processes have found it fit; none writes to another
        self._writer = PostgresWriter(gate, clock, f"deaths-{secrets.token_hex(4)}", {Lane.UPKEEP: 1})
        self._writer.start(spawn)

    async def record(self, incarnation: str) -> None:
        """This one has ended: its leases are free, and what it was sending may go again at once."""
        now = self._clock.now_ms()
        await self._writer.write(lambda tx: leases.end_node(tx, incarnation, now), Lane.UPKEEP)

    async def close(self) -> None:
        """Write what is still to be written, if the store is there."""
        await self._writer.close()
