"""When a process that has ended is started again, and when not any more. Pure."""

import msgspec

LEAST_MS = 100.0
MOST_MS = 30_000.0
# Who was up for so long has not failed at its start.
STABLE_MS = 60_000.0
STARTS_FAILED_MAX = 5
# Who dies so often in a row, each time before it is stable, does not come to itself.
DEATHS_NOTED = 3

EXIT_FAILED = 1
EXIT_WRONG_SETTINGS = 2


class End(msgspec.Struct, frozen=True):
    """How a process has ended: its exit code (below zero: the signal), and how long it had served, if at all."""

    code: int
    served_ms: float | None


class Around(msgspec.Struct, frozen=True):
    """How things stand when a process ends."""

    all_served: bool
    """Every process has served once: the whole has begun."""
    others_serve: bool


class GiveUp(msgspec.Struct, frozen=True):
    """End the whole, with this code."""

    code: int


class Again(msgspec.Struct, frozen=True):
    """Start it again after a rest."""

    rest_ms: float


class Restarts:
    """What one process's ends come to."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._starts_failed = 0

    @property
    def keeps_dying(self) -> bool:
        """Whether its ends have become many, one soon after the other."""
        return self._in_a_row >= DEATHS_NOTED

    def ended(self, end: End, around: Around) -> Again | GiveUp:
        """It has ended without being asked to."""
        if end.served_ms is None:
            self._starts_failed += 1
        else:
            self._starts_failed = 0
            if end.served_ms >= STABLE_MS:
                self._in_a_row = 0
        said_why = end.code > 0
        exit_code = EXIT_WRONG_SETTINGS if end.code == EXIT_WRONG_SETTINGS else EXIT_FAILED
        if end.served_ms is None and said_why and not around.all_served:
            return GiveUp(exit_code)
        # A store that is away for long keeps a process from starting; as long as another waits for it, so does this.
        is_hopeless = end.code == EXIT_WRONG_SETTINGS or not around.others_serve
        if self._starts_failed >= STARTS_FAILED_MAX and is_hopeless:
            return GiveUp(exit_code)
        rest_ms = min(LEAST_MS * 2**self._in_a_row, MOST_MS)
        self._in_a_row = min(self._in_a_row + 1, 16)
        return Again(rest_ms)
