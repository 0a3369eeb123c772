"""Ends requests past their deadline, for all of them at once: a timer for each would cost more than the request."""

import asyncio

from tasktick.clock import Clock
from tasktick.dispatch.attempt import Sender

SWEEP_MS = 50
IDLE_MS = 60_000


class Deadlines:
    """The loop that looks at the clock for everything in flight; it sleeps while nothing is."""

    name = "deadlines"

    def __init__(self, clock: Clock, sender: Sender) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._sender = sender
        self._swept_ms = 0.0

    async def step(self) -> float:
        """Look once. A send wakes this loop; it is not to look with each of them."""
        since_ms = self._clock.monotonic_ms() - self._swept_ms
        if since_ms < SWEEP_MS:
            await self._clock.sleep_ms(SWEEP_MS - since_ms)
        self._swept_ms = self._clock.monotonic_ms()
        self._sender.sweep(self._swept_ms)
        return SWEEP_MS if self._sender.in_flight else IDLE_MS
