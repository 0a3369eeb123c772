"""Whether the loops that find due work still come round. Pure but for the clock."""

from collections.abc import Callable, Mapping

# A loop that has not come round for so long is stuck: each rests for a second at most.
STUCK_MS = 30_000
WATCHED = ("loader", "materialise", "sweeper")


class Rounds:
    """The last round of each loop, and whether anything begins while something waits."""

    def __init__(
        self,
        rounds: Mapping[str, float],
        monotonic_ms: Callable[[], float],
        oldest_due_at: Callable[[], int | None],
        begun: Callable[[], int],
        busy: Callable[[], int],
    ) -> None:
        self._rounds = rounds
        self._monotonic_ms = monotonic_ms
        self._oldest_due_at = oldest_due_at
        self._begun = begun
        self._busy = busy
        self._begun_before = -1

    def faults(self, now: int, lateness_max_ms: int) -> list[str]:
        """What does not move."""
        now_ms = self._monotonic_ms()
        found = [f"stuck: {name}" for name in WATCHED if now_ms - self._rounds.get(name, now_ms) > STUCK_MS]
        oldest, begun = self._oldest_due_at(), self._begun()
        waits = oldest is not None and oldest < now - lateness_max_ms
        if waits and begun == self._begun_before and not self._busy():
            found.append("nothing_begins")
        self._begun_before = begun
        return found
