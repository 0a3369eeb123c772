"""Removes what is old, a small batch at a time, when nobody waits for the writer."""

import asyncio
from collections.abc import Awaitable, Callable

from tasktick import logs
from tasktick.clock import Clock
from tasktick.errors import StoreUnavailable
from tasktick.settings import StoreConfig
from tasktick.store import leases, retention
from tasktick.store.protocol import Lane, Writer

log = logs.get("scheduler")

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
IDLE_MS = 60_000
DOUBTFUL_STEP_MS = 3_600_000
BETWEEN_BATCHES_MS = 100
# What only this kind of database needs, of what ended before: whether there is more of it.
Tidy = Callable[[int, int], Awaitable[bool]]


class Retention:
    """The loop that forgets."""

    name = "retention"

    def __init__(self, clock: Clock, writer: Writer, tidy: Tidy, config: StoreConfig) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._writer = writer
        self._tidy = tidy
        self._config = config
        self._wall_minus_monotonic = clock.now_ms() - clock.monotonic_ms()
        self._paused_until_ms = 0.0

    def reconfigure(self, config: StoreConfig) -> None:
        """Keep things for as long as this says, beginning now."""
        self._config = config
        self.wake.set()

    async def step(self) -> float:
        """Remove one batch of each kind; rest for a minute when nothing is left."""
        now, rows_max = self._clock.now_ms(), self._config.retention_batch_rows
        is_doubtful = self._clock_is_doubtful()
        events_before = 0 if is_doubtful else now - self._config.events_hours * HOUR_MS
        try:
            more_events = await self._writer.write(
                lambda tx: retention.remove_events(tx, events_before, self._config.events_max, rows_max), Lane.UPKEEP
            )
            if is_doubtful:  # only what there is too much of
                return BETWEEN_BATCHES_MS if more_events else IDLE_MS
            before = now - self._config.retention_days * DAY_MS
            finished = await self._writer.write(lambda tx: retention.remove_finished(tx, before, rows_max), Lane.UPKEEP)
            names = await self._writer.write(lambda tx: retention.remove_names(tx, now, rows_max), Lane.UPKEEP)
            fires = await self._writer.write(lambda tx: retention.remove_ledger(tx, before, rows_max), Lane.UPKEEP)
            await self._writer.write(lambda tx: leases.forget_nodes(tx, before), Lane.UPKEEP)
            more = await self._tidy(now, before) or more_events
        except StoreUnavailable:
            return IDLE_MS
        if finished or names or fires:
            log.debug("retention_removed", tasks=finished, names=names, fires=fires)
        return BETWEEN_BATCHES_MS if more or max(finished, names, fires) >= rows_max else IDLE_MS

    def _clock_is_doubtful(self) -> bool:
        """Whether the clock was lately set by so much that nobody can tell what is old."""
        monotonic_ms = self._clock.monotonic_ms()
        offset = self._clock.now_ms() - monotonic_ms
        if abs(offset - self._wall_minus_monotonic) > DOUBTFUL_STEP_MS:
            self._paused_until_ms = monotonic_ms + DAY_MS
            log.warning("retention_paused", clock_step_ms=round(offset - self._wall_minus_monotonic))
        self._wall_minus_monotonic = offset
        return monotonic_ms < self._paused_until_ms
