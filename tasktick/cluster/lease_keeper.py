"""Keeps this node's term alive, and its partitions where placement puts them.

One renewal each third of the TTL; with it comes the whole view of nodes and leases, from which `handover` plans what
to ask for, to take and to give up. What a renewal does not return is lost at once. A renewal that fails changes
nothing until the trust window ends; from then on this node owns nothing, and says so. Another's term that is about
to end is looked at again when it does, so that nobody waits for the next third.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from tasktick import logs
from tasktick.clock import Clock, StoreClock
from tasktick.cluster.effects import Happening
from tasktick.cluster.handover import Plan, plan
from tasktick.cluster.ownership import Ownership
from tasktick.cluster.ring import lingering, live, namesake, placement
from tasktick.errors import StoreBroken, StoreError
from tasktick.metrics import Metrics
from tasktick.model.partition import Lease, NodeRow
from tasktick.outage import Outage
from tasktick.store import leases
from tasktick.store.leases import Bearing, Start, View
from tasktick.store.protocol import Lane, Transaction, Writer

log = logs.get("cluster")

RENEWALS_PER_TTL = 3
# While partitions are on their way, how things stand is looked at so often.
MOVING_MS = 200
# However many hints come in, there is so much between two looks.
BETWEEN_LOOKS_MS = 50.0
# After another's term has ended, and its end is past on the database's clock for certain.
PAST_END_MS = 5
# The store's clock was set: for one TTL nobody's end is believed in.
STEP_MOST_MS = 1_000


class Store(Writer, Protocol):
    """Where the leases are."""

    @property
    def term(self) -> Writer:
        """A way of its own, for renewals."""
        ...


class Onlooker(Protocol):
    """Who is told what the keeper sees and does. All of it returns at once."""

    def seen(self, view: View) -> None:
        """How things stand now."""
        ...

    def gained(self, partitions: Sequence[int]) -> None:
        """These have become this node's."""
        ...

    def left_to(self, incarnation: str, partitions: Sequence[int]) -> None:
        """Something about these is now for that node to do."""
        ...

    def forgotten(self) -> str:
        """The store has forgotten this incarnation; the one to go on as."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """What a renewal brought, the store's time, and when it was asked for that."""

    view: View
    told_ms: float
    asked_ms: float
    replied_ms: float


