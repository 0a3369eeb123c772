"""What is read ahead of tasks that will be claimed soon, for the claim that comes. Pure.

It is a hint: a claim compares the row's version, and what has changed since is read with the claim as if nothing had
been known. What is not claimed for long is let go, whatever the clock says of when it is due, and there is never more
than so many rows of so many characters. Nothing is kept beyond an incarnation: where another begins, the store may have
lost what was read of it.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from tasktick.model.task import Foreseen

ROWS_MAX = 32_768
# As many characters of a payload: tasks with longer ones are left to their claims. A row takes some 1.5 kB of memory,
# and 2.5 with a payload as long as that.
CHARS_MAX = 1_024
# What was read two seconds before it is due, and was not claimed ten after, waits for something else than its turn.
KEPT_MS = 12_000


class Provisions:
    """Rows by the ids of their tasks."""

    def __init__(self) -> None:
        self._rows: dict[str, Foreseen] = {}
        # When each page of them was read, the oldest first.
        self._pages: deque[tuple[float, list[str]]] = deque()
        self._incarnation: str | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        """How many more may be kept."""
        return ROWS_MAX - len(self._rows)

    def add(self, rows: Sequence[Foreseen], now_ms: float) -> None:
        """Keep these, as far as there is room."""
        kept = rows[: max(self.room, 0)]
        self._rows.update((row.id, row) for row in kept)
        self._pages.append((now_ms, [row.id for row in kept]))

    def take(self, ids: Iterable[str], incarnation: str) -> dict[str, Foreseen]:
        """What is known of these; it is kept here no more."""
        rows = self._rows
        if incarnation != self._incarnation:
            if self._incarnation is not None:
                rows.clear()
            self._incarnation = incarnation
        return {one: rows.pop(one) for one in ids if one in rows} if rows else {}

    def drop_old(self, now_ms: float) -> None:
        """Let go of what has been here for too long."""
        while self._pages and self._pages[0][0] < now_ms - KEPT_MS:
            for one in self._pages.popleft()[1]:
                self._rows.pop(one, None)
