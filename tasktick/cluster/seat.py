"""A node's seat in the ring: its term, its gossip, and the hints that pass between the two.

It begins with gossip and goes on with the term. It ends the other way round: partitions are given up and their heirs
are told, the term ends with the last attempt in flight, gossip says that it leaves, the transport closes.
What comes in by gossip makes somebody look, at the store or at the clock, and decides nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

import msgspec

from tasktick.clock import Clock
from tasktick.cluster.effects import Change, Happening
from tasktick.cluster.gossip import Gossip
from tasktick.cluster.lease_keeper import LeaseKeeper, Store
from tasktick.cluster.membership import Membership
from tasktick.cluster.messages import Address, DueSoon, Node, Nudge, WakeUp
from tasktick.cluster.ownership import Ownership
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import Keyring, Seal
from tasktick.cluster.transport import Door, Transport
from tasktick.metrics import Metrics
from tasktick.model.ids import partition_of
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.task import Due, Timer
from tasktick.service import Services
from tasktick.store.leases import Start, View

# Of these the database may know more, or will soon.
WORTH_A_LOOK = frozenset({Happening.JOINED, Happening.DIED, Happening.LEFT, Happening.REPLACED, Happening.UPDATED})
# A store that is away must not keep a node from ending: its term then ends by itself.
END_MS = 10_000


class Ring(msgspec.Struct, frozen=True):
    """How this node gossips: where, under which keys, and whom it asks first."""

    open: Callable[[Door], Awaitable[Transport]]
    keyring: Keyring
    seeds: tuple[Address, ...] = ()
    pace: Pace = Pace()


class Hears(msgspec.Struct, frozen=True):
    """Who is told what. None of it waits."""

    gained: Callable[[Sequence[int]], None]
    """These partitions are this node's now."""
    due_soon: Callable[[Sequence[Timer]], None]
    """Another node has written these."""
    look_again: Callable[[], None]
    """There may be something new to read."""
    forgotten: Callable[[], str]
    """The store has forgotten this incarnation; the one to go on as."""


class Seat:
    """What a node has of the ring. To its keeper and its gossip it is who hears of things."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        start: Start,
        ownership: Ownership,
        metrics: Metrics,
        hears: Hears,
        *,
        margin_ms: int,
        near_ms: int,
    ) -> None:
        self._clock = clock
        self._start = start
        self._metrics = metrics
        self._hears = hears
        self._near_ms = near_ms
        # Incarnation by partition, as the keeper saw it last.
        self._holders: Mapping[int, str] = {}
        self._ownership = ownership
        self.keeper = LeaseKeeper(
            clock,
            store,
            start,
            ownership,
            metrics,
            self,
            margin_ms=margin_ms,
        )
        self.gossip: Gossip | None = None
        metrics.gauge("gossip_members", "Other nodes that gossip holds as alive.", lambda: len(self._alive()))

    async def start(self, services: Services, ring: Ring | None, random: Random) -> None:
        """Gossip, if so set; then begin the term, and take what is free and ours."""
        if ring is not None:
            await self._start_gossip(services, ring, random)
        services.on_stop("leases", self.keeper.end, END_MS)
        await self.keeper.join()
        await self.keeper.step()
        services.run_loop(self.keeper)

    async def _start_gossip(self, services: Services, ring: Ring, random: Random) -> None:
        start = self._start
        door = Door(Seal(ring.keyring, start.incarnation), self._metrics.events)
        transport = await ring.open(door)
        services.on_stop("gossip_transport", transport.close)
        own = Node(
            start.incarnation,
            start.name,
            *transport.address,
            started_at=self._clock.now_ms(),
            api=start.address or "",
            version=start.version or "",
            tzdata=start.tzdata or "",
        )
        membership = Membership(own, ring.pace, random, self._clock.monotonic_ms(), ring.seeds)
        self.gossip = door.listener = Gossip(
            self._clock, membership, transport, services.spawn, self._metrics, self, self.changed
        )
        services.run_loop(self.gossip)
        services.on_stop("gossip_leave", self.gossip.leave)

    def _alive(self) -> dict[str, str]:
        """What gossip calls each member, by what the store calls it."""
        return {} if self.gossip is None else {one.node.owner: one.node.incarnation for one in self.gossip.alive()}

    def standings(self) -> dict[str, str] | None:
        """What gossip holds of each incarnation, this one too; None without gossip."""
        if self.gossip is None:
            return None
        return {one.node.owner: one.standing.name.lower() for one in self.gossip.membership.members}

    # ------------------------------------------------------------------------------- hints that go out

    def nudge(self, rows: Sequence[Due]) -> None:
        """Tell owners of what is due so soon that their next reading would be late for it."""
        if self.gossip is None:
            return
        until = self._clock.now_ms() + self._near_ms
        for row in rows:
            if row.wake_at <= until:
                self._hint(self._holders.get(partition_of(row.id)), DueSoon(row.id, max(row.wake_at, 0)))

    def rebalance(self) -> None:
        """Let every node look at the leases now."""
        self.keeper.wake.set()
        for incarnation in self._alive():
            self._hint(incarnation, WakeUp(ALL_PARTITIONS))

    def left_to(self, incarnation: str, partitions: Sequence[int]) -> None:
        """The keeper has done its part with these; the rest is that node's."""
        self._hint(incarnation, WakeUp(tuple(partitions)))

    def _hint(self, incarnation: str | None, nudge: Nudge) -> None:
        if self.gossip is not None and incarnation not in {None, self._ownership.incarnation}:
            assert incarnation is not None
            self.gossip.nudge(self._alive().get(incarnation, incarnation), nudge)

    # ------------------------------------------------------------------------------- what the keeper tells

    def seen(self, view: View) -> None:
        """How things stand by the database."""
        self._holders = {lease.partition: lease.incarnation for lease in view.leases if lease.incarnation is not None}
        if self.gossip is not None:
            own = next((node for node in view.nodes if node.incarnation == self._ownership.incarnation), None)
            if own is not None and own.drained != self.gossip.membership.own.drained:
                self.gossip.update(drained=own.drained)

    def gained(self, partitions: Sequence[int]) -> None:
        """These are this node's now."""
        self._hears.gained(partitions)

    def forgotten(self) -> str:
        """The store has forgotten this incarnation; the one to go on as."""
        incarnation = self._hears.forgotten()
        if self.gossip is not None:
            self.gossip.update(term=incarnation)
        return incarnation

    # ------------------------------------------------------------------------------- what gossip tells

    def changed(self, change: Change) -> None:
        """Something has happened to a member: the database may know more."""
        if change.happening in WORTH_A_LOOK:
            self.keeper.wake.set()

    def due_soon(self, tasks: Sequence[DueSoon]) -> None:
        """Another node has written these."""
        self._hears.due_soon([Timer(one.wake_at, one.task) for one in tasks])

    def wake_up(self, partitions: Sequence[int]) -> None:
        """Something is to be done about these: rows to read, or leases to take or give."""
        self.keeper.wake.set()
        if not self._ownership.epochs.keys().isdisjoint(partitions):
            self._hears.look_again()
