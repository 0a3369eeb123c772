"""How many attempts may be in flight: in all, by tenant, by queue and by host.

Each of these is a gate: a count and a cap. The caps of tenants and queues are settings. The cap of a host
is found by watching it, and has two parts. So many may be called at once:

- `host_min` to begin with;
- while the receiver is slow (SLOW_MS on average) and the cap is what holds tasks back, each answer
  raises it by one, so it doubles with each round of answers, up to `host_max` (256): with a latency of
  five seconds, 64 in flight are 13 a second and 256 are 51;
- when answers are quick again (QUICK_MS), each answer lowers it by one, down to `host_min`;
- a network failure takes a quarter of it away, down to `host_min`, once per round: a round is as many
  outcomes as the cap allows in flight, so that one broken connection pool is one cut.

And so many more may be claimed ahead of their calls, `ahead`: none, until the receiver is known to be quick. Then each
answer that finds the cap holding tasks back raises it by AHEAD_STEP, up to AHEAD_MAX. Claims are then few and large,
for the price of some milliseconds in which a claimed task waits for its call, of which there are CALLS_QUICK at once:
with more the event loop lags and nothing is gained. A receiver that is quick no more has nothing claimed ahead for it.

What a breaker or an operator says about a host is a fixed cap, 0 to hold it, and stands above that.
"""

from collections import OrderedDict
from enum import StrEnum
from typing import TypeVar

from tasktick.ready.deadline import Entry

SLOW_MS = 50.0
QUICK_MS = 25.0
LATENCY_SHARE = 1 / 8
UNLIMITED = 1 << 60
CALLS_QUICK = 64
AHEAD_MAX = 1_152
AHEAD_STEP = 4

Key = TypeVar("Key")


class Reason(StrEnum):
    """Which limit holds a task back."""

    GLOBAL = "global"
    TENANT = "tenant"
    QUEUE = "queue"
    HOST = "host"


class Gate:
    """A count in flight and its cap; and, for who queues before it, who waits and who was called."""

    __slots__ = ("awake", "cap", "in_flight", "lanes", "reason", "signalled", "waiting")

    def __init__(self, reason: Reason, cap: int) -> None:
        self.reason = reason
        self.cap = cap
        self.in_flight = 0
        self.lanes = 0  # lanes that lead here: the gate stays while there is one
        self.waiting = 0  # lanes in its line
        self.awake = 0  # lanes called from its line that have not been looked at since
        self.signalled = False  # stands in `Limits.freed`


