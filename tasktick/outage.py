"""Says that something does not answer: when it begins, seldomer and seldomer while it lasts, and when it is over."""

from collections.abc import Callable

from tasktick.clock import Clock

FIRST_MS = 30_000.0
MOST_MS = 300_000.0
# What comes and goes is not said each time.
BETWEEN_MS = 10_000.0


class Outage:
    """One thing that may not answer, and who writes to the log that it does not, and that it does again."""

    def __init__(self, clock: Clock, begins: Callable[..., object], ends: Callable[..., object]) -> None:
        self._clock = clock
        self._begins, self._ends = begins, ends
        self._failures = 0
        self._began_ms = 0.0
        self._said: object = None
        self._is_said = False
        self._next_ms = float("-inf")
        self._interval_ms = FIRST_MS

    def failed(self, error: str, *, state: object = None, **fields: object) -> None:
        """It has failed once more; another `state` than the last that was said is said at once."""
        now = self._clock.monotonic_ms()
        if not self._failures:
            self._began_ms = now
        self._failures += 1
        if now < self._next_ms and not (self._is_said and state != self._said):
            return
        self._begins(error=error, failures=self._failures, for_ms=round(now - self._began_ms), **fields)
        self._said, self._is_said = state, True
        self._next_ms = now + self._interval_ms
        self._interval_ms = min(2 * self._interval_ms, MOST_MS)

    def over(self) -> None:
        """It answers."""
        if not self._failures:
            return
        now = self._clock.monotonic_ms()
        if self._is_said:
            self._ends(failures=self._failures, after_ms=round(now - self._began_ms))
            self._next_ms = now + BETWEEN_MS
        self._failures, self._is_said, self._interval_ms = 0, False, FIRST_MS
