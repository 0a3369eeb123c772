"""Lanes, the tenants that they belong to, and the lines in which they wait before a full gate.

Heaps and orders here are lazy: what is no longer true stays in them until it comes to the top or until it outweighs
what is. An item of a lane is live while the queue's index still holds it, by its ticket; a lane's place
among its tenant's lanes or in a line is live while the lane holds that place's ticket. The deadline
beside a place is that of the lane's first entry or earlier, never later.
"""

from heapq import heapify, heappop, heappush, heapreplace

from tasktick.ready.deadline import Entry
from tasktick.ready.fair import FairShare
from tasktick.ready.limits import Gate, Gates
from tasktick.ready.order import Order

# Virtual deadline and ticket order it; the ticket keeps equals in the order of their coming.
Item = tuple[int, int, Entry]
Index = dict[str, Item]
LaneKey = tuple[str, str, str]
SLACK = 16


def is_live(item: Item, index: Index) -> bool:
    """Whether the index still holds this very item: a task that went and came back has another ticket."""
    held = index.get(item[2].id)
    return held is not None and held[1] == item[1]


class Lane:
    """What one tenant has in one queue for one host.

    It is filed among its tenant's lanes (`filed`), or waits in a gate's line (`waits_on`), or rests: it
    has then nothing but entries whose `wake_at` is still to come. `called_by` is the gate that woke it,
    until it has been looked at.
    """

    __slots__ = ("called_by", "count", "filed", "gates", "items", "key", "ticket", "waits_on")

    def __init__(self, key: LaneKey, gates: Gates) -> None:
        self.key = key
        self.gates = gates
        self.items: Order[Item] = Order()
        self.count = 0
        self.ticket = 0
        self.filed = False
        self.waits_on: Gate | None = None
        self.called_by: Gate | None = None

    @property
    def tenant(self) -> str:
        """Whose lane it is."""
        return self.key[0]

    def first(self, index: Index) -> Item | None:
        """The live item with the earliest virtual deadline."""
        items = self.items
        while (item := items.first()) is not None and not is_live(item, index):
            items.pop()
        return item

    @property
    def room(self) -> int:
        """How many of its entries its gates let through."""
        return min(gate.cap - gate.in_flight for gate in self.gates)

    def full_gate(self) -> Gate | None:
        """The first of its gates that is full, the widest first."""
        tenant, queue, host = self.gates
        if tenant.in_flight >= tenant.cap:
            return tenant
        if queue.in_flight >= queue.cap:
            return queue
        if host.in_flight >= host.cap:
            return host
        return None

    def shed(self, index: Index) -> None:
        """Drop dead items when they outweigh the live ones."""
        if len(self.items) > 2 * self.count + SLACK:
            self.items.keep(lambda item: is_live(item, index))


Place = tuple[int, int, Lane]


class Places:
    """Lanes by the virtual deadline of their first entries."""

    __slots__ = ("heap", "live")

    def __init__(self) -> None:
        self.heap: list[Place] = []
        self.live = 0

    def add(self, lane: Lane, deadline: int) -> None:
        """Give the lane a place; a place that it had is dead by its new ticket."""
        heappush(self.heap, (deadline, lane.ticket, lane))
        if len(self.heap) > 2 * self.live + SLACK:
            self.heap = [place for place in self.heap if place[2].ticket == place[1]]
            heapify(self.heap)

    def first(self) -> Place | None:
        """The live place with the earliest deadline."""
        heap = self.heap
        while heap:
            place = heap[0]
            if place[2].ticket == place[1]:
                return place
            heappop(heap)
        return None


class Tenant(Places):
    """A tenant's filed lanes, and how many lanes it has in all."""

    __slots__ = ("lanes",)

    def __init__(self) -> None:
        super().__init__()
        self.lanes = 0


class Stand(Places):
    """A tenant's lanes in a line, and where it stands there itself."""

    __slots__ = ("ticket",)

    def __init__(self) -> None:
        super().__init__()
        # That of its place in line; 0 while it has stepped out.
        self.ticket = 0


