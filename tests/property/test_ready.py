"""The ready queue against a model that looks at every entry each time, and against its own invariants."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tasktick.ready.deadline import Entry, virtual_deadline
from tasktick.ready.fair import COST
from tasktick.ready.lane import SLACK
from tasktick.ready.limits import Gate, Limits, Reason
from tasktick.ready.queue import Pushed, ReadyQueue

TENANTS = ("ada", "bob", "cleo")
QUEUES = ("mail", "bill")
HOSTS = ("one", "two")
STEP_MS = 10
LANE_MAX = 5
READY_MAX = 30
caps = st.one_of(st.none(), st.integers(0, 4))


class QueueAgainstModel(RuleBasedStateMachine):
    """The model is a dict of entries, a count for each gate, and a tag for each tenant."""

    @initialize(shared=st.booleans(), in_flight_max=st.integers(1, 9), tenant_max=caps, queue_max=caps)
    def start(self, shared: bool, in_flight_max: int, tenant_max: int | None, queue_max: int | None) -> None:
        # Tenants that share a host take turns at its slots, so a tenant's own order gives way there.
        self.shared = shared
        self.tenant_max, self.queue_max = tenant_max, queue_max
        self.limits = Limits(
            in_flight_max=in_flight_max,
            host_min=2,
            host_max=4,
            tenant_max=tenant_max,
            queue_max=queue_max,
            hosts_kept=2,
        )
        self.weights = {"bob": 2.0, "cleo": 0.5}
        self.queue = ReadyQueue(self.limits, READY_MAX, LANE_MAX, self.weights, STEP_MS)
        self.now_ms = 1000
        self.serial = 0
        self.waiting: dict[str, Entry] = {}
        self.in_flight: list[Entry] = []
        self.count: Counter[tuple[str, ...]] = Counter()
        self.tenant_caps: dict[str, int] = {}
        self.queue_caps: dict[tuple[str, str], int] = {}
        self.virtual_time = 0
        self.tags: dict[str, int] = {}

    # The model.

    def keys(self, entry: Entry) -> tuple[tuple[str, ...], ...]:
        return (("all",), ("tenant", entry.tenant), ("queue", entry.tenant, entry.queue), ("host", entry.host))

    def allowed(self, entry: Entry) -> Reason | None:
        default = 1 << 60
        tenant_max = default if self.tenant_max is None else self.tenant_max
        queue_max = default if self.queue_max is None else self.queue_max
        bounds = (
            self.limits.in_flight_max,
            self.tenant_caps.get(entry.tenant, tenant_max),
            self.queue_caps.get((entry.tenant, entry.queue), queue_max),
            self.limits.host_cap(entry.host),
        )
        for key, bound, reason in zip(self.keys(entry), bounds, Reason, strict=True):
            if self.count[key] >= bound:
                return reason
        return None

    def sendable(self) -> list[Entry]:
        return [
            entry for entry in self.waiting.values() if entry.wake_at <= self.now_ms and self.allowed(entry) is None
        ]

    def deadline(self, entry: Entry) -> int:
        return virtual_deadline(entry.due_at, entry.priority, STEP_MS)

    def tag(self, tenant: str) -> int:
        return max(self.virtual_time, self.tags.get(tenant, 0))

    # What may happen.

    @rule(
        tenant=st.sampled_from(TENANTS),
        queue=st.sampled_from(QUEUES),
        host=st.sampled_from(HOSTS),
        priority=st.integers(0, 9),
        due=st.integers(-200, 0),
        wake=st.integers(-5, 2),
        again=st.booleans(),
    )
    def push(self, tenant: str, queue: str, host: str, priority: int, due: int, wake: int, again: bool) -> None:
        if not self.shared:
            host = f"{tenant}.{host}"
        if again and self.waiting:
            task_id = sorted(self.waiting)[due % len(self.waiting)]
        else:
            self.serial += 1
            task_id = f"task{self.serial:05}"
        entry = Entry(task_id, tenant, queue, host, priority, self.now_ms + due, self.now_ms + wake * 10)
        lane = sum((e.tenant, e.queue, e.host) == (tenant, queue, host) for e in self.waiting.values())
        pushed = self.queue.push(entry)
        if task_id in self.waiting:
            assert pushed is Pushed.DUPLICATE
        elif lane and lane >= min(LANE_MAX, READY_MAX - len(self.waiting)):
            assert pushed is Pushed.LANE_FULL
        elif len(self.waiting) >= READY_MAX:
            assert pushed is Pushed.FULL
        else:
            assert pushed is Pushed.QUEUED
            self.waiting[task_id] = entry

    @rule(
        tenant=st.sampled_from(TENANTS),
        dues=st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(HOSTS), st.integers(-90, 0)), max_size=9),
    )
    def push_many(self, tenant: str, dues: list[tuple[str, str, int]]) -> None:
        for queue, host, due in dues:
            self.push(tenant, queue, host, priority=0, due=due, wake=0, again=False)

    @rule(limit=st.integers(0, 4), passed_ms=st.integers(-15, 40))
    def pop(self, limit: int, passed_ms: int) -> None:
        self.now_ms += passed_ms
        popped = self.queue.pop(limit, self.now_ms)
        assert len(popped) <= limit
        for entry in popped:
            candidates = self.sendable()
            assert entry in candidates
            if not self.shared:
                assert self.tag(entry.tenant) == min(self.tag(other.tenant) for other in candidates)
                own = [other for other in candidates if other.tenant == entry.tenant]
                assert self.deadline(entry) == min(map(self.deadline, own))
            self.virtual_time = max(self.virtual_time, self.tag(entry.tenant))
            self.tags[entry.tenant] = self.tag(entry.tenant) + round(COST / self.weights.get(entry.tenant, 1))
            del self.waiting[entry.id]
            self.in_flight.append(entry)
            self.count.update(self.keys(entry))
        if len(popped) < limit:
            assert self.sendable() == []

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 99), directly=st.booleans())
    def release(self, which: int, directly: bool) -> None:
        entry = self.in_flight.pop(which % len(self.in_flight))
        self.count.subtract(self.keys(entry))
        if directly:
            self.limits.release(entry)
        else:
            self.queue.release(entry)

    @rule(which=st.integers(0, 99))
    def remove(self, which: int) -> None:
        assert not self.queue.remove("nobody")
        if self.waiting:
            task_id = sorted(self.waiting)[which % len(self.waiting)]
            del self.waiting[task_id]
            assert self.queue.remove(task_id)
            assert not self.queue.remove(task_id)

    @rule(tenant=st.sampled_from(TENANTS), cap=caps)
    def set_tenant_cap(self, tenant: str, cap: int | None) -> None:
        self.limits.set_tenant_cap(tenant, cap)
        self.tenant_caps.pop(tenant, None)
        if cap is not None:
            self.tenant_caps[tenant] = cap

    @rule(tenant=st.sampled_from(TENANTS), queue=st.sampled_from(QUEUES), cap=caps)
    def set_queue_cap(self, tenant: str, queue: str, cap: int | None) -> None:
        self.limits.set_queue_cap(tenant, queue, cap)
        self.queue_caps.pop((tenant, queue), None)
        if cap is not None:
            self.queue_caps[tenant, queue] = cap

    @rule(host=st.sampled_from(HOSTS), tenant=st.sampled_from(TENANTS), cap=caps)
    def set_host_cap(self, host: str, tenant: str, cap: int | None) -> None:
        self.limits.set_host_cap(host if self.shared else f"{tenant}.{host}", cap)

    @rule(
        host=st.sampled_from(HOSTS),
        tenant=st.sampled_from(TENANTS),
        latency_ms=st.sampled_from([1.0, 30.0, 900.0]),
        ok=st.booleans(),
    )
    def observe(self, host: str, tenant: str, latency_ms: float, ok: bool) -> None:
        for _ in range(3):
            self.limits.observe(host if self.shared else f"{tenant}.{host}", latency_ms, ok)

    # What always holds.

    @invariant()
    def the_queue_says_what_the_model_says(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert not self.queue.missing(self.waiting)
        oldest = min((entry.due_at for entry in self.waiting.values()), default=None)
        assert self.queue.oldest_due_at() == oldest
        for task_id, entry in self.waiting.items():
            assert self.queue.held_by(task_id) == self.allowed(entry)
        assert self.limits.in_flight == len(self.in_flight)
        assert sum(self.queue.held().values()) <= len(self.waiting)

    @invariant()
    def no_free_slot_is_forgotten(self) -> None:
        waiting: Counter[Gate] = Counter()
        awake: Counter[Gate] = Counter()
        for lane in self.queue._lanes.values():
            assert not (lane.filed and lane.waits_on)
            waiting.update([lane.waits_on] if lane.waits_on else [])
            awake.update([lane.called_by] if lane.called_by else [])
        gates = {gate for lane in self.queue._lanes.values() for gate in lane.gates}
        for gate in gates:
            assert gate.waiting == waiting[gate]
            assert gate.awake == awake[gate]
            assert gate.signalled == (gate in self.limits.freed)
            if gate.signalled or gate.awake >= gate.cap - gate.in_flight:
                continue
            lanes = self.queue._lanes.values()
            called = {lane.tenant for lane in lanes if lane.called_by is gate}
            assert {lane.tenant for lane in lanes if lane.waits_on is gate} <= called
        assert set(self.queue._lines) == set(waiting)

    @invariant()
    def counts_are_what_they_count(self) -> None:
        queue = self.queue
        lanes = queue._lanes.values()
        assert sum(lane.count for lane in lanes) == len(queue)
        assert all(0 < lane.count <= LANE_MAX for lane in lanes)
        for reason in Reason:
            assert queue._held[reason] == sum(
                lane.count for lane in lanes if lane.waits_on and lane.waits_on.reason is reason
            )
        assert set(queue._tenants) == {lane.tenant for lane in lanes}
        active = {name for name, share in queue._fair._shares.items() if share.ticket}
        assert len(active) == len(queue._fair)
        for name, tenant in queue._tenants.items():
            own = [lane for lane in lanes if lane.tenant == name]
            assert tenant.lanes == len(own)
            assert tenant.live == sum(lane.filed for lane in own)
            assert (name in active) == (tenant.live > 0)
        assert active <= set(queue._tenants)

    @invariant()
    def what_is_dead_does_not_pile_up(self) -> None:
        queue = self.queue
        assert len(queue._early) <= 2 * READY_MAX + SLACK
        for lane in queue._lanes.values():
            assert len(lane.items) <= 2 * LANE_MAX + SLACK
        used = {e.host for e in self.in_flight} | {e.host for e in self.waiting.values()}
        assert self.limits.counts()["hosts"] <= len(used) + 2
        tenants = {e.tenant for e in self.in_flight} | {e.tenant for e in self.waiting.values()}
        assert self.limits.counts()["tenants"] == len(tenants)

    def teardown(self) -> None:
        """Open every gate: all that waits comes out, and nothing is left behind."""
        if not hasattr(self, "queue"):
            return
        for tenant in TENANTS:
            self.set_tenant_cap(tenant, 1)
            for host in HOSTS:
                self.set_host_cap(host, tenant, 1)
            for queue in QUEUES:
                self.set_queue_cap(tenant, queue, 1)
        while self.in_flight:
            self.release(0, directly=False)
        while self.waiting:
            before = len(self.waiting)
            self.pop(4, 50)
            assert len(self.waiting) < before
            while self.in_flight:
                self.release(0, directly=False)
        left = self.queue
        assert left.pop(5, self.now_ms + 10_000) == []
        assert (len(left), left._lanes, left._tenants, left._lines) == (0, {}, {}, {})
        assert left.next_wake_at() is None
        assert self.limits.in_flight == 0
        assert self.limits.counts()["tenants"] == self.limits.counts()["queues"] == 0


QueueAgainstModel.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestQueueAgainstModel = pytest.mark.slow(QueueAgainstModel.TestCase)


def entry(serial: int, tenant: str = "ada", host: str = "one", queue: str = "mail", priority: int = 5) -> Entry:
    return Entry(f"task{serial:06}", tenant, queue, host, priority, serial, serial)


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 8.0]), min_size=2, max_size=5),
    batch=st.integers(1, 20),
)
def test_backlogged_tenants_share_by_weight(weights: list[float], batch: int) -> None:
    shares = {f"tenant{n}": weight for n, weight in enumerate(weights)}
    queue = ReadyQueue(Limits(), 10_000, 10_000, shares)
    for serial in range(200 * len(shares)):
        assert queue.push(entry(serial, f"tenant{serial % len(shares)}")) is Pushed.QUEUED
    served: Counter[str] = Counter()
    while len(served) < len(shares) or max(served.values()) + batch < 200:
        for popped in queue.pop(batch, 10_000):
            served[popped.tenant] += 1
            queue.release(popped)
    for one, two in zip(shares, list(shares)[1:], strict=False):
        # Start-time fair queueing: no two are ever further apart than one task of each.
        apart = abs(served[one] / shares[one] - served[two] / shares[two])
        assert apart <= 1 / shares[one] + 1 / shares[two] + 1e-3


@settings(max_examples=30, deadline=None)
@given(lanes=st.integers(1, 8), cap=st.integers(1, 5), released=st.lists(st.integers(1, 5), min_size=120, max_size=120))
def test_slots_of_a_shared_host_are_shared_by_tenant_not_by_lane(lanes: int, cap: int, released: list[int]) -> None:
    queue = ReadyQueue(Limits(host_min=cap, host_max=cap), 10_000, 10_000)
    for serial in range(200):
        queue.push(entry(serial, "greedy", queue=f"queue{serial % lanes}"))
        queue.push(entry(1000 + serial, "modest"))
    served: Counter[str] = Counter()
    in_flight: list[Entry] = []
    for count in released:
        popped = queue.pop(10, 10_000)
        served.update(e.tenant for e in popped)
        in_flight += popped
        assert len(in_flight) == cap
        for e in in_flight[:count]:
            queue.release(e)
        del in_flight[:count]
        if sum(served.values()) > 190:
            break
    assert abs(served["greedy"] - served["modest"]) <= 1


@settings(max_examples=30, deadline=None)
@given(priority=st.integers(0, 9), rate=st.integers(1, 5))
def test_the_least_urgent_goes_though_the_most_urgent_never_end(priority: int, rate: int) -> None:
    queue = ReadyQueue(Limits(), 10_000, 10_000, step_ms=20)
    queue.push(Entry("patient", "ada", "mail", "one", priority, 0, 0))
    for now_ms in range(1000):
        # More comes in than goes out, all of it more urgent; and new tenants keep coming.
        for n in range(rate):
            queue.push(Entry(f"urgent{now_ms}.{n}", "ada", "mail", "two", 0, now_ms, now_ms))
        queue.push(Entry(f"other{now_ms}", f"tenant{now_ms % 7}", "mail", "two", 0, now_ms, now_ms))
        popped = queue.pop(2 + rate, now_ms)
        if any(e.id == "patient" for e in popped):
            return
        for e in popped:
            queue.release(e)
    pytest.fail("it starved")
