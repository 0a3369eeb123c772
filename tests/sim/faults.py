"""A store's connection whose disk fills up, or whose commits lie; and what was committed through it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from tasktick.errors import StoreBroken, StoreFull
from tasktick.store.connect import RawConnection
from tests.sim.world import Died, InlineLink, Life

T = TypeVar("T")


class Disk:
    """What goes wrong with it, and what has been noted of transactions that were committed."""

    def __init__(self) -> None:
        self.full = False
        # The next commit says that its fate is unknown: it happened ("done"), or not ("undone").
        self.lie: str | None = None
        self.slow_s = 0.0
        self.refusals = 0
        self._open: list[Callable[[], None]] = []

    def when_committed(self, note: Callable[[], None]) -> None:
        """Called within an operation: note this, if the operation comes to be committed."""
        self._open.append(note)

    def begin(self) -> None:
        """What an operation that is run again has noted counts once."""
        self._open.clear()

    def committed(self) -> None:
        """Everything noted since `begin` is true."""
        for note in self._open:
            note()
        self._open.clear()


class FaultyLink(InlineLink):
    """The writer's connection, on such a disk."""

    def __init__(self, raw: RawConnection, life: Life, random: Random, disk: Disk) -> None:
        super().__init__(raw, life, random)
        self._disk = disk
        # The fate of a commit is not known: the thread does nothing more.
        self._unknown = False

    async def call(self, work: Callable[[RawConnection], T]) -> T:
        disk = self._disk

        def faulty(raw: RawConnection) -> T:
            disk.begin()
            if self._unknown:
                raise StoreBroken("What was written before it has failed.")
            if disk.full:
                disk.refusals += 1
                raise StoreFull("The disk that holds the store is full.")
            lie, disk.lie = disk.lie, None
            self._unknown = lie is not None
            if lie == "undone":
                raise StoreBroken("A commit failed and its fate is unknown: it did not happen")
            result = work(raw)
            disk.committed()
            if lie == "done":
                raise StoreBroken("A commit failed and its fate is unknown: it happened")
            return result

        if disk.slow_s:
            await asyncio.sleep(disk.slow_s)
            if self._life.dead:
                raise Died
        return await super().call(faulty)
