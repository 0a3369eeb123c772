"""Reads what is due from the store, window by window. What it reads is the truth; hints only make it sooner.

Three readings. *Near*, each second: what is overdue by up to half a minute, and two seconds ahead, with the rows that
the ready queue needs. What is ahead is read once: what is written into a time that was read already, and of which no
hint came, is found when it is overdue. While much is overdue, nearly all of it is known: then ids are read, which are
the index alone, and the rows of those that are not; and less often. *Far*: ids and
times up to the horizon, as far as the wheel does not know the store yet. *Full*, each minute and at the start:
everything overdue, with no lower bound; this one is the guarantee.

A page is in the order of the index (`due.Stretch`): by slots of a second, and within a slot by id. So what has been
read of a slot says nothing about the rest of it, and each reading has its end from the beginning.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from tasktick import logs
from tasktick.clock import Clock, turns
from tasktick.model.task import Due, Timers
from tasktick.ready.queue import ReadyQueue
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.ticker import Ticker
from tasktick.settings import SchedulerConfig
from tasktick.store import due as due_store
from tasktick.store.due import Stretch
from tasktick.store.protocol import Reader

log = logs.get("scheduler")

PAGE_ROWS = 5_000
# Of times and ids, which are far less work each.
FAR_PAGE_ROWS = 20_000
# Of a page, so many are taken in a turn of the loop: all of it would be some 15 ms in which nothing is sent.
TAKEN_AT_ONCE = 500
FAR_TAKEN_AT_ONCE = 1_000
# Of the time, so much may go into reading what is overdue.
OVERDUE_SHARE = 1 / 20
# What does not fit is read again when so much of the ready queue is free: each reading passes over the rest of it.
ROOM_SHARE = 4


def _nobody(rows: Iterable[Due]) -> None:
    del rows


class Loader:
    """The loop that reads ahead."""

    name = "loader"

    def __init__(
        self,
        clock: Clock,
        horizon: Horizon,
        ready: ReadyQueue,
        near: Reader,
        config: SchedulerConfig,
        *,
        ticker: Ticker,
        in_hand: Callable[[str], bool],
        owned: Callable[[], list[str] | None] = lambda: None,
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._horizon = horizon
        self._ready = ready
        self._near = near
        self._config = config
        self._ticker = ticker
        self._in_hand = in_hand
        # The partitions to read; None is all.
        self._owned = owned
        self._full_due_ms = 0.0
        self._near_read_at = clock.now_ms()
        # Up to when what is ahead has been read; when what is overdue is read again.
        self._near_until = 0
        self._overdue_due_ms = 0.0
        # Grows with each partition that comes: what was being read does not cover it.
        self._gains = 0
        self.loaded = asyncio.Event()
        # Told of what is due soon: what that is sent with can be read before.
        self.foresee: Callable[[Iterable[Due]], None] = _nobody

    async def step(self) -> float:
        """Read what is near, and what is further when it is time; how long to rest."""
        now = self._clock.now_ms()
        # A clock set forward, or a long wait, leaves a gap that no near reading looks back over.
        gap = now - self._near_read_at > self._config.look_back_ms
        if gap or self._clock.monotonic_ms() >= self._full_due_ms:
            self._full_due_ms = self._clock.monotonic_ms() + self._config.full_every_ms
            await self._read_full()
            now = self._clock.now_ms()
        await self._read_near(now)
        self._near_read_at = now
        await self._read_far(now)
        if not self.loaded.is_set():
            log.info("loaded", timers=len(self._horizon), ready=len(self._ready))
            self.loaded.set()
        return self._config.near_every_ms

    async def _read_near(self, now: int) -> None:
        until = now + self._config.near_ms
        known = self._near_until if now < self._near_until <= until else now
        self._near_until = 0  # should that fail
        await self._read_between(Stretch(known, until), now)
        self._near_until = until
        began_ms = self._clock.monotonic_ms()
        if began_ms >= self._overdue_due_ms:
            await self._read_overdue(Stretch(now - self._config.look_back_ms, now))
            ended_ms = self._clock.monotonic_ms()
            rest_ms = min((ended_ms - began_ms) / OVERDUE_SHARE, self._config.look_back_ms / 2)
            self._overdue_due_ms = ended_ms + rest_ms

    async def _read_between(self, stretch: Stretch, now: int) -> None:
        while True:
            rows = await self._page(stretch)
            await self._take(rows, now)
            if len(rows) < PAGE_ROWS or self._is_full():
                return
            stretch = stretch.beyond(rows)

    async def _read_overdue(self, stretch: Stretch) -> None:
        """What of this is not known."""
        now = stretch.until
        if not len(self._ready):
            await self._read_between(stretch, now)
            return
        while not self._is_full():
            timers = await self._timers(stretch, PAGE_ROWS)
            ids = [one for one in self._ready.missing(timers.ids) if not self._in_hand(one)]
            if ids:
                await self._take(await self._near.read(lambda tx, ids=ids: due_store.by_ids(tx, ids)), now)  # type: ignore[misc]
            if len(timers) < PAGE_ROWS:
                return
            stretch = stretch.beyond(timers)

    async def _read_full(self) -> None:
        self._ticker.overflowed = False
        stretch = Stretch(due_store.BEGINNING, self._clock.now_ms())
        while True:
            rows = await self._page(stretch)
            now = self._clock.now_ms()
            await self._take(rows, now)
            if self._is_full():
                return
            if len(rows) == PAGE_ROWS:
                stretch = stretch.beyond(rows)
            elif now - stretch.until < self._config.look_back_ms / 2:
                return
            else:  # it took so long that what has become due meanwhile is more than the near reading looks back over
                stretch = Stretch(stretch.until + 1, now)

    async def _take(self, rows: list[Due], now: int) -> None:
        """Overdue rows go to the ready queue, the others wait in the wheel; what is being sent is left alone."""
        for at in range(0, len(rows), TAKEN_AT_ONCE):
            if at:
                await turns(1)
            await self._take_some(rows[at : at + TAKEN_AT_ONCE], now)

    async def _take_some(self, rows: list[Due], now: int) -> None:
        fresh = [row for row in rows if not self._in_hand(row.id)]
        overdue = [row for row in fresh if row.wake_at <= now]
        if overdue:
            await self._ticker.push(overdue)
        if len(overdue) < len(fresh):
            ahead = [row for row in fresh if row.wake_at > now]
            if self._horizon.add(ahead, now):
                self._ticker.wake.set()
            self.foresee(ahead)

    async def _read_far(self, now: int) -> None:
        """Read ids and times beyond what the wheel knows, up to the horizon or to as many as it may hold."""
        horizon = now + self._config.horizon_ms
        if self._horizon.loaded_until >= horizon:
            return
        stretch = Stretch(max(self._horizon.loaded_until, now) + 1, horizon)
        gains = self._gains
        timers = await self._timers(stretch, FAR_PAGE_ROWS) if not self._horizon.is_full else Timers()
        while not self._horizon.is_full:
            if len(timers) < FAR_PAGE_ROWS:
                await self._take_timers(timers)
                if gains == self._gains:
                    self._horizon.loaded_until = horizon
                break
            # The next page is read while this one is taken in.
            stretch = stretch.beyond(timers)
            coming, taken = await asyncio.gather(
                self._timers(stretch, FAR_PAGE_ROWS), self._take_timers(timers), return_exceptions=True
            )
            if isinstance(taken, BaseException):
                raise taken
            if gains != self._gains:
                break
            # The wheel knows all that is due before the last one's slot; the rest of that comes with the next page.
            known_until = due_store.slot_begins(timers.times[-1]) - 1
            self._horizon.loaded_until = max(self._horizon.loaded_until, known_until)
            if isinstance(coming, BaseException):  # what was taken is not read again
                raise coming
            timers = coming
        self._ticker.wake.set()

    async def _take_timers(self, timers: Timers) -> None:
        # A thread that reads the next ones has to begin first: it would wait for the interpreter until these are taken.
        await self._clock.sleep_ms(1)
        for first in range(0, len(timers), FAR_TAKEN_AT_ONCE):
            last = first + FAR_TAKEN_AT_ONCE
            self._horizon.add_timers(timers.times[first:last], timers.keys(first, last))
            await turns(1)

    async def _page(self, stretch: Stretch) -> list[Due]:
        owned = self._owned()
        return await self._near.read(lambda tx: due_store.between(tx, stretch, PAGE_ROWS, owned))

    async def _timers(self, stretch: Stretch, rows: int) -> Timers:
        owned = self._owned()
        return await self._near.read(lambda tx: due_store.timers(tx, stretch, rows, owned))

    def _is_full(self) -> bool:
        """The ready queue took no more: what is left is read again when it has room."""
        return self._ticker.overflowed and len(self._ready) >= self._config.ready_max

    def _has_room(self) -> bool:
        return len(self._ready) * ROOM_SHARE <= self._config.ready_max * (ROOM_SHARE - 1)

    def gained(self, partitions: Sequence[int]) -> None:
        """These are this node's from now on: read all of them, the near and the far."""
        self._gains += len(partitions)
        self._full_due_ms = self._overdue_due_ms = 0.0
        self._near_until = 0
        self._horizon.loaded_until = self._clock.now_ms()
        self.wake.set()

    def room_came_up(self) -> None:
        """Nothing that is ready may go: if the queue overflowed and has room again, read what did not fit."""
        if self._ticker.overflowed and self._has_room():
            self._full_due_ms = 0.0
            self.wake.set()
