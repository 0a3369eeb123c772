"""Makes outcomes durable: what ended while the last batch was being written is the next batch. Where the store can
write two beside each other, and more waits than one batch takes, a second hand helps with those that stand alone.

Nothing here gives up: a full disk is waited for, with the outcomes in memory; a store that is broken stops
the process, and the attempts are taken up as interrupted by the next one.
"""

import asyncio
from collections.abc import Callable, Sequence

from tasktick import logs
from tasktick.clock import Clock, wait_for_event
from tasktick.dispatch.flight import Hands
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model.attempt import End
from tasktick.model.ids import wire
from tasktick.model.state import State
from tasktick.model.task import Due
from tasktick.store.endings import Ended, EndWriter, stands_alone

log = logs.get("dispatch")

BATCH_ROWS_MAX = 500
BACKLOG_MAX = 5_000
FULL_REST_MS = 500
FLUSH_MAX_MS = 10_000
IDLE_MS = 1_000


class Completion:
    """The loop that writes ends."""

    name = "completion"

    def __init__(
        self,
        clock: Clock,
        writer: EndWriter,
        hands: Hands,
        metrics: Metrics,
        *,
        retry_due: Callable[[Sequence[Due]], None],
    ) -> None:
        self.wake = asyncio.Event()
        # More waits than one batch takes.
        self.crowded = asyncio.Event()
        self._clock = clock
        self._writer = writer
        self._hands = hands
        self._metrics = metrics
        self._retry_due = retry_due
        self._waiting: list[End] = []
        self._writing = 0
        self._settled = asyncio.Event()

    @property
    def backlogged(self) -> bool:
        """Whether claims should wait until ends are written."""
        return len(self._waiting) >= BACKLOG_MAX

    def add(self, end: End) -> None:
        """Write this end with the next batch."""
        self._waiting.append(end)
        self.wake.set()
        if len(self._waiting) > BATCH_ROWS_MAX:
            self.crowded.set()

    async def step(self) -> float:
        """Write what waits."""
        return await self._write() if self._waiting else IDLE_MS

    async def help(self) -> float:
        """Write a batch beside the one that `step` writes, if another is left for that."""
        if len(self._waiting) <= BATCH_ROWS_MAX or not all(map(stands_alone, self._waiting[:BATCH_ROWS_MAX])):
            return IDLE_MS
        return await self._write()

    async def _write(self) -> float:
        batch, self._waiting = self._waiting[:BATCH_ROWS_MAX], self._waiting[BATCH_ROWS_MAX:]
        self._writing += len(batch)
        try:
            results = await self._writer.write(batch)
        except StoreUnavailable:
            self._waiting[:0] = batch
            log.warning("completion_waits_for_disk", waiting=len(self._waiting))
            return FULL_REST_MS
        except BaseException:
            self._waiting[:0] = batch
            raise
        finally:
            self._writing -= len(batch)
        self._settle(batch, results)
        return 0 if self._waiting else IDLE_MS

    def _settle(self, batch: list[End], results: Sequence[object]) -> None:
        again: list[Due] = []
        for end, result in zip(batch, results, strict=True):
            claimed = end.claimed
            if isinstance(result, StoreUnavailable):
                self._waiting.append(end)
                continue
            self._hands.ended(claimed)
            if isinstance(result, BaseException):
                # The row cannot be written as it is; the sweeper takes the attempt up when its lease has passed.
                log.error(
                    "attempt_end_failed", task=wire("tsk", claimed.id), attempt=claimed.attempt, error=str(result)
                )
                self._metrics.events["attempt_end_failed"] += 1
                continue
            assert isinstance(result, Ended)
            if result.state is None:
                self._metrics.events["stale_write"] += 1
                log.warning(
                    "attempt_end_stale", task=wire("tsk", claimed.id), attempt=claimed.attempt, fence=claimed.fence
                )
                continue
            self._metrics.attempts[end.attempt.state if end.attempt is not None else "unclaimed"] += 1
            if result.woken is not None:
                again.append(result.woken)
            if result.state in (State.RETRYING, State.SCHEDULED) and end.due_at is not None:
                again.append(_due(end))
            elif result.state is State.DEAD:
                log.warning("task_dead", task=wire("tsk", claimed.id), attempt=claimed.attempt, reason=end.reason)
        if again:
            self._retry_due(again)
        if not self._waiting:
            self._settled.set()

    async def flush(self) -> None:
        """Wait until every end that was added is written; but not for ever, should the disk be full."""
        give_up_ms = self._clock.monotonic_ms() + FLUSH_MAX_MS
        while self._waiting or self._writing:
            if self._clock.monotonic_ms() > give_up_ms:
                log.error("ends_not_written", attempts=len(self._waiting))
                return
            self._settled.clear()
            self.wake.set()
            await wait_for_event(self._settled, self._clock, IDLE_MS)


def _due(end: End) -> Due:
    claimed = end.claimed
    assert end.due_at is not None
    at, is_fire = end.due_at, claimed.template_id is not None
    return Due(claimed.id, claimed.tenant, claimed.queue, claimed.host, claimed.priority, at, at, is_fire)


class SecondHand:
    """The loop that helps to write ends."""

    name = "completion_helper"

    def __init__(self, completion: Completion) -> None:
        self.wake = completion.crowded
        self._completion = completion

    async def step(self) -> float:
        """Help, if there is that much to write."""
        return await self._completion.help()
