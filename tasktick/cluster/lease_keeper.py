"""Keeps this node's term alive, and its partitions where placement puts them.

One renewal each third of the TTL; with it comes the whole view of nodes and leases, from which `handover` plans what
to ask for, to take and to give up. What a renewal does not return is lost at once. A renewal that fails changes
nothing until the trust window ends; from then on this node owns nothing, and says so.
"""

import asyncio
from collections.abc import Callable, Sequence

from tasktick import logs
from tasktick.clock import Clock
from tasktick.cluster.handover import Plan, plan
from tasktick.cluster.ownership import Ownership
from tasktick.errors import StoreBroken, StoreError
from tasktick.metrics import Metrics
from tasktick.store import leases
from tasktick.store.leases import Start, View
from tasktick.store.protocol import Lane, Writer

log = logs.get("cluster")

RENEWALS_PER_TTL = 3
# While partitions are on their way, how things stand is looked at so often.
MOVING_MS = 200


class LeaseKeeper:
    """The loop that renews, takes and hands over."""

    name = "lease_keeper"

    def __init__(
        self,
        clock: Clock,
        writer: Writer,
        start: Start,
        ownership: Ownership,
        metrics: Metrics,
        *,
        margin_ms: int,
        gained: Callable[[Sequence[int]], None] = lambda partitions: None,
    ) -> None:
        assert start.ttl_ms is not None, "who shares a store has a term that ends"
        self.wake = asyncio.Event()
        self._clock = clock
        self._writer = writer
        self._start = start
        self._ttl_ms = start.ttl_ms
        self._margin_ms = margin_ms
        self._ownership = ownership
        self._metrics = metrics
        self._gained = gained
        self._beat = 0
        self._leaving = False
        self.view: View | None = None

    async def join(self) -> None:
        """Begin the term; what is free and ours is taken with the first renewals."""
        now = self._clock.now_ms()
        await self._writer.write(lambda tx: leases.join(tx, self._start, now), Lane.FIRE)

    async def leave(self) -> None:
        """Give everything up, for good; the term goes on, since what is in flight still has its end to come."""
        self._leaving = True
        me, now = self._start.incarnation, self._clock.now_ms()
        self._ownership.lose_all()
        await self._writer.write(lambda tx: leases.leave(tx, me, now), Lane.FIRE)

    async def step(self) -> float:
        """Renew, and move what is to move; how long to rest."""
        asked_ms = self._clock.monotonic_ms()
        try:
            view = await self._renew()
        except StoreBroken:
            raise
        except StoreError as error:
            self._metrics.events["lease_renewal_failed"] += 1
            log.warning("lease_renewal_failed", error=str(error), trusted=self._ownership.is_trusted)
            return self._rest_ms(asked_ms) / RENEWALS_PER_TTL
        if view is None:
            self._ownership.lose_all()
            raise StoreBroken(
                "This node's term is not the one that it renewed last: the store's history has regressed."
            )
        if self._leaving:
            return self._rest_ms(asked_ms)
        # Counted from before the renewal was issued: what the database allows from its commit on, we end sooner.
        self._ownership.trust(asked_ms + self._ttl_ms - self._margin_ms)
        self._see(view)
        moving = await self._move(plan(view.nodes, view.leases, self._start.incarnation, view.now, self._ttl_ms))
        return min(MOVING_MS, self._rest_ms(asked_ms)) if moving else self._rest_ms(asked_ms)

    def _waits(self) -> bool:
        """Whether another has been asked for something that it still has."""
        view = self.view
        return view is not None and any(lease.wanted_by == self._start.incarnation for lease in view.leases)

    def _rest_ms(self, asked_ms: float) -> float:
        return max(0.0, self._ttl_ms / RENEWALS_PER_TTL - (self._clock.monotonic_ms() - asked_ms))

    async def _renew(self) -> View | None:
        incarnation, now = self._start.incarnation, self._clock.now_ms()
        view = await self._writer.write(
            lambda tx: leases.renew(tx, incarnation, self._beat, self._ttl_ms, now), Lane.FIRE
        )
        if view is not None:
            self._beat += 1
        return view

    def _see(self, view: View) -> None:
        self.view = view
        mine = {lease.partition: lease.epoch for lease in view.leases if lease.incarnation == self._start.incarnation}
        before = len(self._ownership.epochs)
        self._took(self._ownership.reconcile(mine, view.now))
        if len(mine) < before:
            log.warning("partitions_lost", partitions=before - len(mine))

    def _took(self, gained: Sequence[int]) -> None:
        if gained:
            self._metrics.events["partition_gained"] += len(gained)
            log.info("partitions_gained", partitions=len(gained))
            self._gained(gained)

    async def _move(self, todo: Plan) -> bool:
        """Carry out a plan; whether something is on its way."""
        me, now = self._start.incarnation, self._clock.now_ms()
        if todo.withdraw:
            await self._writer.write(lambda tx: leases.withdraw(tx, me, todo.withdraw), Lane.FIRE)
        if todo.request:
            await self._writer.write(lambda tx: leases.request(tx, me, todo.request), Lane.FIRE)
        given = [one.partition for one in todo.hand_over]
        if given:
            # Nothing more is claimed; what is in flight ends under its own fence, whoever owns the partition then.
            self._ownership.give_up(given)
            await self._writer.write(lambda tx: leases.release(tx, me, given, now), Lane.FIRE)
            self._metrics.events["partition_handed_over"] += len(given)
            log.info("partitions_handed_over", partitions=len(given))
        if todo.acquire:
            epochs = await self._writer.write(lambda tx: leases.acquire(tx, me, now, todo.acquire), Lane.FIRE)
            self._took(self._ownership.reconcile(epochs, now))
        return bool(todo.request or given or todo.acquire) or self._waits()
