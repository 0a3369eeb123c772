"""Hands what happens to all who follow it: each batch is read once, however many they are.

The truth is in the store. A commit wakes the feed, which reads on from where it was and gives each tenant's events
to those who follow that tenant; without a hint it looks again each second. A follower that is behind, because it
comes with an old id or takes too slowly, reads the store by itself, at its own pace, until it has caught up. While
nobody follows, nothing is read, nor is anything done so that it could be.

Before it reads, it lets the store number what has no number yet. Where that cannot be done, because another node is at
it or the disk is full, it hands out what has one: the rest comes later, and in its order.
"""

import asyncio
from collections import Counter, defaultdict, deque
from typing import Protocol

import msgspec

from tasktick import logs
from tasktick.api.event_frames import Frame, Position, frames, gap
from tasktick.clock import Clock, wait_for_event
from tasktick.errors import Refused, StoreError
from tasktick.settings import ServerConfig
from tasktick.store import events
from tasktick.store.events import Edges, EventRow
from tasktick.store.protocol import Reader, Transaction

log = logs.get("events")

POLL_MS = 1_000
# Between two reads while much happens: what commits meanwhile is read together.
PACE_MS = 20
# Events that wait for a follower who is slow to take them; with more, it reads the store by itself later.
WAITING_MAX = 2_000
RETRY_AFTER_MS = 10_000


class Store(Reader, Protocol):
    """What the feed reads."""

    async def number_events(self) -> bool:
        """Number what has been told by now; whether there is more to number."""
        ...


async def _from(tx: Transaction, sequence: int) -> tuple[Edges, list[EventRow]]:
    return await events.edges(tx), await events.page(tx, sequence)


