"""The deadlines of calls in flight, kept as a sender keeps them: who is over his is cancelled by the sweep."""

import asyncio


class Deadlines:
    """Tasks that send, by when they must have ended."""

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._deadlines)

    @property
    def connecting(self) -> int:
        return 0

    def sweep(self, monotonic_ms: float) -> int:
        for task, deadline_ms in list(self._deadlines.items()):
            if deadline_ms <= monotonic_ms and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        return len(self._expired)
