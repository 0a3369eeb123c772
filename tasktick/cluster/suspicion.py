"""How long a suspect has to refute: long while one member suspects it, shorter with each other that does.

One member alone may be the one with the bad network. The time falls by the logarithm of the confirmations, so
that the first few count most.
"""

import math


class Suspicion:
    """One suspicion of one member."""

    def __init__(self, accuser: str, now_ms: float, *, wanted: int, min_ms: float, max_ms: float) -> None:
        # Who suspects: each counts once, and the first is no confirmation of itself.
        self._accusers = {accuser}
        self._wanted = max(0, wanted)
        self._min_ms = min_ms
        self._max_ms = max(min_ms, max_ms)
        self.started_at = now_ms

    @property
    def confirmations(self) -> int:
        """Others that suspect it too."""
        return len(self._accusers) - 1

    def confirm(self, accuser: str) -> bool:
        """Whether this is news: another accuser, and not yet enough of them."""
        if self.confirmations >= self._wanted or accuser in self._accusers:
            return False
        self._accusers.add(accuser)
        return True

    def delay(self, duration_ms: float) -> None:
        """Time in which nobody could have answered does not count."""
        self.started_at += duration_ms

    @property
    def ends_at(self) -> float:
        """When the suspect is taken for dead, by what is known now."""
        if self._wanted == 0:
            return self.started_at + self._min_ms
        part = math.log(self.confirmations + 1) / math.log(self._wanted + 1)
        return self.started_at + max(self._min_ms, self._max_ms - part * (self._max_ms - self._min_ms))
