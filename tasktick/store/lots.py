"""How many of those who create in a file share a commit. Pure."""

from tasktick.store.lanes import lot_of

# So long the event loop takes for a caller whom it answers and hears again, some 40 us, and a thread for his rows.
ANSWERED_SECONDS = 0.00005
# How much the last commit counts of what commits take.
NEWEST_COUNTS = 0.1


class Lots:
    """How many of those who create share a commit.

    Left to themselves, all who call and wait for their answer fall into step: they are written in one commit, while the
    event loop has nothing to do, and then answered and heard, while the store has nothing to do. As two lots, each is
    written while the other is answered. That is worth a second sync where a commit takes no longer than it takes to
    answer and hear all of them: on a slow disk they go together.
    """

    def __init__(self) -> None:
        # Callers of the last commit, and who has come since it was answered: the same ones, as far as anybody can tell.
        self._last = 0
        self._since = 0
        # What a commit took of late.
        self._seconds = 0.0

    def came(self) -> None:
        """Somebody waits."""
        self._since += 1

    def wrote(self, callers: int, seconds: float) -> None:
        """So many are answered, whom it took so long to write."""
        self._last, self._since = callers, 0
        self._seconds += (seconds - self._seconds) * NEWEST_COUNTS

    def share(self, waiting: int, under_way: int = 0) -> int:
        """How many go now, if so many wait and so many are being written: half of all, those who will soon come again
        among them."""
        callers = waiting + under_way + max(0, self._last - self._since)
        return lot_of(callers) if self._seconds <= callers * ANSWERED_SECONDS else max(callers, 1)
