"""What is read ahead of tasks that will be claimed soon, for the claim that comes. Pure.

It is a hint: a claim compares the row's version, and what has changed since is read with the claim as if nothing had
been known. What is not claimed for long is let go, and there is never more of it than so much.
"""

from collections.abc import Iterable
from itertools import islice

from tasktick.model.task import Foreseen

ROWS_MAX = 32_768
# As many characters of a payload: longer ones are read when they are sent.
CHARS_MAX = 1_024
# What was due so long ago and was not claimed waits for something else than its turn.
KEPT_MS = 10_000


class Provisions:
    """Rows by the ids of their tasks, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, Foreseen] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        """How many more may be kept."""
        return ROWS_MAX - len(self._rows)

    def add(self, rows: Iterable[Foreseen]) -> None:
        """Keep these, as far as there is room."""
        for row in islice(rows, self.room):
            self._rows[row.id] = row

    def take(self, ids: Iterable[str]) -> dict[str, Foreseen]:
        """What is known of these; it is kept here no more."""
        rows = self._rows
        if not rows:
            return {}
        return {one: rows.pop(one) for one in ids if one in rows}

    def drop_before(self, wake_at: int) -> None:
        """Let go of what came first, as far as it was due before that."""
        rows = self._rows
        while rows:
            first = next(iter(rows))
            if rows[first].wake_at >= wake_at:
                return
            del rows[first]
