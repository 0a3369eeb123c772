"""Weighted fair choice between tenants: start-time fair queueing (Goyal, Vin and Cheng, 1996).

Each tenant has a tag, the virtual time at which its next task starts. The tenant with the least tag goes
next; a task moves its tenant's tag on by 1 / weight, and virtual time is the tag of what was taken last.
A tenant that comes back from idleness starts at the present virtual time, or at its own tag if that is
later: it gains nothing by having been away, and nothing by leaving and coming back. Tags that virtual
time has passed are forgotten, because they say nothing any more.

A tenant that has something which may be sent now is active. Who has nothing, or nothing that its limits
let through, is not, and earns no credit either.
"""

import math
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

# Virtual time is an integer, so that a year of tasks adds up exactly: one task at weight 1 is this much.
COST = 1 << 20
WEIGHT_MAX = 1_000.0


class Share:
    """What is known of a tenant that is active, or that virtual time has not passed: all in one place, as with ten
    thousand tenants each look at another place is a miss of the processor's caches."""

    __slots__ = ("cost", "resting", "tag", "ticket")

    def __init__(self, tag: int, cost: int) -> None:
        self.tag = tag
        self.cost = cost
        # That of its place among the active ones; 0 while it is none of them.
        self.ticket = 0
        # The tag under which it rests; -1 if it does not.
        self.resting = -1


class FairShare:
    """Who goes next; see the module for how."""

    __slots__ = ("_active", "_costs", "_heap", "_rested", "_shares", "_ticket", "virtual_time")

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.virtual_time = 0
        self._shares: dict[str, Share] = {}
        # Of tenants with a weight of their own.
        self._costs: dict[str, int] = {}
        # (tag, ticket, tenant); live when the tenant's share has that ticket. Tickets grow: equals take turns.
        self._heap: list[tuple[int, int, str]] = []
        self._active = 0
        self._ticket = 0
        # Inactive tenants whose tags lie ahead of virtual time: (tag, tenant), each once.
        self._rested: list[tuple[int, str]] = []
        for tenant, weight in (weights or {}).items():
            self.set_weight(tenant, weight)

    def set_weight(self, tenant: str, weight: float | None) -> None:
        """Give a tenant `weight` shares from its next task on; None is the default, one share."""
        if weight is None:
            self._costs.pop(tenant, None)
        elif math.isfinite(weight) and 1 / WEIGHT_MAX <= weight <= WEIGHT_MAX:
            self._costs[tenant] = round(COST / weight)
        else:
            raise ValueError(f"a weight is between {1 / WEIGHT_MAX} and {WEIGHT_MAX}, not {weight}")
        share = self._shares.get(tenant)
        if share is not None:
            share.cost = self._costs.get(tenant, COST)

    def activate(self, tenant: str) -> None:
        """The tenant has something that may be sent."""
        share = self._shares.get(tenant)
        if share is None:
            cost = self._costs.get(tenant, COST) if self._costs else COST
            share = self._shares[tenant] = Share(self.virtual_time, cost)
        elif share.ticket:
            return
        elif share.tag < self.virtual_time:
            share.tag = self.virtual_time
        self._active += 1
        self._ticket += 1
        share.ticket = self._ticket
        heappush(self._heap, (share.tag, share.ticket, tenant))
        if len(self._heap) > 2 * self._active + 16:
            self._heap = [item for item in self._heap if self._holds(item)]
            heapify(self._heap)

    def deactivate(self, tenant: str) -> None:
        """The tenant has nothing more that may be sent."""
        share = self._shares.get(tenant)
        if share is None or not share.ticket:
            return
        share.ticket = 0
        self._active -= 1
        if share.tag <= self.virtual_time:
            del self._shares[tenant]
        elif share.resting != share.tag:
            share.resting = share.tag
            heappush(self._rested, (share.tag, tenant))

    def choose(self) -> str | None:
        """The active tenant whose turn it is."""
        heap = self._heap
        while heap:
            item = heap[0]
            if self._holds(item):
                return item[2]
            heappop(heap)
        return None

    def _holds(self, item: tuple[int, int, str]) -> bool:
        """Whether the tenant still has this place."""
        share = self._shares.get(item[2])
        return share is not None and share.ticket == item[1]

    def charge(self, tenant: str, count: int = 1) -> None:
        """So many tasks of the tenant that `choose` returned have been taken, one after the other."""
        tag, _, chosen = self._heap[0]
        if chosen != tenant:
            raise ValueError(f"it is the turn of {chosen}, not of {tenant}")
        share = self._shares[tenant]
        tag += (count - 1) * share.cost  # that of the last of them
        if tag > self.virtual_time:
            self.virtual_time = tag
            if self._rested and self._rested[0][0] <= tag:
                self._forget_passed()
        share.tag = tag + share.cost
        self._ticket += 1
        share.ticket = self._ticket
        heapreplace(self._heap, (share.tag, share.ticket, tenant))

    def tag_of(self, tenant: str) -> int | None:
        """The tenant's tag; None when virtual time has passed it."""
        share = self._shares.get(tenant)
        return None if share is None else share.tag

    def __len__(self) -> int:
        """How many tenants are active."""
        return self._active

    def _forget_passed(self) -> None:
        """Forget inactive tenants that virtual time has caught up with."""
        rested = self._rested
        while rested and rested[0][0] <= self.virtual_time:
            tag, tenant = heappop(rested)
            share = self._shares.get(tenant)
            if share is not None and share.resting == tag:
                share.resting = -1
                if not share.ticket and share.tag == tag:
                    del self._shares[tenant]
