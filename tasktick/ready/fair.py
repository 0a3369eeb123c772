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


class FairShare:
    """Who goes next; see the module for how."""

    __slots__ = ("_active", "_costs", "_heap", "_rested", "_resting", "_tags", "_ticket", "virtual_time")

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.virtual_time = 0
        self._tags: dict[str, int] = {}
        self._costs: dict[str, int] = {}
        # (tag, ticket, tenant); live when `_active` has that ticket. Tickets grow: equals take turns.
        self._heap: list[tuple[int, int, str]] = []
        self._active: dict[str, int] = {}
        self._ticket = 0
        # Inactive tenants whose tags lie ahead of virtual time: (tag, tenant), each once.
        self._rested: list[tuple[int, str]] = []
        self._resting: dict[str, int] = {}
        for tenant, weight in (weights or {}).items():
            self.set_weight(tenant, weight)

    def set_weight(self, tenant: str, weight: float | None) -> None:
        """Give a tenant `weight` shares from its next task on; None is the default, one share."""
        if weight is None:
            self._costs.pop(tenant, None)
            return
        if not (math.isfinite(weight) and 1 / WEIGHT_MAX <= weight <= WEIGHT_MAX):
            raise ValueError(f"a weight is between {1 / WEIGHT_MAX} and {WEIGHT_MAX}, not {weight}")
        self._costs[tenant] = round(COST / weight)

    def activate(self, tenant: str) -> None:
        """The tenant has something that may be sent."""
        if tenant in self._active:
            return
        tag = max(self._tags.get(tenant, 0), self.virtual_time)
        self._tags[tenant] = tag
        self._ticket += 1
        self._active[tenant] = self._ticket
        heappush(self._heap, (tag, self._ticket, tenant))
        if len(self._heap) > 2 * len(self._active) + 16:
            self._heap = [item for item in self._heap if self._active.get(item[2]) == item[1]]
            heapify(self._heap)

    def deactivate(self, tenant: str) -> None:
        """The tenant has nothing more that may be sent."""
        if self._active.pop(tenant, None) is None:
            return
        tag = self._tags[tenant]
        if tag <= self.virtual_time:
            del self._tags[tenant]
        elif self._resting.get(tenant) != tag:
            self._resting[tenant] = tag
            heappush(self._rested, (tag, tenant))

    def choose(self) -> str | None:
        """The active tenant whose turn it is."""
        heap = self._heap
        while heap:
            _, ticket, tenant = heap[0]
            if self._active.get(tenant) == ticket:
                return tenant
            heappop(heap)
        return None

    def charge(self, tenant: str, count: int = 1) -> None:
        """So many tasks of the tenant that `choose` returned have been taken, one after the other."""
        tag, _, chosen = self._heap[0]
        if chosen != tenant:
            raise ValueError(f"it is the turn of {chosen}, not of {tenant}")
        cost = self._costs.get(tenant, COST)
        tag += (count - 1) * cost  # that of the last of them
        if tag > self.virtual_time:
            self.virtual_time = tag
            if self._rested and self._rested[0][0] <= tag:
                self._forget_passed()
        tag += cost
        self._tags[tenant] = tag
        self._ticket += 1
        self._active[tenant] = self._ticket
        heapreplace(self._heap, (tag, self._ticket, tenant))

    def tag_of(self, tenant: str) -> int | None:
        """The tenant's tag; None when virtual time has passed it."""
        return self._tags.get(tenant)

    def __len__(self) -> int:
        """How many tenants are active."""
        return len(self._active)

    def _forget_passed(self) -> None:
        """Forget inactive tenants that virtual time has caught up with."""
        rested = self._rested
        while rested and rested[0][0] <= self.virtual_time:
            tag, tenant = heappop(rested)
            if self._resting.get(tenant) == tag:
                del self._resting[tenant]
            if tenant not in self._active and self._tags.get(tenant) == tag:
                del self._tags[tenant]
