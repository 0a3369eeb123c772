"""Answers that cost much to make: made one at a time, kept for a moment, and given to all who ask meanwhile.

What is long and is no answer of its own, such as the search for times of a rule that matches hardly ever, is done
aside: in a thread, a few at a time, so that the event loop has its turns.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from tasktick.clock import Clock
from tasktick.errors import Refused

KEPT_MS = 5_000
KEPT_MAX = 64
WAITING_MAX = 32
ASIDE_MAX = 2

Found = TypeVar("Found")


class Kept:
    """What was answered of late, by what was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[Hashable, tuple[float, bytes]] = OrderedDict()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._aside = asyncio.Semaphore(ASIDE_MAX)
        self._waiting_aside = 0

    async def aside(self, work: Callable[[], Found]) -> Found:
        """What this long work finds, done beside the loop."""
        if self._waiting_aside >= WAITING_MAX:
            raise Refused("overloaded", "Too many ask for this at once. Try again in a moment.")
        self._waiting_aside += 1
        try:
            async with self._aside:
                return await asyncio.to_thread(work)
        finally:
            self._waiting_aside -= 1

    async def get(self, asked: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer to this, made now if there is none of late."""
        found = self._find(asked)
        if found is not None:
            return found
        if self._waiting >= WAITING_MAX:
            raise Refused("overloaded", "Too many ask for this at once. Try again in a moment.")
        self._waiting += 1
        try:
            async with self._turn:
                found = self._find(asked)  # whoever had the turn before may have made it
                return await self._make(asked, make) if found is None else found
        finally:
            self._waiting -= 1

    def _find(self, asked: Hashable) -> bytes | None:
        at, answer = self._answers.get(asked, (float("-inf"), b""))
        return answer if self._clock.monotonic_ms() - at < KEPT_MS else None

    async def _make(self, asked: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        answer = await make()
        self._answers[asked] = self._clock.monotonic_ms(), answer
        self._answers.move_to_end(asked)
        while len(self._answers) > KEPT_MAX:
            self._answers.popitem(last=False)
        return answer