class Line:
    """The lanes that wait before one full gate: by their tenants' tags, then by virtual deadline.

    A tenant stands in line once, however many of its lanes wait, so that a thousand lanes of one tenant
    cost no more than one when its tag moves on. When a lane of it is called, the tenant steps out until
    that lane has been looked at: what the lane takes moves the tag, and the next slot is decided by that.
    """

    __slots__ = ("_order", "_out", "_standing", "_tenants", "_ticket")

    def __init__(self) -> None:
        self._tenants: dict[str, Stand] = {}
        # (tag, ticket, tenant); live when the tenant's stand has that ticket.
        self._order: list[tuple[int, int, str]] = []
        self._standing = 0
        # Tenants that stepped out and still have lanes here.
        self._out: dict[str, None] = {}
        self._ticket = 0

    def add(self, lane: Lane, deadline: int, fair: FairShare) -> None:
        """The lane waits here, or waits for something more urgent than before."""
        tenant = lane.tenant
        stand = self._tenants.get(tenant)
        if stand is None:
            stand = self._tenants[tenant] = Stand()
            self._stand(stand, tenant, fair)
        if lane.waits_on is None:
            stand.live += 1
        stand.add(lane, deadline)

    def drop(self, lane: Lane) -> None:
        """The lane waits here no more; its place is dead once its ticket changes."""
        tenant = lane.tenant
        stand = self._tenants[tenant]
        stand.live -= 1
        if not stand.live:
            del self._tenants[tenant]
            if stand.ticket:
                self._standing -= 1
            else:
                del self._out[tenant]

    def call(self, tenant: str) -> None:
        """A lane of the tenant was woken: no second one until that one has answered."""
        stand = self._tenants.get(tenant)
        if stand is not None and stand.ticket:
            stand.ticket = 0
            self._standing -= 1
            self._out[tenant] = None

    def answer(self, tenant: str, fair: FairShare) -> None:
        """A woken lane of the tenant has been looked at."""
        if tenant in self._out:
            del self._out[tenant]
            self._stand(self._tenants[tenant], tenant, fair)

    def next(self, index: Index, fair: FairShare) -> Lane | None:
        """The lane that a free slot is for; it stays in line until it is dropped."""
        while self._order:
            tag, ticket, tenant = self._order[0]
            stand = self._tenants.get(tenant)
            if stand is None or stand.ticket != ticket:
                heappop(self._order)
                continue
            # A tag only grows: one that did since is put where it belongs now.
            present = fair.tag_of(tenant)
            if present is not None and present > tag:
                self._standing -= 1
                self._stand(stand, tenant, fair)
                continue
            return self._first(stand, index)
        return None

    def overtaken(self, index: Index) -> list[Lane]:
        """The first lane of each tenant that stepped out: it may be more urgent than the one that was woken."""
        return [self.first_of(tenant, index) for tenant in self._out]

    def first_of(self, tenant: str, index: Index) -> Lane:
        """The tenant's most urgent lane in this line, of which there is one; it stays until it is dropped."""
        return self._first(self._tenants[tenant], index)

    def _first(self, stand: Stand, index: Index) -> Lane:
        while True:
            place = stand.first()
            assert place is not None
            deadline, _, lane = place
            item = lane.first(index)
            if item is None or item[0] == deadline:
                return lane
            heapreplace(stand.heap, (item[0], lane.ticket, lane))

    def _stand(self, stand: Stand, tenant: str, fair: FairShare) -> None:
        """Give it a place; it has none, or one that counts no more."""
        tag = fair.tag_of(tenant)
        self._ticket += 1
        stand.ticket = self._ticket
        self._standing += 1
        heappush(self._order, (fair.virtual_time if tag is None else tag, stand.ticket, tenant))
        if len(self._order) > 2 * self._standing + SLACK:
            self._order = [place for place in self._order if self._holds(place)]
            heapify(self._order)

    def _holds(self, place: tuple[int, int, str]) -> bool:
        stand = self._tenants.get(place[2])
        return stand is not None and stand.ticket == place[1]
