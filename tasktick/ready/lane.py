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


class Line:
    """The lanes that wait before one full gate: by their tenants' tags, then by virtual deadline.

    A tenant stands in line once, however many of its lanes wait, so that a thousand lanes of one tenant
    cost no more than one when its tag moves on. When a lane of it is called, the tenant steps out until
    that lane has been looked at: what the lane takes moves the tag, and the next slot is decided by that.
    """

    __slots__ = ("_order", "_out", "_standing", "_tenants", "_ticket")

    def __init__(self) -> None:
        self._tenants: dict[str, Places] = {}
        # (tag, ticket, tenant); live when `_standing` has that ticket.
        self._order: list[tuple[int, int, str]] = []
        self._standing: dict[str, int] = {}
        # Tenants that stepped out and still have lanes here.
        self._out: dict[str, None] = {}
        self._ticket = 0

    def add(self, lane: Lane, deadline: int, fair: FairShare) -> None:
        """The lane waits here, or waits for something more urgent than before."""
        places = self._tenants.get(lane.tenant)
        if places is None:
            places = self._tenants[lane.tenant] = Places()
            self._stand(lane.tenant, fair)
        if lane.waits_on is None:
            places.live += 1
        places.add(lane, deadline)

    def drop(self, lane: Lane) -> None:
        """The lane waits here no more; its place is dead once its ticket changes."""
        places = self._tenants[lane.tenant]
        places.live -= 1
        if not places.live:
            del self._tenants[lane.tenant]
            self._standing.pop(lane.tenant, None)
            self._out.pop(lane.tenant, None)

    def call(self, tenant: str) -> None:
        """A lane of the tenant was woken: no second one until that one has answered."""
        self._standing.pop(tenant, None)
        if tenant in self._tenants:
            self._out[tenant] = None

    def answer(self, tenant: str, fair: FairShare) -> None:
        """A woken lane of the tenant has been looked at."""
        self._out.pop(tenant, None)
        if tenant in self._tenants and tenant not in self._standing:
            self._stand(tenant, fair)

    def next(self, index: Index, fair: FairShare) -> Lane | None:
        """The lane that a free slot is for; it stays in line until it is dropped."""
        while self._order:
            tag, ticket, tenant = self._order[0]
            if self._standing.get(tenant) != ticket:
                heappop(self._order)
                continue
            # A tag only grows: one that did since is put where it belongs now.
            present = fair.tag_of(tenant)
            if present is not None and present > tag:
                self._stand(tenant, fair)
                continue
            return self.first_of(tenant, index)
        return None

    def overtaken(self, index: Index) -> list[Lane]:
        """The first lane of each tenant that stepped out: it may be more urgent than the one that was woken."""
        return [self.first_of(tenant, index) for tenant in self._out]

    def first_of(self, tenant: str, index: Index) -> Lane:
        """The tenant's most urgent lane in this line, of which there is one; it stays until it is dropped."""
        places = self._tenants[tenant]
        while True:
            place = places.first()
            assert place is not None
            deadline, _, lane = place
            item = lane.first(index)
            if item is None or item[0] == deadline:
                return lane
            heapreplace(places.heap, (item[0], lane.ticket, lane))

    def _stand(self, tenant: str, fair: FairShare) -> None:
        tag = fair.tag_of(tenant)
        self._ticket += 1
        self._standing[tenant] = self._ticket
        heappush(self._order, (fair.virtual_time if tag is None else tag, self._ticket, tenant))
        if len(self._order) > 2 * len(self._standing) + SLACK:
            self._order = [place for place in self._order if self._standing.get(place[2]) == place[1]]
            heapify(self._order)
