"""Long work in short slices, so that the event loop has its turns."""

from tasktick.clock import Clock

SLICE_MS = 5.0
# How long others have the loop for themselves in between: the work takes most of it at most.
REST_MS = 1
STEPS_PER_LOOK = 128
# A clock that stands still, as in a test, ends no slice: so many steps do.
STEPS_PER_SLICE_MAX = 4_096


class Pace:
    """Counts steps, and rests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._steps = 0
        self.steps = 0
        """How many there have been in all."""

    async def step(self, steps: int = 1) -> None:
        """So much has been done: rest, if it is time."""
        before = self._steps
        self._steps += steps
        self.steps += steps
        if before // STEPS_PER_LOOK == self._steps // STEPS_PER_LOOK:
            return
        if self._steps >= STEPS_PER_SLICE_MAX or self._clock.monotonic_ms() - self._began_ms >= SLICE_MS:
            await self.rest()

    async def look(self) -> None:
        """Rest, if it is time, whatever has been counted: what comes next is no small step."""
        if self._clock.monotonic_ms() - self._began_ms >= SLICE_MS:
            await self.rest()

    async def rest(self) -> None:
        """Let others have the loop."""
        self._steps = 0
        await self._clock.sleep_ms(REST_MS)
        self._began_ms = self._clock.monotonic_ms()
