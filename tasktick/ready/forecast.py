"""What becomes of a load that is known ahead, under limits: how much starts in which minute, and how much waits.

A small model of this package: time goes in steps of a minute, tasks are an amount and not one by one. A lane is what
one tenant has in one queue for one host. Each step lets what has waited longest go first, as much of it as all of its
gates have room for; what falls due in the same minute shares the room by its amount.

A gate bounds how many are in flight (`slots`), how many start a minute (`per_minute`), or both. A start takes a slot
for as long as calls to its host are known to last: part of a minute's room if that is less, one slot for minutes if it
is more. Where that is not known it takes nothing, so that an unknown host is never said to be slow.

Pure, and the same for the same load.
"""

from collections.abc import Callable, Iterator, Mapping, MutableSequence
from itertools import accumulate
from math import ceil
from operator import add

import msgspec

Lane = tuple[str, str, str]
"""Tenant, queue, host."""
Amounts = MutableSequence[float]
"""One for each minute."""
Load = Mapping[Lane, Amounts]
INFINITE = float("inf")
MINUTE_S = 60.0
# Sums of parts are not exact; less than this is nothing.
DUST = 1e-6


class Cap(msgspec.Struct, frozen=True):
    """What a gate allows; None is not limited."""

    slots: float | None = None
    per_minute: float | None = None


