"""What becomes of a load that is known ahead, under limits: how much starts in which minute, and how much waits.

A small model of this package: time goes in steps of a minute, tasks are an amount and not one by one. A lane is what
one tenant has in one queue for one host. Each step lets what has waited longest go first, as much of it as all of its
gates have room for; what falls due in the same minute shares the room by its amount.

A gate bounds how many are in flight (`slots`), how many start a minute (`per_minute`), or both. A start takes a slot
for as long as calls to its host are known to last: part of a minute's room if that is less, one slot for minutes if it
is more. Where that is not known it takes nothing, so that an unknown host is never said to be slow.

Pure, and the same for the same load.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

Lane = tuple[str, str, str]
"""Tenant, queue, host."""
Load = Mapping[Lane, Sequence[float]]
MINUTE_S = 60.0
# Sums of parts are not exact; less than this is nothing.
DUST = 1e-6


class Cap(msgspec.Struct, frozen=True):
    """What a gate allows; None is not limited."""

    slots: float | None = None
    per_minute: float | None = None


class Caps(msgspec.Struct, frozen=True):
    """The limits that there are: of all together, of a tenant, of a queue of a tenant, of a host."""

    total: Cap = Cap()
    tenants: Mapping[str, Cap] = {}
    queues: Mapping[tuple[str, str], Cap] = {}
    hosts: Mapping[str, Cap] = {}
    any_host: Cap = Cap()
    durations_s: Mapping[str, float] = {}
    """How long a call lasts, by host."""


class Minute(msgspec.Struct, frozen=True):
    """What happens in one."""

    due: float
    starts: float
    delayed: float
    """Of those that start, how many were due in an earlier one."""
    backlog: float
    """Due, and not started at its end."""


class Gate:
    """One limit, and what is in flight under it."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._held: dict[int, float] = {}
        self._slots_left = 0.0
        self._starts_left = 0.0
        self.asked = 0.0

    @property
    def bounds(self) -> bool:
        """Whether it says anything at all."""
        return self._cap.slots is not None or self._cap.per_minute is not None

    def begin(self, minute: int) -> None:
        """Another minute."""
        self._slots_left = float("inf") if self._cap.slots is None else self._cap.slots - self._held.pop(minute, 0.0)
        self._starts_left = float("inf") if self._cap.per_minute is None else self._cap.per_minute
        self.asked = 0.0

    def room(self, cost: float) -> float:
        """How many starts that each take so much of a slot in this minute still pass."""
        by_slots = self._slots_left / cost if cost else float("inf")
        return max(0.0, min(by_slots, self._starts_left))

    def take(self, minute: int, starts: float, duration_s: float) -> None:
        """So many have passed, and last so long."""
        self._starts_left -= starts
        if self._cap.slots is None:
            return
        self._slots_left -= starts * min(duration_s / MINUTE_S, 1.0)
        whole, rest = divmod(duration_s / MINUTE_S, 1.0)
        for later in range(1, int(whole)):
            self._held[minute + later] = self._held.get(minute + later, 0.0) + starts
        if whole >= 1 and rest:
            self._held[minute + int(whole)] = self._held.get(minute + int(whole), 0.0) + starts * rest


class _Queued(msgspec.Struct):
    """What of a lane waits, by the minute in which it was due, and what stands before it."""

    lane: Lane
    gates: list[Gate]
    duration_s: float
    watched: bool
    waits: dict[int, float]

    @property
    def cost(self) -> float:
        return min(self.duration_s / MINUTE_S, 1.0)

    def room(self) -> float:
        return min((gate.room(self.cost) for gate in self.gates), default=float("inf"))


def play(load: Load, caps: Caps, minutes: int, watched: Callable[[Lane], bool] = lambda _: True) -> Iterator[Minute]:
    """What happens minute by minute, one at a time: to the lanes that are watched, beside all others."""
    gates = _Gates(caps)
    lanes = {
        lane: _Queued(lane, gates.of(lane), caps.durations_s.get(lane[2], 0.0), watched(lane), {})
        for lane in sorted(load)
    }
    waiting: dict[Lane, _Queued] = {}
    for minute in range(minutes):
        due = 0.0
        for lane, amounts in load.items():
            if amounts[minute]:
                queued = lanes[lane]
                queued.waits[minute] = amounts[minute]
                waiting[lane] = queued
                due += amounts[minute] if queued.watched else 0.0
        starts = delayed = 0.0
        if waiting:
            gates.begin(minute)
            starts, delayed = _serve(waiting, minute)
        for lane in [lane for lane, queued in waiting.items() if not queued.waits]:
            del waiting[lane]
        backlog = sum(sum(queued.waits.values()) for queued in waiting.values() if queued.watched)
        yield Minute(due, starts, delayed, backlog)


class _Gates:
    """Every gate, made once."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._made: dict[tuple[str, ...], Gate] = {}

    def of(self, lane: Lane) -> list[Gate]:
        tenant, queue, host = lane
        caps = self._caps
        found = [
            self._gate(("total",), caps.total),
            self._gate(("tenant", tenant), caps.tenants.get(tenant, Cap())),
            self._gate(("queue", tenant, queue), caps.queues.get((tenant, queue), Cap())),
            self._gate(("host", host), caps.hosts.get(host, caps.any_host)),
        ]
        return [gate for gate in found if gate.bounds]

    def _gate(self, name: tuple[str, ...], cap: Cap) -> Gate:
        return self._made.setdefault(name, Gate(cap))

    def begin(self, minute: int) -> None:
        for gate in self._made.values():
            if gate.bounds:
                gate.begin(minute)


def _serve(waiting: Mapping[Lane, _Queued], minute: int) -> tuple[float, float]:
    """Let go what may, the oldest first; how many start, and how many of them late."""
    starts = delayed = 0.0
    by_age: dict[int, list[_Queued]] = {}
    for _, queued in sorted(waiting.items()):
        for due in queued.waits:
            by_age.setdefault(due, []).append(queued)
    for due in sorted(by_age):
        went = sum(_share(by_age[due], due, minute))
        starts += went
        delayed += went if due < minute else 0.0
    return starts, delayed


def _share(lanes: list[_Queued], due: int, minute: int) -> Iterator[float]:
    """What is due at one time: each its part of the room first, then whoever still finds some."""
    for queued in lanes:
        for gate in queued.gates:
            gate.asked += queued.waits[due]
    parts = [_part(queued, due) for queued in lanes]
    for queued in lanes:
        for gate in queued.gates:
            gate.asked = 0.0
    for queued, part in zip(lanes, parts, strict=True):
        yield _go(queued, due, minute, part)
    for queued in lanes:
        if due in queued.waits:
            yield _go(queued, due, minute, queued.waits[due])


def _part(queued: _Queued, due: int) -> float:
    amount = queued.waits[due]
    return min([amount, *(amount * gate.room(queued.cost) / gate.asked for gate in queued.gates if gate.asked)])


def _go(queued: _Queued, due: int, minute: int, amount: float) -> float:
    went = min(amount, queued.room())
    if went <= DUST:
        return 0.0
    for gate in queued.gates:
        gate.take(minute, went, queued.duration_s)
    queued.waits[due] -= went
    if queued.waits[due] <= DUST:
        del queued.waits[due]
    return went if queued.watched else 0.0


def lane_of(minutes: int) -> "array[float]":
    """An empty lane."""
    return array("d", bytes(8 * minutes))
