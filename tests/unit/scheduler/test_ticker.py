"""How the ticker gathers what becomes due close together, and what that may cost."""

from typing import Any

from tasktick.metrics import Metrics
from tasktick.model.task import Due
from tasktick.ready.queue import Pushed
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.ticker import GATHERED_PART, Ticker

START_MS = 1_800_000_000_000
EARLY_MS = 15


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = START_MS

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return float(self.now - START_MS)

    async def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("a step never sleeps")


class Queue:
    """Takes everything, and knows when."""

    def __init__(self, clock: SetClock) -> None:
        self._clock = clock
        self.left_ms: list[int] = []
        self.pushed_at: set[int] = set()

    def push(self, row: Due) -> Pushed:
        self.left_ms.append(row.wake_at - self._clock.now)
        self.pushed_at.add(self._clock.now)
        return Pushed.QUEUED


async def test_what_is_due_close_together_is_moved_together_and_in_time() -> None:
    clock = SetClock()
    horizon = Horizon(START_MS, early_ms=EARLY_MS, near_ms=2_000, timers_max=1_000)
    queue: Any = Queue(clock)
    nowhere: Any = None
    ticker = Ticker(clock, horizon, queue, nowhere, nowhere, Metrics(), lambda: None)
    count = 300
    rows = [Due(f"{n:032x}", "t", "q", "h", 5, START_MS + 500 + n, START_MS + 500 + n) for n in range(1, count + 1)]
    horizon.add(rows, START_MS)

    while len(queue.left_ms) < count:
        clock.now += max(int(await ticker.step()), 1)

    gathered_ms = EARLY_MS // GATHERED_PART
    assert gathered_ms > 1
    # One each millisecond comes out in groups, none of them with much less time than it would have had alone.
    assert len(queue.pushed_at) <= count / gathered_ms + 2
    assert min(queue.left_ms) > EARLY_MS - gathered_ms
    assert max(queue.left_ms) <= EARLY_MS


async def test_one_alone_is_moved_as_early_as_may_be() -> None:
    clock = SetClock()
    horizon = Horizon(START_MS, early_ms=EARLY_MS, near_ms=2_000, timers_max=1_000)
    queue: Any = Queue(clock)
    nowhere: Any = None
    ticker = Ticker(clock, horizon, queue, nowhere, nowhere, Metrics(), lambda: None)
    horizon.add([Due("a" * 32, "t", "q", "h", 5, START_MS + 500, START_MS + 500)], START_MS)

    while not queue.left_ms:
        clock.now += max(int(await ticker.step()), 1)

    assert queue.left_ms == [EARLY_MS]