class LeaseKeeper:
    """The loop that renews, takes and hands over. Renewals go by a way of their own."""

    name = "lease_keeper"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        start: Start,
        ownership: Ownership,
        metrics: Metrics,
        onlooker: Onlooker,
        *,
        margin_ms: int,
    ) -> None:
        assert start.ttl_ms is not None, "who shares a store has a term that ends"
        self.wake = asyncio.Event()
        self._clock = clock
        self._writer = store
        self._start = start
        self._ttl_ms = start.ttl_ms
        self._margin_ms = margin_ms
        self._ownership = ownership
        self._metrics = metrics
        self._onlooker = onlooker
        self._term = store.term
        self._timeline = ""
        # The highest that was seen, by partition.
        self._epochs: dict[int, int] = {}
        self._stepped_until_ms = 0.0
        self._looked_ms = float("-inf")
        self._leaving = False
        self._namesake: str | None = None
        # The ends of terms of those who had this name before, as they were seen first.
        self._terms: dict[str, int] = {}
        self._outage = Outage(
            clock, partial(log.warning, "lease_renewal_failed"), partial(log.info, "lease_renewed_again")
        )
        self.view: View | None = None

    async def join(self) -> None:
        """Begin the term; what is free and ours is taken with the first renewals."""
        now = self._clock.now_ms()
        # Only where something is locked is there anything to prove.
        begin = leases.start_node if self._start.home else leases.join
        await self._writer.write(lambda tx: begin(tx, self._start, now), Lane.FIRE)

    @property
    def is_time_settled(self) -> bool:
        """Whether the store's clock has not lately been set."""
        return self._clock.monotonic_ms() >= self._stepped_until_ms

    def doubt(self) -> None:
        """A connection was lost. Nothing is claimed before the store has shown that it still is what it was."""
        self._ownership.doubt()
        self.wake.set()

    async def leave(self) -> None:
        """Give everything up, for good; the term goes on, since what is in flight still has its end to come."""
        self._leaving = True
        me, now = self._start.incarnation, self._clock.now_ms()
        had = set(self._ownership.epochs)
        self._ownership.lose_all()
        await self._writer.write(lambda tx: leases.leave(tx, me, now), Lane.FIRE)
        self._pass_on_to_others(had)

    def _pass_on_to_others(self, had: Collection[int]) -> None:
        """Tell those whose they are now of these."""
        if self.view is not None:
            others = [node for node in self.view.nodes if node.incarnation != self._start.incarnation]
            self._pass_on((heir, one) for one, heir in placement(others, self.view.now).items() if one in had)

    async def end(self) -> None:
        """End the term: nothing of this incarnation is to come any more."""
        me, now = self._start.incarnation, self._clock.now_ms()
        await self._writer.write(lambda tx: leases.end_node(tx, me, now), Lane.FIRE)

    async def step(self) -> float:
        """Renew, and move what is to move; how long to rest."""
        asked_ms = self._clock.monotonic_ms()
        too_soon_ms = self._looked_ms + BETWEEN_LOOKS_MS - asked_ms
        if too_soon_ms > 0:
            return max(too_soon_ms, 1.0)
        self._looked_ms = asked_ms
        try:
            return await self._look(asked_ms)
        except StoreBroken:
            raise
        except StoreError as error:
            self._metrics.events["lease_renewal_failed"] += 1
            trusted = self._ownership.is_trusted
            self._outage.failed(str(error), state=trusted, trusted=trusted)
            return self._rest_ms(asked_ms) / RENEWALS_PER_TTL

    async def _look(self, asked_ms: float) -> float:
        answer = await self._renew()
        if answer is None or self._has_regressed(answer.view):
            return await self._begin_anew()
        view = answer.view
        self._outage.over()
        self._ownership.beat += 1
        self._tell_time(answer)
        self._see(view, asked_ms)
        if self._leaving:
            return self._rest_ms(asked_ms)
        moving = await self._move(plan(view.nodes, view.leases, self._start.incarnation, view.now, self._ttl_ms))
        rest_ms = self._rest_ms(asked_ms)
        return min(MOVING_MS, rest_ms) if moving else min(rest_ms, self._first_end_ms(view))

    def _waits(self) -> bool:
        """Whether another has been asked for something that it still has."""
        view = self.view
        return view is not None and any(lease.wanted_by == self._start.incarnation for lease in view.leases)

    def _rest_ms(self, asked_ms: float) -> float:
        return max(0.0, self._ttl_ms / RENEWALS_PER_TTL - (self._clock.monotonic_ms() - asked_ms))

    def _first_end_ms(self, view: View) -> float:
        """How long until the first term of another ends, unless it is renewed."""
        me = self._start.incarnation
        others = (node for node in live(view.nodes, view.now).values() if node.incarnation != me)
        return min((node.expires_at for node in others), default=view.now + self._ttl_ms) - view.now + PAST_END_MS

    async def _renew(self) -> Answer | None:
        incarnation, now, beat, clock = self._start.incarnation, self._clock.now_ms(), self._ownership.beat, self._clock
        offset_ms = clock.offset_ms if isinstance(clock, StoreClock) else None
        bearing = Bearing(offset_ms, self._metrics.events["history_regressed"])

        async def operation(tx: Transaction) -> Answer | None:
            if not await leases.renew(tx, incarnation, beat, self._ttl_ms, now, bearing):
                return None
            asked_ms = clock.monotonic_ms()
            told = await leases.time(tx, now)
            replied_ms = clock.monotonic_ms()
            return Answer(await leases.view_of_renewed(tx, int(told)), told, asked_ms, replied_ms)

        return await self._term.write(operation, Lane.FIRE)

    def _tell_time(self, answer: Answer) -> None:
        if not isinstance(self._clock, StoreClock):
            return
        step_ms = self._clock.learn(answer.told_ms, answer.asked_ms, answer.replied_ms)
        if abs(step_ms) > STEP_MOST_MS:
            self._stepped_until_ms = self._clock.monotonic_ms() + self._ttl_ms
            self._metrics.events["store_clock_stepped"] += 1
            log.warning("store_clock_stepped", step_ms=round(step_ms), waits_ms=self._ttl_ms)

    def _has_regressed(self, view: View) -> bool:
        """Whether something is missing that was there. Where our last beat is, all is that was before it."""
        if view.timeline != self._timeline:
            if self._timeline:
                self._metrics.events["timeline_changed"] += 1
                log.warning("timeline_changed", before=self._timeline, now=view.timeline)
            self._timeline = view.timeline
        before, self._epochs = self._epochs, {lease.partition: lease.epoch for lease in view.leases}
        return any(epoch < before.get(partition, 0) for partition, epoch in self._epochs.items())

    async def _begin_anew(self) -> float:
        """The store has forgotten what it had said: own nothing of what it said, and go on as somebody new.

        What this process is sending is still being sent, so nothing says that it is dead: others leave it alone.
        """
        before, now = self._start.incarnation, self._clock.now_ms()
        start = msgspec.structs.replace(self._start, incarnation=self._onlooker.forgotten())
        self._ownership.lose_all()
        self._metrics.events["history_regressed"] += 1
        log.error(
            "history_regressed",
            before=before,
            now=start.incarnation,
            advice="the store is not what it was (a failover, or a backup in its place): what it acknowledged last may "
            "be missing",
        )
        await self._term.write(lambda tx: leases.begin_anew(tx, before, start, now), Lane.FIRE)
        self._start = start
        self._epochs = {}
        self._ownership.begin_anew(start.incarnation)
        return BETWEEN_LOOKS_MS

    def _see(self, view: View, asked_ms: float) -> None:
        self.view = view
        self._onlooker.seen(view)
        if self._leaving:
            return
        self._warn_of_namesake(view)
        was_doubted = self._ownership.is_doubted
        if not self._ownership.is_in_window:
            # What became due meanwhile was left alone by this node, and is to be read: all of it is new to it.
            self._ownership.lose_all()
        # Counted from before the renewal was issued: what the database allows from its commit on, we end sooner.
        self._ownership.trust(asked_ms + self._ttl_ms - self._margin_ms, asked_ms)
        if was_doubted and not self._ownership.is_doubted:
            self._onlooker.gained(())
        mine = {lease.partition: lease.epoch for lease in view.leases if lease.incarnation == self._start.incarnation}
        lost = set(self._ownership.epochs) - set(mine)
        self._took(self._ownership.reconcile(mine, view.now))
        if lost:
            self._metrics.events["partition_lost"] += len(lost)
            log.warning("partitions_lost", partitions=len(lost))

    def _warn_of_namesake(self, view: View) -> None:
        """Say once that another lives under the name of this node: nobody may be told by gossip."""
        later = namesake(view.nodes, self._start.incarnation, view.now)
        other = later or self._revived(view)
        before, self._namesake = self._namesake, None if other is None else other.incarnation
        if other is not None and other.incarnation != before:
            self._metrics.events[Happening.CONFLICT] += 1
            log.warning(
                "node_name_conflict",
                node=other.name,
                other=other.incarnation,
                address=other.address,
                owns="the other" if later else "this one",
                advice="another node lives under this name, and only the later one owns anything: give each its own "
                "name with --node",
            )

    def _revived(self, view: View) -> NodeRow | None:
        """Who had this name before and has renewed its term since: it is not one that has died and been restarted."""
        seen = {node.incarnation: node for node in lingering(view.nodes, self._start.incarnation, view.now)}
        self._terms = {one: self._terms.get(one, node.expires_at) for one, node in seen.items()}
        return next((node for one, node in seen.items() if node.expires_at > self._terms[one]), None)

    def _took(self, gained: Sequence[int]) -> None:
        if gained:
            self._metrics.events["partition_gained"] += len(gained)
            log.info("partitions_gained", partitions=len(gained))
            self._onlooker.gained(gained)

    def _pass_on(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Tell each of these nodes of its partitions."""
        told: dict[str, list[int]] = {}
        for incarnation, partition in pairs:
            told.setdefault(incarnation, []).append(partition)
        for incarnation, partitions in told.items():
            self._onlooker.left_to(incarnation, partitions)

    async def _move(self, todo: Plan) -> bool:
        """Carry out a plan; whether something is on its way."""
        me, now = self._start.incarnation, self._clock.now_ms()
        if todo.withdraw:
            await self._writer.write(lambda tx: leases.withdraw(tx, me, todo.withdraw), Lane.FIRE)
        if todo.request:
            await self._writer.write(lambda tx: leases.request(tx, me, todo.request), Lane.FIRE)
            self._pass_on(self._holders(todo.request))
        given = [one.partition for one in todo.hand_over]
        if given:
            # Nothing more is claimed; what is in flight ends under its own fence, whoever owns the partition then.
            self._ownership.give_up(given)
            await self._writer.write(lambda tx: leases.release(tx, me, given, now), Lane.FIRE)
            self._pass_on((one.to, one.partition) for one in todo.hand_over)
            self._metrics.events["partition_handed_over"] += len(given)
            log.info("partitions_handed_over", partitions=len(given))
        if todo.acquire and not self._leaving and self.is_time_settled:
            await self._acquire(todo.acquire)
        return bool(todo.request or given or todo.acquire) or self._waits()

    async def _acquire(self, partitions: Sequence[int]) -> None:
        me, now = self._start.incarnation, self._clock.now_ms()
        epochs = await self._writer.write(lambda tx: leases.acquire(tx, me, now, partitions), Lane.FIRE)
        if self._leaving:
            # It began to leave while this was under way; what it gave back may not have been all: this is the rest.
            await self._writer.write(lambda tx: leases.release(tx, me, list(epochs), now), Lane.FIRE)
            self._pass_on_to_others(epochs)
        else:
            self._took(self._ownership.reconcile(epochs, now))

    def _holders(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        rows: dict[int, Lease] = {} if self.view is None else {lease.partition: lease for lease in self.view.leases}
        found = ((rows[one].incarnation, one) for one in partitions if one in rows)
        return [(holder, one) for holder, one in found if holder is not None]
