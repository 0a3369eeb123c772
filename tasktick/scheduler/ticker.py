"""Moves what has become due from the wheel to the ready queue, and sleeps until there is more.

It sleeps on the monotonic clock and reads the wall clock again on waking and at least each second, so a
step of the wall clock is seen within a second: forward, what became due fires; back, nothing fires twice.
"""

import asyncio
from collections.abc import Callable, Sequence

from tasktick import logs
from tasktick.clock import Clock, turns
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model.task import Due
from tasktick.ready.lane import LaneKey
from tasktick.ready.queue import Pushed, ReadyQueue
from tasktick.scheduler.horizon import Horizon
from tasktick.store import due as due_store
from tasktick.store.protocol import Lane, Reader, Writer

log = logs.get("scheduler")

LOOK_AT_LEAST_MS = 1_000
READ_ROWS_MAX = 1_000
CLOCK_STEP_MS = 1_000
# What becomes due within this part of how early it comes out is moved together: a claim for each would cost more than
# all that it writes, and there is time enough left to be sent on the millisecond.
GATHERED_PART = 5
# Of what is due at one instant, so many get their place in a turn of the loop: the first are claimed meanwhile.
PUSHED_AT_ONCE = 500
# Parked tasks of a lane come up again in groups, so many in a transaction, one group after the other.
PARK_MS = 5_000
PARK_ROWS = 500
PARK_STEP_MS = 100
PARK_LANES_KEPT = 1_000


class Ticker:
    """The loop between the horizon and the ready queue."""

    name = "ticker"

    def __init__(
        self,
        clock: Clock,
        horizon: Horizon,
        ready: ReadyQueue,
        near: Reader,
        writer: Writer,
        metrics: Metrics,
        wake_dispatcher: Callable[[], None],
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._horizon = horizon
        self._ready = ready
        self._near = near
        self._writer = writer
        self._metrics = metrics
        self._wake_dispatcher = wake_dispatcher
        self._wall_minus_monotonic: float | None = None
        # By lane: when its last parked group comes up, and how many are in it.
        self._parked: dict[LaneKey, tuple[int, int]] = {}
        # The ready queue was full: what did not fit is still in the store, for the loader to read again.
        self.overflowed = False

    async def step(self) -> float:
        """Move what is due; how long until there is more."""
        self._watch_clock()
        known, unknown = self._horizon.expire(self._clock.now_ms())
        if known:
            await self.push(known)
        for at in range(0, len(unknown), READ_ROWS_MAX):
            await self._look_up(unknown[at : at + READ_ROWS_MAX])
        upcoming = self._horizon.next_look()
        if upcoming is None:
            return LOOK_AT_LEAST_MS
        rest_ms = max(upcoming - self._clock.now_ms(), 0)
        if known:
            rest_ms = max(rest_ms, self._horizon.early_ms // GATHERED_PART)
        return min(rest_ms, LOOK_AT_LEAST_MS)

    async def _look_up(self, ids: list[str]) -> None:
        """Read the rows of these; those that were moved meanwhile wait for their new time."""
        rows = await self._near.read(lambda tx: due_store.by_ids(tx, ids))
        now = self._clock.now_ms()
        await self.push([row for row in rows if row.wake_at - self._horizon.early_ms <= now])
        self._horizon.add((row for row in rows if row.wake_at - self._horizon.early_ms > now), now)

    async def push(self, rows: Sequence[Due]) -> None:
        """Let these wait for their turn; those of a full lane are parked, those of a full queue read again later."""
        parked: list[Due] = []
        for at in range(0, len(rows), PUSHED_AT_ONCE):
            if at:
                await turns(1)
            parked += self._push_some(rows[at : at + PUSHED_AT_ONCE])
        if parked:
            await self._park(parked)

    def _push_some(self, rows: Sequence[Due]) -> list[Due]:
        """Those whose lane is full are left over."""
        parked: list[Due] = []
        queued = False
        for row in rows:
            match self._ready.push(row):
                case Pushed.QUEUED:
                    queued = True
                case Pushed.LANE_FULL:
                    parked.append(row)
                case Pushed.FULL:
                    self.overflowed = True
                case Pushed.DUPLICATE:
                    pass
        if queued:
            self._wake_dispatcher()
        return parked

    async def _park(self, rows: Sequence[Due]) -> None:
        """Look at these again later, so that they never fill the room of others.

        On a full disk they cannot be parked: they are left to the loader, which reads them again.
        """
        now = self._clock.now_ms()
        for at in range(0, len(rows), PARK_ROWS):
            times = {row.id: self._next_look_at(row, now) for row in rows[at : at + PARK_ROWS]}
            try:
                await self._writer.write(lambda tx, times=times: due_store.park(tx, times), Lane.UPKEEP)  # type: ignore[misc] # bound defaults
            except StoreUnavailable:
                log.warning("parking_waits_for_disk", tasks=len(rows) - at)
                return
            self._metrics.events["task_parked"] += len(times)

    def _next_look_at(self, row: Due, now: int) -> int:
        """The end of its lane's line: a lane that stays full costs so many looks a second, however much is parked."""
        lane = (row.tenant, row.queue, row.host)
        soonest = -(-(now + PARK_MS) // PARK_STEP_MS) * PARK_STEP_MS
        wake_at, rows = self._parked.get(lane, (soonest, 0))
        if wake_at < soonest:
            wake_at, rows = soonest, 0
        elif rows >= PARK_ROWS:
            wake_at, rows = wake_at + PARK_STEP_MS, 0
        if len(self._parked) >= PARK_LANES_KEPT:
            self._parked = {key: last for key, last in self._parked.items() if last[0] >= soonest}
        self._parked[lane] = (wake_at, rows + 1)
        return wake_at

    def _watch_clock(self) -> None:
        offset = self._clock.now_ms() - self._clock.monotonic_ms()
        if self._wall_minus_monotonic is not None:
            step_ms = offset - self._wall_minus_monotonic
            if abs(step_ms) > CLOCK_STEP_MS:
                log.warning("clock_stepped", step_ms=round(step_ms))
                self._metrics.events["clock_stepped"] += 1
        self._wall_minus_monotonic = offset