class EventFeed:
    """The loop that reads, and the followers."""

    name = "event_feed"

    def __init__(self, clock: Clock, store: Store, limits: ServerConfig) -> None:
        self.wake = asyncio.Event()
        self.clock = clock
        self.ended = False
        self._store = store
        self._max = max(1, min(limits.event_streams_max, limits.connections_max // 2))
        self._per_tenant_max = limits.event_streams_per_tenant_max
        self._open: Counter[str] = Counter()
        self._live: defaultdict[str, list[Follower]] = defaultdict(list)
        # The first batch that has not been handed out; 0 while nobody is live.
        self.head = 0
        self._hinted = False
        self._at_rest = False
        self._numbers = True

    def __len__(self) -> int:
        return self._open.total()

    def committed(self) -> None:
        """A hint: something was written."""
        self._hinted = True
        if self._at_rest:
            self.wake.set()

    async def step(self) -> float:
        """Read on, once."""
        self._hinted = self._at_rest = False
        if not self._live:
            return POLL_MS
        began_ms = self.clock.monotonic_ms()
        more = await self._number()
        # Where that is laborious, it is not done without end.
        pace_ms = max(PACE_MS, self.clock.monotonic_ms() - began_ms)
        if not self._live:
            return POLL_MS
        try:
            edges, rows = await self.read(self.head)
        except (StoreError, msgspec.MsgspecError) as error:
            log.error("events_unreadable", error=str(error))
            self._let_go(failed=True)
            return POLL_MS
        if edges.oldest > self.head:  # removed before they were read: each finds out by itself
            self._let_go(failed=False)
            return POLL_MS
        for row in rows:
            self._hand_out(row)
        if rows or more or self._hinted:
            return pace_ms
        self._at_rest = True
        return POLL_MS

    def _hand_out(self, row: EventRow) -> None:
        self.head = row.sequence + 1
        for tenant in row.tenants.keys() & self._live.keys():
            told = frames(row, tenant)
            for follower in list(self._live[tenant]):
                follower.hand(row.sequence, told)

    async def _number(self) -> bool:
        """Let what has been told have its numbers; whether there is more of it. What fails is said once."""
        try:
            more = await self._store.number_events()
        except StoreError as error:
            if self._numbers:
                log.warning("events_late", error=str(error))
            self._numbers = False
            return False
        self._numbers = True
        return more

    async def read(self, sequence: int) -> tuple[Edges, list[EventRow]]:
        """What is kept, and some of it from this batch on."""
        return await self._store.read(lambda tx: _from(tx, sequence))

    async def follow(self, tenant: str, after: Position | None) -> "Follower":
        """Begin to follow a tenant behind this place, else from now; or the refusal. It is closed by its caller."""
        if self.ended:
            raise Refused("draining", "This server is stopping. Come again in a moment.")
        if len(self) >= self._max:
            raise Refused("overloaded", "There are too many streams of events.", retry_after_ms=RETRY_AFTER_MS)
        if self._open[tenant] >= self._per_tenant_max:
            detail = f"The tenant has {self._per_tenant_max} streams of events open. Close some."
            raise Refused("rate_limited", detail, retry_after_ms=RETRY_AFTER_MS)
        self._open[tenant] += 1
        try:
            await self._number()  # what has happened until now is not told from now on
            edges = await self._store.read(events.edges)
        except BaseException:
            self.leave(tenant)
            raise
        return Follower(self, tenant, after or Position(edges.newest + 1))

    def leave(self, tenant: str) -> None:
        """A stream has ended."""
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]

    def join(self, follower: "Follower") -> bool:
        """Take this one in among those who are handed what happens; not if something was handed out meanwhile."""
        if not self._live:
            self.head = follower.position.sequence
        elif follower.position.sequence < self.head:
            return False
        self._live[follower.tenant].append(follower)
        self.wake.set()
        return True

    def part(self, follower: "Follower") -> None:
        """Hand this one nothing more."""
        there = self._live[follower.tenant]
        there.remove(follower)
        if not there:
            del self._live[follower.tenant]
        if not self._live:
            self.head = 0

    def _let_go(self, *, failed: bool) -> None:
        for follower in [one for there in self._live.values() for one in there]:
            follower.let_go(failed=failed)

    async def close(self) -> None:
        """End all streams, when each has sent what waits for it."""
        self.ended = True
        self._let_go(failed=False)


class Follower:
    """One stream's place in what happens to a tenant."""

    def __init__(self, feed: EventFeed, tenant: str, position: Position) -> None:
        self.tenant = tenant
        self._feed = feed
        self._position = position
        self._waiting: deque[list[Frame]] = deque()
        self._waiting_events = 0
        self._moved = asyncio.Event()
        self._is_live = False
        self._failed = False
        self._closed = False

    @property
    def position(self) -> Position:
        """Where it goes on when it has taken all that waits: nothing of its tenant is between."""
        return Position(max(self._feed.head, self._position.sequence)) if self._is_live else self._position

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return not self._waiting and (self._failed or self._feed.ended)

    async def take(self, wait_ms: float) -> list[Frame]:
        """What comes next; nothing, if nothing has come in this time."""
        if not self._waiting and not self._is_live and not self.ended:
            return await self._catch_up()
        if not self._waiting and not self.ended:
            await wait_for_event(self._moved, self._feed.clock, wait_ms)
        self._moved.clear()
        taken = [frame for part in self._waiting for frame in part]
        self._waiting.clear()
        self._waiting_events = 0
        return taken

    async def _catch_up(self) -> list[Frame]:
        """Read the store, until there is nothing more to read."""
        at = self._position
        edges, rows = await self._feed.read(at.sequence)
        found: list[Frame] = []
        if at.sequence < edges.oldest:
            at = Position(edges.oldest)
        elif at > Position(edges.newest + 1):
            at, rows = Position(edges.newest + 1), []
        if at != self._position:
            found.append(gap(self._position, at))
        for row in rows:
            found += frames(row, self.tenant, at.index if row.sequence == at.sequence else 0)
            at = Position(row.sequence + 1)
        self._position = at
        has_read_all = not rows or 0 < self._feed.head <= at.sequence
        self._is_live = has_read_all and not self.ended and not self._closed and self._feed.join(self)
        return found

    def hand(self, sequence: int, told: list[Frame]) -> None:
        """This has happened; what was read already is passed over."""
        if sequence < self._position.sequence:
            return
        self._position = Position(sequence + 1)
        self._waiting.append(told)
        self._waiting_events += len(told)
        self._moved.set()
        if self._waiting_events > WAITING_MAX:
            self.let_go(failed=False)

    def let_go(self, *, failed: bool) -> None:
        """Nothing more is handed to it. What it has missed it reads by itself, unless it has failed."""
        position = self.position
        self._feed.part(self)
        self._is_live = False
        self._position = position
        self._failed = failed
        self._moved.set()

    def close(self) -> None:
        """The stream has ended."""
        if self._closed:
            return
        self._closed = True
        if self._is_live:
            self.let_go(failed=False)
        self._feed.leave(self.tenant)
