"""A priority queue for what comes nearly in its order.

What comes in order is appended to a run and taken from its other end, each in one step; what comes out of order goes
to a heap beside it. A burst that is due at once is one run, and costs no comparison with the rest of it.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=tuple[Any, ...])


class Order(Generic[Item]):
    """Items, the smallest first; no two may be equal."""

    __slots__ = ("_late", "_run")

    def __init__(self) -> None:
        # None until there are two: most lanes have one entry, and an empty deque is ten times as large as that.
        self._run: deque[Item] | None = None
        self._late: list[Item] = []

    def __len__(self) -> int:
        return len(self._run or ()) + len(self._late)

    def push(self, item: Item) -> bool:
        """Put one where it belongs; whether it is the first now."""
        run = self._run
        if run and run[-1] < item:
            run.append(item)
            return False
        if run or (run is None and not self._late):
            heappush(self._late, item)
        elif run is None:
            self._run = deque((item,))
        else:
            run.append(item)
        return self.first() is item

    def first(self) -> Item | None:
        """The smallest, which stays; None if there is none."""
        run = self._run
        if self._late and not (run and run[0] < self._late[0]):
            return self._late[0]
        return run[0] if run else None

    def pop(self) -> None:
        """Drop the smallest."""
        run = self._run
        if run and not (self._late and self._late[0] < run[0]):
            run.popleft()
        else:
            heappop(self._late)

    def keep(self, is_live: Callable[[Item], bool]) -> None:
        """Drop all others."""
        if self._run is not None:
            self._run = deque(filter(is_live, self._run))
        self._late = list(filter(is_live, self._late))
        heapify(self._late)
