"""Looks for words that did not come, and keeps a note that somebody was there to hear them.

Each node looks into its own partitions; two that look at once come one after the other, by the row of the check. The
note is for all nodes: as long as one of them could write, pings could be heard.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tasktick import logs
from tasktick.clock import Clock
from tasktick.metrics import Metrics
from tasktick.model.checkin import Check, Ping
from tasktick.model.ids import wire
from tasktick.scheduler.checkins import AWAY_AFTER_MS, Event, Said, away_of, looked, pinged
from tasktick.store import checkins
from tasktick.store.events import Told
from tasktick.store.protocol import Batch, Database, Lane, Transaction

log = logs.get("checks")

ROWS_MAX = 250
LOOK_EVERY_MS = 1_000.0
NOTE_EVERY_MS = 10_000.0
BODY_CHARS_MAX = 10_240


class Arrival(msgspec.Struct, frozen=True):
    """A ping as it has come, with the hash of the id that it was sent to."""

    ping_hash: str
    said: Said
    method: str
    source: str | None = None
    agent: str | None = None
    body: str | None = None
    body_bytes: int = 0


class CheckWatch:
    """The loop that looks."""

    name = "checks"

    def __init__(
        self, clock: Clock, database: Database, metrics: Metrics, owned: Callable[[], list[str] | None]
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._database = database
        self._metrics = metrics
        self._owned = owned
        self._note_at = float("-inf")

    async def step(self) -> float:
        """One round; no rest while there is more."""
        now, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        if monotonic_ms >= self._note_at:
            await self._database.write(lambda tx: checkins.note_seen(tx, now, AWAY_AFTER_MS), Lane.UPKEEP)
            self._note_at = monotonic_ms + NOTE_EVERY_MS
        owned = self._owned()
        ids = await self._database.near.read(lambda tx: checkins.due(tx, now, ROWS_MAX, owned))
        if not ids:
            return LOOK_EVERY_MS
        told = await self._database.write(lambda tx: look(tx, ids, now), Lane.UPKEEP)
        count(self._metrics, told)
        if told:
            log.info("checks_missing", told=dict(told))
        return 0 if len(ids) >= ROWS_MAX else LOOK_EVERY_MS


def count(metrics: Metrics, told: Counter[str]) -> None:
    """These have been told."""
    for kind, times in told.items():
        metrics.events[kind.replace(".", "_")] += times


async def look(tx: Transaction, ids: Sequence[str], now: int) -> Counter[str]:
    """Look at these, and tell what is missing; how much of each kind."""
    there = await checkins.held(tx, ids)
    watched = await checkins.watched(tx)
    away = away_of(watched.seen_at, watched.away, now)
    turns = [looked(one, now, away) for one in there]
    await checkins.stand(tx, [turn.check for turn in turns])
    return await tell(tx, now, [(turn.check, turn.events) for turn in turns])


async def tell(tx: Transaction, now: int, turns: Iterable[tuple[Check, Iterable[Event]]]) -> Counter[str]:
    """Tell what became of these; how much of each kind."""
    told, counts = Told(now), Counter[str]()
    for check, events in turns:
        for kind, data in events:
            told.add(check.tenant, kind, wire(checkins.PREFIX, check.id), **data)
            counts[kind] += 1
    await told.write(tx)
    return counts


async def hear(tx: Transaction, arrivals: Sequence[Arrival]) -> list[Counter[str] | None]:
    """Take pings in, in the order of their coming; what each has told, None if nobody is pinged by it."""
    checks = {one.ping_hash: one for one in await checkins.held_by_ping(tx, (one.ping_hash for one in arrivals))}
    if not checks:
        return [None] * len(arrivals)
    watched = await checkins.watched(tx)
    results: list[Counter[str] | None] = []
    turns: list[tuple[Check, tuple[Event, ...]]] = []
    pings: list[Ping] = []
    now = max(one.said.at for one in arrivals)
    for one in arrivals:
        check = checks.get(one.ping_hash)
        if check is None:
            results.append(None)
            continue
        turn = pinged(check, one.said, away_of(watched.seen_at, watched.away, one.said.at))
        checks[one.ping_hash] = turn.check
        turns.append((turn.check, turn.events))
        results.append(Counter(kind for kind, _ in turn.events))
        pings.append(_kept(turn.check, one, turn.duration_ms))
    await checkins.stand(tx, checks.values())
    await checkins.keep(tx, pings)
    await tell(tx, now, turns)
    return results


HEAR = Batch("ping", Lane.CREATE, hear)


def _kept(check: Check, one: Arrival, duration_ms: int | None) -> Ping:
    return Ping(
        check_id=check.id,
        number=check.pings,
        at=check.last_ping_at or one.said.at,
        kind=one.said.kind,
        method=one.method,
        exit_code=one.said.exit_code,
        run=one.said.run,
        duration_ms=duration_ms,
        source=one.source,
        agent=one.agent,
        body=one.body,
        body_bytes=one.body_bytes,
    )