class HostGate(Gate):
    """A gate whose cap follows what is seen of the host."""

    __slots__ = ("ahead", "failures_ignored", "latency_ms", "learned")

    def __init__(self, learned: int) -> None:
        super().__init__(Reason.HOST, learned)
        self.learned = learned
        self.ahead = 0
        self.latency_ms: float | None = None
        self.failures_ignored = 0  # outcomes until a failure counts again

    def learn(self, latency_ms: float, ok: bool, host_min: int, host_max: int) -> None:
        """One more outcome: move the learned cap as the module says."""
        if self.failures_ignored:
            self.failures_ignored -= 1
        if not ok:
            self.ahead //= 2
            if not self.failures_ignored:
                self.learned = max(host_min, self.learned - self.learned // 4)
                self.failures_ignored = self.learned
            return
        average = latency_ms if self.latency_ms is None else self.latency_ms
        self.latency_ms = average = average + (latency_ms - average) * LATENCY_SHARE
        # An outcome is observed just before or just after its slot is released.
        pressed = self.waiting > 0 or self.in_flight >= self.learned + self.ahead - 1
        if average > QUICK_MS:
            self.ahead = 0
        elif pressed:
            self.ahead = min(AHEAD_MAX, self.ahead + AHEAD_STEP)
        if average >= SLOW_MS and pressed and not self.failures_ignored:
            self.learned = min(host_max, self.learned + 1)
        elif average <= QUICK_MS:
            self.learned = max(host_min, self.learned - 1)

    @property
    def calls_at_once(self) -> int:
        """How many calls may be under way at once, of what may be claimed."""
        is_quick = self.latency_ms is not None and self.latency_ms <= QUICK_MS
        return min(self.learned, self.cap, CALLS_QUICK if is_quick else self.learned)


Gates = tuple[Gate, Gate, Gate]


class Limits:
    """Counts in flight against their caps.

    `freed` is what the ready queue reads: the gates before which lanes wait and where room may have come
    up since. Whatever gives room (a release, a raised cap) goes through here, so nothing is missed.
    """

    def __init__(
        self,
        *,
        in_flight_max: int = 10_000,
        host_min: int = 64,
        host_max: int = 256,
        tenant_max: int | None = None,
        queue_max: int | None = None,
        hosts_kept: int = 4_096,
    ) -> None:
        if not 1 <= host_min <= host_max:
            raise ValueError(f"host_min is from 1 to host_max, not {host_min} with {host_max}")
        self.in_flight_max = in_flight_max
        self.in_flight = 0
        self.freed: list[Gate] = []
        self._host_min = host_min
        self._host_max = host_max
        self._tenant_max = UNLIMITED if tenant_max is None else tenant_max
        self._queue_max = UNLIMITED if queue_max is None else queue_max
        self._hosts_kept = hosts_kept
        self._tenant_caps: dict[str, int] = {}
        self._queue_caps: dict[tuple[str, str], int] = {}
        self._host_caps: dict[str, int] = {}
        self._tenants: dict[str, Gate] = {}
        self._queues: dict[tuple[str, str], Gate] = {}
        self._hosts: dict[str, HostGate] = {}
        # Hosts that nothing is sent to or waits for, the longest idle first.
        self._idle_hosts: OrderedDict[str, None] = OrderedDict()

    @property
    def room(self) -> int:
        """How many more may be in flight in all."""
        return self.in_flight_max - self.in_flight

    def blocked_by(self, entry: Entry) -> Reason | None:
        """The first limit, the widest first, that the entry may not pass now."""
        if self.in_flight >= self.in_flight_max:
            return Reason.GLOBAL
        return next((gate.reason for gate in self._gates(entry) if gate.in_flight >= gate.cap), None)

    def full_gate(self, entry: Entry) -> tuple[Reason, int, int] | None:
        """The first limit, the widest first, that the entry may not pass now: how many are in flight, and may be."""
        if self.in_flight >= self.in_flight_max:
            return Reason.GLOBAL, self.in_flight, self.in_flight_max
        full = (gate for gate in self._gates(entry) if gate.in_flight >= gate.cap)
        return next(((gate.reason, gate.in_flight, gate.cap) for gate in full), None)

    def latencies(self) -> dict[str, float]:
        """How long calls last of late, by host, where there were any."""
        return {host: gate.latency_ms for host, gate in self._hosts.items() if gate.latency_ms is not None}

    def may_send(self, entry: Entry) -> bool:
        """Whether the entry passes all limits now."""
        return self.blocked_by(entry) is None

    def take(self, entry: Entry) -> None:
        """Count an attempt of the entry. Ask `may_send` first: a take is never refused."""
        gates = self._gates(entry, keep=True)
        self._idle_hosts.pop(entry.host, None)
        self.pass_through(gates)

    def release(self, entry: Entry) -> None:
        """An attempt of the entry has ended, however it did."""
        gates = self._gates(entry)
        tenant, queue, host = gates
        if tenant.in_flight <= 0 or queue.in_flight <= 0 or host.in_flight <= 0:
            raise ValueError(f"a slot was released that was not taken, by {entry.id}")
        self.in_flight -= 1
        for gate in gates:
            gate.in_flight -= 1
            if gate.waiting:
                self.signal(gate)
        if not (tenant.in_flight and queue.in_flight and host.in_flight):
            self._forget_unused(entry, gates)

    def observe(self, host: str, latency_ms: float, ok: bool) -> None:
        """What came of a request: `ok` when a complete answer came back, whatever its status."""
        gate = self._host(host)
        if host not in self._hosts:
            self._hosts[host] = gate
            self._let_idle(host)
        gate.learn(latency_ms, ok, self._host_min, self._host_max)
        if host not in self._host_caps:
            self._set_cap(gate, gate.learned + gate.ahead)

    def stalled(self, host: str) -> None:
        """What was claimed for it has waited too long for a call: it is quick no more, until it answers again."""
        gate = self._hosts.get(host)
        if gate is not None:
            gate.ahead, gate.latency_ms = 0, None
            if host not in self._host_caps:
                self._set_cap(gate, gate.learned)

    def calls_at_once(self, host: str) -> int:
        """How many calls to a host may be under way at once; one at least."""
        gate = self._hosts.get(host)
        return self._host_min if gate is None else max(gate.calls_at_once, 1)

    def host_cap(self, host: str) -> int:
        """How many may be in flight to a host now."""
        return self._host(host).cap

    def set_tenant_cap(self, tenant: str, cap: int | None) -> None:
        """Allow a tenant `cap` in flight, 0 to hold it; None is the default."""
        _assign(self._tenant_caps, tenant, cap)
        if (gate := self._tenants.get(tenant)) is not None:
            self._set_cap(gate, self._tenant_max if cap is None else cap)

    def set_queue_cap(self, tenant: str, queue: str, cap: int | None) -> None:
        """Allow a queue `cap` in flight, 0 to hold it; None is the default."""
        _assign(self._queue_caps, (tenant, queue), cap)
        if (gate := self._queues.get((tenant, queue))) is not None:
            self._set_cap(gate, self._queue_max if cap is None else cap)

    def set_host_cap(self, host: str, cap: int | None) -> None:
        """Fix what a host may have in flight, 0 to hold it; None goes back to what was learned."""
        _assign(self._host_caps, host, cap)
        if (gate := self._hosts.get(host)) is not None:
            self._set_cap(gate, gate.learned + gate.ahead if cap is None else cap)

    def set_host_range(self, host_min: int, host_max: int) -> None:
        """Let the caps of hosts move between these from now on."""
        if not 1 <= host_min <= host_max:
            raise ValueError(f"host_min is from 1 to host_max, not {host_min} with {host_max}")
        self._host_min, self._host_max = host_min, host_max
        for host, gate in self._hosts.items():
            gate.learned = min(max(gate.learned, host_min), host_max)
            if host not in self._host_caps:
                self._set_cap(gate, gate.learned + gate.ahead)

    # What the ready queue uses: gates found once for a lane, not once for an entry.

    def enter(self, entry: Entry) -> Gates:
        """The gates before a new lane, widest first. They are its own until it `leave`s."""
        gates = self._gates(entry, keep=True)
        self._idle_hosts.pop(entry.host, None)
        for gate in gates:
            gate.lanes += 1
        return gates

    def leave(self, entry: Entry, gates: Gates) -> None:
        """The lane of this entry is gone."""
        for gate in gates:
            gate.lanes -= 1
        self._forget_unused(entry, gates)

    def pass_through(self, gates: Gates, count: int = 1) -> None:
        """Take so many slots at each of these gates, and as many of all."""
        self.in_flight += count
        for gate in gates:
            gate.in_flight += count

    def signal(self, gate: Gate) -> None:
        """Lanes wait before this gate and there may be room."""
        if not gate.signalled:
            gate.signalled = True
            self.freed.append(gate)

    def counts(self) -> dict[str, int]:
        """How many gates of each kind are held in memory, for metrics."""
        return {"tenants": len(self._tenants), "queues": len(self._queues), "hosts": len(self._hosts)}

    def _set_cap(self, gate: Gate, cap: int) -> None:
        if cap > gate.cap and gate.waiting:
            self.signal(gate)
        gate.cap = cap

    def _gates(self, entry: Entry, keep: bool = False) -> Gates:
        """The entry's gates, new ones where there are none; they stay only if they are kept."""
        tenant = self._tenants.get(entry.tenant)
        if tenant is None:
            tenant = Gate(Reason.TENANT, self._tenant_caps.get(entry.tenant, self._tenant_max))
        key = (entry.tenant, entry.queue)
        queue = self._queues.get(key)
        if queue is None:
            queue = Gate(Reason.QUEUE, self._queue_caps.get(key, self._queue_max))
        host = self._host(entry.host)
        if keep:
            self._tenants[entry.tenant] = tenant
            self._queues[key] = queue
            self._hosts[entry.host] = host
        return tenant, queue, host

    def _host(self, host: str) -> HostGate:
        """The host's gate, or a new one that is not kept."""
        gate = self._hosts.get(host)
        if gate is None:
            gate = HostGate(self._host_min)
            gate.cap = self._host_caps.get(host, gate.learned)
        return gate

    def _forget_unused(self, entry: Entry, gates: Gates) -> None:
        """Drop gates that count nothing and lead nowhere."""
        tenant, queue, host = gates
        if not (tenant.in_flight or tenant.lanes):
            self._tenants.pop(entry.tenant, None)
        if not (queue.in_flight or queue.lanes):
            self._queues.pop((entry.tenant, entry.queue), None)
        if not (host.in_flight or host.lanes):
            self._let_idle(entry.host)

    def _let_idle(self, host: str) -> None:
        """Keep what was learned about a host for a while; forget the host that has been idle longest."""
        self._idle_hosts[host] = None
        if len(self._idle_hosts) > self._hosts_kept:
            longest, _ = self._idle_hosts.popitem(last=False)
            del self._hosts[longest]


def _assign(caps: dict[Key, int], key: Key, cap: int | None) -> None:
    if cap is None:
        caps.pop(key, None)
    else:
        caps[key] = cap
