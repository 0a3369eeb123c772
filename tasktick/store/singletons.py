"""What one node at a time does for all, such as retention: by a lease of its name.

Each step takes or prolongs the lease in its own transaction, and so holds its row until it commits: two can never be at
it at once, whatever a clock says. While its holder goes on, the others leave it alone; when it stops, one of them
takes over after `HELD_MS`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tasktick.clock import Clock
from tasktick.errors import StoreUnavailable
from tasktick.store.protocol import Batch, Lane, Operation, Transaction, Writer

T = TypeVar("T")

# Longer than any of them rests between two steps.
HELD_MS = 180_000
RETENTION = "retention"
DEADMAN = "deadman"


class HeldElsewhere(StoreUnavailable):
    """Another node does this."""


async def hold(tx: Transaction, name: str, incarnation: str, now: int, held_ms: int = HELD_MS) -> bool:
    """Whether this is ours to do, until the transaction ends."""
    return await tx.run("singleton_take", name=name, incarnation=incarnation, now=now, held_ms=held_ms) > 0


class AloneWriter:
    """Writes for whoever holds the lease of this name; `HeldElsewhere` for the others."""

    def __init__(self, writer: Writer, clock: Clock, name: str, incarnation: Callable[[], str]) -> None:
        self._writer = writer
        self._clock = clock
        self._name = name
        self._incarnation = incarnation

    async def write(self, operation: Operation[T], lane: Lane = Lane.UPKEEP) -> T:
        """Run an operation and commit it, if this is ours to do."""
        incarnation, now = self._incarnation(), self._clock.now_ms()

        async def alone(tx: Transaction) -> list[T]:
            return [await operation(tx)] if await hold(tx, self._name, incarnation, now) else []

        done = await self._writer.write(alone, lane)
        if not done:  # not raised in there, where it would be taken for a store that is to be waited for
            raise HeldElsewhere(f"Another node does {self._name}.")
        return done[0]

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]:
        """The same for a batch."""
        return await self.write(lambda tx: batch.operation(tx, items), batch.lane)
