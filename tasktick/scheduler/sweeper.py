"""Takes up what was lost, and ends what is too late: attempts past their lease, tasks past their time to start.

An attempt in its own node's hands is never touched: there the local deadline alone ends it.

A look takes what has passed since the one before, and some time more; some looks take all, and are the guarantee.
One that found a page full has not come to its end: it goes on from where it began.
Where a snapshot is held open, to look for all is to walk past everything that was ever running since.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from tasktick import logs
from tasktick.clock import Clock
from tasktick.errors import StoreUnavailable
from tasktick.metrics import Metrics
from tasktick.model import change
from tasktick.model.attempt import End, interrupt
from tasktick.model.ids import wire
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import Claimed, TaskState
from tasktick.scheduler.intake import Intake
from tasktick.store import claims, endings, lateness, tasks
from tasktick.store import due as due_store
from tasktick.store.due import BEGINNING
from tasktick.store.protocol import Batch, Database, Lane, Transaction

log = logs.get("scheduler")

ROWS_MAX = 500
LOOK_BACK_MS = 30_000
ALL_EVERY_MS = 10_000


class Rescue(msgspec.Struct, frozen=True):
    """What ending somebody else's attempt takes."""

    end_batch: Batch
    node: str
    random: Random
    in_hand: Callable[[], Sequence[str]]
    owned: Callable[[], list[str] | None] = lambda: None
    """The partitions to look into; None is all."""
    is_time_settled: Callable[[], bool] = lambda: True
    """Whether the end of a lease may be believed in."""
    held_by: Callable[[str], str | None] = lambda task_id: None
    """What a task of this node waits for, if it waits for anything but its turn."""


class Sweeper:
    """The loop that looks for what nobody ends."""

    name = "sweeper"

    def __init__(
        self,
        clock: Clock,
        database: Database,
        intake: Intake,
        metrics: Metrics,
        rescue: Rescue,
        every_ms: int,
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._database = database
        self._intake = intake
        self._metrics = metrics
        self._rescue = rescue
        self._every_ms = every_ms
        self._owned = rescue.owned
        self._orphans_may_be = False
        self._looked_at: int | None = None
        self._all_at_ms: float | None = None
        # Whether this look has found more than it takes at once.
        self._is_full = False

    def look_for_orphans(self) -> None:
        """Somebody may be dead for certain, or partitions of one have come: look before leases pass."""
        self._orphans_may_be = True
        self._all_at_ms = None
        self.wake.set()

    async def step(self) -> float:
        """One round; no rest while there is more."""
        try:
            await self._rescue_hinted()
            now, since = self._clock.now_ms(), self._since()
            self._is_full = False
            lost = await self.rescue(since)
            late = await self.tell_late()  # before those that expire: they were late first
            expired = await self.expire(since)
        except StoreUnavailable:
            return self._every_ms
        if not self._is_full:
            self._looked(now, since)
            return self._every_ms
        # Where all of a page is stale or refused, to look again at once is of no use.
        return 0 if max(lost, late, expired) else self._every_ms

    def _found(self, rows: int) -> None:
        """So many were found: as many as are looked at in one go, or fewer."""
        self._is_full = self._is_full or rows >= ROWS_MAX

    def _since(self) -> int:
        """From where the next look is to begin."""
        if self._looked_at is None or self._all_at_ms is None:
            return BEGINNING
        if self._clock.monotonic_ms() - self._all_at_ms >= ALL_EVERY_MS:
            return BEGINNING
        return min(self._looked_at, self._clock.now_ms()) - LOOK_BACK_MS

    def _looked(self, now: int, since: int) -> None:
        """A look from there has come to its end; where the time is not to be believed in, it was none."""
        if not self._rescue.is_time_settled():
            self._looked_at = None
            return
        self._looked_at = now
        if since == BEGINNING:
            self._all_at_ms = self._clock.monotonic_ms()

    async def _rescue_hinted(self) -> None:
        if self._orphans_may_be:
            await self.rescue_orphans()
            self._orphans_may_be = False

    async def rescue_orphans(self) -> int:
        """At the start: every attempt of a process that is proven dead; how many."""
        total = 0
        while rows := await self._database.near.read(lambda tx: claims.orphans(tx, ROWS_MAX, self._owned())):
            ended = await self._interrupt(rows, lost=False)
            total += ended
            if not ended:  # what cannot be ended now must not keep the others from starting
                log.error("orphans_left", attempts=len(rows))
                break
        return total

    async def rescue(self, since: int = BEGINNING) -> int:
        """Attempts whose lease has passed after this; how many were ended."""
        if not self._rescue.is_time_settled():
            return 0
        now, own, owned = self._clock.now_ms(), list(self._rescue.in_hand()), self._owned()
        rows = await self._database.near.read(lambda tx: claims.expired_leases(tx, now, own, ROWS_MAX, owned, since))
        self._found(len(rows))
        return await self._interrupt(rows, lost=True) if rows else 0

    async def _interrupt(self, rows: list[Claimed], *, lost: bool) -> int:
        ids = [row.id for row in rows]
        stored = await self._database.near.read(lambda tx: tasks.latest_payloads(tx, ids))
        policies = {one.owner_id: one.payload.retry for one in stored}
        now = self._clock.now_ms()
        ends = [
            interrupt(row, policies.get(row.id, RetryPolicy()), self._rescue.node, now, self._rescue.random, lost=lost)
            for row in rows
        ]
        results = await self._database.write_batch(self._rescue.end_batch, ends)
        ended = self._report(ends, results)
        states = await self._database.near.read(lambda tx: tasks.states(tx, ids))
        self._intake.written(states)
        return ended

    def _report(self, ends: list[End], results: list[object]) -> int:
        """Say what was interrupted; how many that were."""
        ended = 0
        for end, result in zip(ends, results, strict=True):
            state = result.state if isinstance(result, endings.Ended) else None
            if state is None:
                self._metrics.events["stale_write"] += 1
                continue
            ended += 1
            self._metrics.attempts[end.attempt.state if end.attempt else "released"] += 1
            log.warning(
                "attempt_interrupted",
                task=wire("tsk", end.claimed.id),
                attempt=end.claimed.attempt,
                state=State(state).word,
                reason=end.reason,
            )
        return ended

    async def tell_late(self) -> int:
        """Fires that have not begun within their `sla`, whatever holds them; how many were told of."""
        now, owned = self._clock.now_ms(), self._owned()
        ids = await self._database.near.read(lambda tx: lateness.find(tx, now, ROWS_MAX, owned))
        self._found(len(ids))
        if not ids:
            return 0
        held_by = {one: self._rescue.held_by(one) for one in ids}
        told = await self._database.write(lambda tx: lateness.tell(tx, ids, now, held_by), Lane.UPKEEP)
        self._metrics.events["schedule_late"] += told
        if told:
            log.warning("fires_late", fires=told)
        return told

    async def expire(self, since: int = BEGINNING) -> int:
        """Tasks that were to start by a time that has passed after this; how many have expired."""
        now, owned = self._clock.now_ms(), self._owned()
        late = await self._database.near.read(lambda tx: due_store.expired(tx, now, ROWS_MAX, owned, since))
        self._found(len(late))
        if not late:
            return 0

        async def operation(tx: Transaction) -> list[TaskState]:
            changes = [change.expire(state, now) for state in late]
            done = set(await tasks.change(tx, changes))
            return [one.after for one in changes if one.after.id in done]

        expired = await self._database.write(operation, Lane.UPKEEP)
        self._intake.written(expired)
        self._metrics.events["task_expired"] += len(expired)
        return len(expired)
