"""The ready queue: what is due and waits for its turn; see the package for what it promises.

How a free slot finds its lane: a lane that meets a full gate is put in the gate's line. When a slot of
that gate is released, the gate is signalled, and the next pop wakes as many lanes of the line as there is
room, one of each tenant at a time; of a tenant whose lane was woken before and not looked at yet, one more, as
it may be the more urgent. A lane that was woken is looked at like any other, and whether
or not it takes the slot (another gate may stop it, or all its entries may have been removed), the gate is
signalled again while lanes wait before it. So at any time, for each gate: nobody waits, or as many lanes
are awake as there is room, or a lane of every tenant in line is awake, or the gate is signalled.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace

from tasktick.ready.deadline import STEP_MS, Entry, virtual_deadline
from tasktick.ready.fair import FairShare
from tasktick.ready.lane import SLACK, Index, Item, Lane, LaneKey, Line, Tenant, is_live
from tasktick.ready.limits import Gate, Limits, Reason
from tasktick.ready.standing import Standing

# Lanes that one pop puts aside once it has something to return: some milliseconds.
LOOKS_MAX = 1_000


class Pushed(Enum):
    """What became of a push."""

    QUEUED = "queued"
    DUPLICATE = "duplicate"
    LANE_FULL = "lane_full"
    FULL = "full"


class ReadyQueue:
    """Entries that are due, in the order in which they may go."""

    def __init__(
        self,
        limits: Limits,
        ready_max: int,
        lane_max: int,
        weights: Mapping[str, float] | None = None,
        step_ms: int = STEP_MS,
    ) -> None:
        self.limits = limits
        self.ready_max = ready_max
        self.lane_max = lane_max
        self._step_ms = step_ms
        self._fair = FairShare(weights)
        self._index: Index = {}
        self._lanes: dict[LaneKey, Lane] = {}
        self._tenants: dict[str, Tenant] = {}
        self._lines: dict[Gate, Line] = {}
        # Entries behind a full gate, by its kind.
        self._held = dict.fromkeys(Reason, 0)
        # Popped before their `wake_at`, which only a clock that was set back makes possible.
        self._early: list[tuple[int, Item]] = []
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._index)

    def missing(self, task_ids: Iterable[str]) -> list[str]:
        """Those of these that do not wait here, in their order."""
        index = self._index
        return [one for one in task_ids if one not in index]

    def set_weight(self, tenant: str, weight: float | None) -> None:
        """Give a tenant `weight` shares; None is the default, one."""
        self._fair.set_weight(tenant, weight)

    def push(self, entry: Entry) -> Pushed:
        """Let an entry wait for its turn, if it does not yet and there is room for it."""
        index = self._index
        if entry.id in index:
            return Pushed.DUPLICATE
        key = (entry.tenant, entry.queue, entry.host)
        lane = self._lanes.get(key)
        # The lane first: a task of a full lane is parked, it does not wait for room for all. No lane may hold more
        # than what is left for others: two dead hosts must not fill the queue of all.
        room = self.ready_max - len(index)
        if lane is not None and (lane.count >= self.lane_max or lane.count >= room):
            return Pushed.LANE_FULL
        if room <= 0:
            return Pushed.FULL
        if lane is None:
            lane = self._open(key, entry)
        self._ticket += 1
        item = (virtual_deadline(entry.due_at, entry.priority, self._step_ms), self._ticket, entry)
        index[entry.id] = item
        lane.count += 1
        if lane.waits_on is not None:
            self._held[lane.waits_on.reason] += 1
        self._put(lane, item)
        return Pushed.QUEUED

    def pop(self, limit: int, now_ms: int) -> list[Entry]:
        """Up to `limit` entries that may be sent now, in order; each holds its slots until released.

        None at all means that nothing may go now. Fewer than `limit` does not: after LOOKS_MAX lanes that
        may not go, a pop that has something returns, so that the event loop does too. Pop again.
        """
        limits = self.limits
        fair = self._fair
        popped: list[Entry] = []
        looks = 0
        if self._early:
            self._recall(now_ms)
        while len(popped) < limit and limits.in_flight < limits.in_flight_max:
            if limits.freed:
                self._wake()
            name = fair.choose()
            if name is None:
                break
            tenant = self._tenants[name]
            if len(fair) == 1 and tenant.live == 1 and self._take_run(tenant, limit - len(popped), now_ms, popped):
                continue
            entry = self._take(tenant, now_ms)
            if entry is not None:
                popped.append(entry)
            elif popped:
                looks += 1
                if looks >= LOOKS_MAX:
                    break
        return popped

    def release(self, entry: Entry) -> None:
        """The attempt of a popped entry has ended, or was not made: its slots are free."""
        self.limits.release(entry)

    def remove(self, task_id: str) -> bool:
        """Forget an entry that waits, as its task was cancelled, paused or moved."""
        item = self._index.pop(task_id, None)
        if item is None:
            return False
        entry = item[2]
        lane = self._lanes[entry.tenant, entry.queue, entry.host]
        self._discount(lane, entry)
        if lane.count:
            lane.shed(self._index)
        return True

    def held(self) -> dict[Reason, int]:
        """How many entries wait behind a full gate, by its kind; GLOBAL: the rest, when all is full."""
        counts = dict(self._held)
        if self.limits.room <= 0:
            counts[Reason.GLOBAL] = len(self._index) - sum(counts.values())
        return counts

    def held_by(self, task_id: str) -> Reason | None:
        """Which limit holds a waiting task back; None when it is only a matter of its turn."""
        item = self._index.get(task_id)
        return None if item is None else self.limits.blocked_by(item[2])

    def standing(self, task_id: str) -> Standing | None:
        """How a task waits here; None if it does not."""
        item = self._index.get(task_id)
        if item is None:
            return None
        reason, in_flight, cap = self.limits.full_gate(item[2]) or (None, None, None)
        return Standing("ready", reason, in_flight, cap, len(self._index))

    def oldest_due_at(self) -> int | None:
        """The earliest `due_at` of all that waits. It looks at each: for who asks now and then."""
        return min((item[2].due_at for item in self._index.values()), default=None)

    def next_wake_at(self) -> int | None:
        """When an entry that was pushed before its `wake_at` may go; None when there is none.

        Known only of entries whose turn has come: ask after a pop.
        """
        while self._early:
            wake_at, item = self._early[0]
            if is_live(item, self._index):
                return wake_at
            heappop(self._early)
        return None

    # One entry.

    def _take(self, tenant: Tenant, now_ms: int) -> Entry | None:
        """Look at the tenant's first lane: take its first entry, or put the lane where it belongs."""
        place = tenant.first()
        assert place is not None
        deadline, _, lane = place
        item = lane.first(self._index)
        if lane.called_by is not None:
            self._answer(lane)
        if item is None:
            self._unfile(lane)
            return None
        if item[0] != deadline:
            heapreplace(tenant.heap, (item[0], lane.ticket, lane))
            return None
        gate = lane.full_gate()
        if gate is not None:
            self._unfile(lane)
            self._wait(lane, gate, item[0])
            return None
        lane.items.pop()
        entry = item[2]
        if entry.wake_at > now_ms:
            heappush(self._early, (entry.wake_at, item))
            return None
        self.limits.pass_through(lane.gates)
        self._fair.charge(lane.tenant)
        del self._index[entry.id]
        following = lane.items.first()
        if following is not None:
            heapreplace(tenant.heap, (following[0], lane.ticket, lane))
        self._discount(lane, entry)
        return entry

    def _take_run(self, tenant: Tenant, limit: int, now_ms: int, popped: list[Entry]) -> bool:
        """Take what is next in the only lane that may go, as `_take` would one by one; whether there was any.

        It leaves the last of the lane, and whatever may not go, to `_take`.
        """
        place = tenant.first()
        assert place is not None
        lane = place[2]
        room = min(limit, lane.count - 1, self.limits.room, lane.room)
        if room < 2 or lane.called_by is not None:
            return False
        items, index = lane.items, self._index
        taken = 0
        while taken < room and (item := items.first()) is not None:
            entry = item[2]
            if not is_live(item, index):
                items.pop()
                continue
            if entry.wake_at > now_ms:
                break
            items.pop()
            del index[entry.id]
            popped.append(entry)
            taken += 1
        if taken:
            self.limits.pass_through(lane.gates, taken)
            self._fair.charge(lane.tenant, taken)
            lane.count -= taken
        return taken > 0

    def _put(self, lane: Lane, item: Item) -> None:
        """File an item in its lane, and the lane where its first entry now belongs."""
        is_first = lane.items.push(item)
        if lane.waits_on is not None:
            if is_first:
                self._wait(lane, lane.waits_on, item[0])
        elif lane.filed:
            if is_first:
                self._file(lane)
        elif (gate := lane.full_gate()) is None:
            self._file(lane)
        else:
            # Straight into the line: ten thousand lanes for a held host are never looked at together.
            first = lane.first(self._index)
            assert first is not None
            self._wait(lane, gate, first[0])

    def _discount(self, lane: Lane, entry: Entry) -> None:
        """One entry fewer in the lane; with its last one the lane goes."""
        lane.count -= 1
        if lane.waits_on is not None:
            self._held[lane.waits_on.reason] -= 1
        if lane.count:
            return
        if lane.called_by is not None:
            self._answer(lane)
        if lane.filed:
            self._unfile(lane)
        elif lane.waits_on is not None:
            self._leave_line(lane, lane.waits_on)
        del self._lanes[lane.key]
        tenant = self._tenants[lane.tenant]
        tenant.lanes -= 1
        if not tenant.lanes:
            del self._tenants[lane.tenant]
        self.limits.leave(entry, lane.gates)

    def _recall(self, now_ms: int) -> None:
        """What was too early and is not any more goes back to its lane."""
        while (wake_at := self.next_wake_at()) is not None and wake_at <= now_ms:
            _, item = heappop(self._early)
            entry = item[2]
            self._put(self._lanes[entry.tenant, entry.queue, entry.host], item)
        if len(self._early) > 2 * len(self._index) + SLACK:
            self._early = [pair for pair in self._early if is_live(pair[1], self._index)]
            heapify(self._early)

    # Lanes: opened, filed among their tenant's, waiting in line, woken.

    def _open(self, key: LaneKey, entry: Entry) -> Lane:
        lane = self._lanes[key] = Lane(key, self.limits.enter(entry))
        tenant = self._tenants.get(entry.tenant)
        if tenant is None:
            tenant = self._tenants[entry.tenant] = Tenant()
        tenant.lanes += 1
        return lane

    def _move(self, lane: Lane) -> None:
        """A new ticket: whatever place the lane had is dead."""
        self._ticket += 1
        lane.ticket = self._ticket

    def _file(self, lane: Lane) -> None:
        """Put the lane among its tenant's lanes by its first entry; with no live one, it rests."""
        item = lane.first(self._index)
        if item is None:
            return
        self._move(lane)
        tenant = self._tenants[lane.tenant]
        if not lane.filed:
            lane.filed = True
            tenant.live += 1
            if tenant.live == 1:
                self._fair.activate(lane.tenant)
        tenant.add(lane, item[0])

    def _unfile(self, lane: Lane) -> None:
        self._move(lane)
        lane.filed = False
        tenant = self._tenants[lane.tenant]
        tenant.live -= 1
        if not tenant.live:
            self._fair.deactivate(lane.tenant)

    def _wait(self, lane: Lane, gate: Gate, deadline: int) -> None:
        """Put the lane in the line of a gate; one that waits there already moves up."""
        line = self._lines.get(gate)
        if line is None:
            line = self._lines[gate] = Line()
        self._move(lane)
        line.add(lane, deadline, self._fair)
        if lane.waits_on is None:
            lane.waits_on = gate
            gate.waiting += 1
            self._held[gate.reason] += lane.count
        elif gate.in_flight < gate.cap:
            # There is room, and those who were woken for it may be less urgent than this one is now.
            self.limits.signal(gate)

    def _leave_line(self, lane: Lane, gate: Gate) -> None:
        self._move(lane)
        self._lines[gate].drop(lane)
        lane.waits_on = None
        gate.waiting -= 1
        self._held[gate.reason] -= lane.count
        if not gate.waiting:
            del self._lines[gate]

    def _call(self, lane: Lane, gate: Gate) -> None:
        """Wake a lane that waits before this gate: there is room."""
        line = self._lines[gate]
        self._leave_line(lane, gate)
        self._file(lane)
        if lane.filed:
            lane.called_by = gate
            gate.awake += 1
            line.call(lane.tenant)

    def _answer(self, lane: Lane) -> None:
        """A lane that was woken is being looked at, or goes: its gate may wake another for what is left."""
        gate = lane.called_by
        assert gate is not None
        lane.called_by = None
        gate.awake -= 1
        if gate.waiting:
            self._lines[gate].answer(lane.tenant, self._fair)
            self.limits.signal(gate)

    def _wake(self) -> None:
        """For each gate with room that was signalled, wake as many of its line as it may."""
        freed, self.limits.freed = self.limits.freed, []
        for gate in freed:
            gate.signalled = False
            if gate.waiting and gate.in_flight < gate.cap:
                for overtaken in self._lines[gate].overtaken(self._index):
                    self._call(overtaken, gate)
            while gate.waiting and gate.in_flight + gate.awake < gate.cap:
                lane = self._lines[gate].next(self._index, self._fair)
                if lane is None:
                    break
                self._call(lane, gate)