NO_CAP = Cap()


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
    """One limit, what would pass it at once, and what is in flight under it."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        # What would start, and take of the slots, if nothing were held.
        self._wanted: Amounts = []
        self._wanted_slots: Amounts = []
        # What passes in any case, since it meets no limit that is ever reached.
        self._passing: Amounts = []
        self._passing_slots: Amounts = []
        self._held: dict[int, float] = {}
        self._slots_left = 0.0
        self._starts_left = 0.0
        self._may_fill: bool | None = None
        self.asked = 0.0

    def want(self, amounts: Amounts, duration_s: float) -> None:
        """So much would pass."""
        if self._cap.per_minute is not None:
            self._wanted = _added(self._wanted, amounts)
        if self._cap.slots is not None and duration_s:
            self._wanted_slots = _added(self._wanted_slots, _in_flight(amounts, duration_s))

    def let_pass(self, amounts: Amounts, duration_s: float) -> None:
        """So much passes beside what is held."""
        if self._cap.per_minute is not None:
            self._passing = _added(self._passing, amounts)
        if self._cap.slots is not None and duration_s:
            self._passing_slots = _added(self._passing_slots, _in_flight(amounts, duration_s))

    @property
    def may_fill(self) -> bool:
        """Whether there is a minute in which more would pass than may."""
        if self._may_fill is None:
            slots, per_minute = self._cap.slots, self._cap.per_minute
            by_rate = per_minute is not None and max(self._wanted, default=0.0) > per_minute
            self._may_fill = by_rate or (slots is not None and max(self._wanted_slots, default=0.0) > slots)
        return self._may_fill

    def begin(self, minute: int) -> None:
        """Another minute."""
        slots, per_minute = self._cap.slots, self._cap.per_minute
        self._slots_left = INFINITE
        if slots is not None:
            passing = self._passing_slots[minute] if self._passing_slots else 0.0
            self._slots_left = slots - self._held.pop(minute, 0.0) - passing
        self._starts_left = INFINITE
        if per_minute is not None:
            self._starts_left = per_minute - (self._passing[minute] if self._passing else 0.0)
        self.asked = 0.0

    def room(self, cost: float) -> float:
        """How many starts that each take so much of a slot in this minute still pass."""
        by_slots = self._slots_left / cost if cost else INFINITE
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


def _added(one: Amounts, other: Amounts) -> Amounts:
    return list(map(add, one, other)) if one else list(other)


def _in_flight(amounts: Amounts, duration_s: float) -> Amounts:
    """How many slots starts take in each minute, at most: those of the minutes before that are still in flight too."""
    minutes = duration_s / MINUTE_S
    if minutes <= 1:
        return [amount * minutes for amount in amounts]
    sums = list(accumulate(amounts))
    width = ceil(minutes)
    return [here - (sums[at - width] if at >= width else 0.0) for at, here in enumerate(sums)]


class _Queued(msgspec.Struct):
    """What of a lane waits, by the minute in which it was due, and what stands before it."""

    amounts: Amounts
    gates: list[Gate]
    duration_s: float
    watched: bool
    waits: dict[int, float]

    @property
    def cost(self) -> float:
        return min(self.duration_s / MINUTE_S, 1.0)

    def room(self) -> float:
        return min((gate.room(self.cost) for gate in self.gates), default=INFINITE)


class Play:
    """A load and its limits. First every lane is taken in, then every lane is sorted, then come the minutes.

    A lane before no gate that is ever full passes; only the others are played.
    """

    def __init__(self, caps: Caps, minutes: int, watched: Callable[[Lane], bool] = lambda _: True) -> None:
        self._caps = caps
        self._minutes = minutes
        self._watched = watched
        self._gates: dict[tuple[str, ...], Gate] = {}
        self._held: dict[Lane, _Queued] = {}
        self._passing: Amounts = [0.0] * minutes

    def take_in(self, lane: Lane, amounts: Amounts) -> None:
        """This is a part of the load."""
        duration_s = self._caps.durations_s.get(lane[2], 0.0)
        for gate in self._gates_of(lane):
            gate.want(amounts, duration_s)

    def sort(self, lane: Lane, amounts: Amounts) -> None:
        """Every lane has been taken in: whether this one may have to wait."""
        gates, duration_s = self._gates_of(lane), self._caps.durations_s.get(lane[2], 0.0)
        if any(gate.may_fill for gate in gates):
            self._held[lane] = _Queued(amounts, gates, duration_s, self._watched(lane), {})
            return
        for gate in gates:
            gate.let_pass(amounts, duration_s)
        if self._watched(lane):
            self._passing = _added(self._passing, amounts)

    def minutes(self) -> Iterator[Minute]:
        """What happens, minute by minute."""
        lanes = dict(sorted(self._held.items()))
        waiting: dict[Lane, _Queued] = {}
        gates = {id(gate): gate for queued in lanes.values() for gate in queued.gates}
        for minute in range(self._minutes):
            due = 0.0
            for lane, queued in lanes.items():
                if queued.amounts[minute]:
                    queued.waits[minute] = queued.amounts[minute]
                    waiting[lane] = queued
                    due += queued.amounts[minute] if queued.watched else 0.0
            starts = delayed = backlog = 0.0
            if waiting:
                for gate in gates.values():
                    gate.begin(minute)
                starts, delayed = _serve(waiting, minute)
                waiting = {lane: queued for lane, queued in waiting.items() if queued.waits}
                backlog = sum(sum(queued.waits.values()) for queued in waiting.values() if queued.watched)
            passing = self._passing[minute]
            yield Minute(due + passing, starts + passing, delayed, backlog)

    def _gates_of(self, lane: Lane) -> list[Gate]:
        tenant, queue, host = lane
        caps = self._caps
        named = (
            (("total",), caps.total),
            (("tenant", tenant), caps.tenants.get(tenant)),
            (("queue", tenant, queue), caps.queues.get((tenant, queue))),
            (("host", host), caps.hosts.get(host, caps.any_host)),
        )
        return [self._gate(name, cap) for name, cap in named if cap is not None and cap != NO_CAP]

    def _gate(self, name: tuple[str, ...], cap: Cap) -> Gate:
        found = self._gates.get(name)
        if found is None:
            found = self._gates[name] = Gate(cap)
        return found


def play(load: Load, caps: Caps, minutes: int, watched: Callable[[Lane], bool] = lambda _: True) -> Iterator[Minute]:
    """All of it at once: what happens minute by minute to the lanes that are watched, beside all others."""
    made = Play(caps, minutes, watched)
    for lane, amounts in load.items():
        made.take_in(lane, amounts)
    for lane, amounts in load.items():
        made.sort(lane, amounts)
    return made.minutes()


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
