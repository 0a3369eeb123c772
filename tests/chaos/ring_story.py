"""Who held what, and when, in a ring: from what the database wrote down of its leases and terms. Pure.

All times are of one machine's clock, which the database, the nodes and the harness read alike.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from tests.chaos.history import AttemptLine, Leases, Logged, Node, OfRing, Taken, Term

FOR_EVER = 1 << 62


class Life(msgspec.Struct):
    """A process: from its start to its end, as far as it came."""

    number: int
    name: str | None
    started: int
    gossips: bool = True
    ready: int = FOR_EVER
    exited: int = FOR_EVER


class Hold(msgspec.Struct, frozen=True):
    """A lease in one hand: from its taking to whatever came next."""

    taken: Taken
    until: int
    asked_until: int
    """When the statement began that ended it."""

    @property
    def holder(self) -> str | None:
        return self.taken.holder


def partition_of(task_id: str) -> int:
    """The last byte of an id."""
    return int(task_id[-2:], 16)


class RingStory:
    """What the checks of a ring ask."""

    def __init__(self, nodes: Iterable[Node], records: Iterable[OfRing]) -> None:
        self.lives = _lives(nodes)
        self.terms: dict[str, list[Term]] = defaultdict(list)
        self.samples: list[Leases] = []
        self.logged: list[Logged] = []
        changes: dict[int, list[Taken]] = defaultdict(list)
        for record in records:
            match record:
                case Taken():
                    changes[record.partition].append(record)
                case Term():
                    self.terms[record.incarnation].append(record)
                case Leases():
                    self.samples.append(record)
                case Logged():
                    self.logged.append(record)
                case _:
                    pass
        self.changes = dict(changes)
        self.holds = {partition: _holds(found) for partition, found in changes.items()}
        self.hold_by_epoch = {
            (partition, hold.taken.epoch): hold
            for partition, holds in self.holds.items()
            for hold in holds
            if hold.holder is not None
        }
        self.number_of = {one: self._number(found) for one, found in self.terms.items()}

    def _number(self, terms: list[Term]) -> int | None:
        """The process that is this incarnation: of its name, and there when it began its term."""
        first = terms[0]
        fit = [life for life in self.lives.values() if life.name == first.name and life.started <= first.at]
        return max(fit, key=lambda life: life.started).number if fit else None

    def hold_of(self, line: AttemptLine) -> Hold | None:
        """The lease under which an attempt was claimed."""
        return self.hold_by_epoch.get((partition_of(line.task_id), line.epoch))

    def claimer(self, line: AttemptLine) -> int | None:
        """The process that claimed it."""
        hold = self.hold_of(line)
        return None if hold is None or hold.holder is None else self.number_of.get(hold.holder)

    def held_between(self, partition: int, first_ms: int, last_ms: int) -> list[Hold]:
        """In whose hands it was between two instants, one after the other."""
        return [
            hold
            for hold in self.holds.get(partition, ())
            if hold.holder is not None and hold.taken.at <= last_ms and hold.until >= first_ms
        ]

    def in_force(self, incarnation: str, at: int) -> Term | None:
        """The last that was written of its term by then."""
        terms = self.terms.get(incarnation, [])
        place = bisect_right(terms, at, key=lambda term: term.at)
        return terms[place - 1] if place else None

    def dead_at(self, incarnation: str) -> int | None:
        """When it was said to have ended, if so."""
        return next((term.dead_at for term in self.terms.get(incarnation, ()) if term.dead_at is not None), None)

    def up_at(self, at: int) -> list[Life]:
        """Processes that were ready then."""
        return [life for life in self.lives.values() if life.ready <= at < life.exited]

    def nobody_between(self, first_ms: int, last_ms: int) -> list[tuple[int, int]]:
        """The times between two instants in which no process was ready."""
        edges = {first_ms, last_ms}
        for life in self.lives.values():
            edges.update(at for at in (life.ready, life.exited) if first_ms < at < last_ms)
        ordered = sorted(edges)
        return [(a, b) for a, b in pairwise(ordered) if not self.up_at(a)]


def _lives(nodes: Iterable[Node]) -> dict[int, Life]:
    lives: dict[int, Life] = {}
    for node in nodes:
        match node.what:
            case "started":
                lives[node.node] = Life(node.node, node.name, node.at, node.gossips)
            case "ready":
                lives[node.node].ready = node.at
            case "exited":
                lives[node.node].exited = node.at
    return lives


def _holds(changes: list[Taken]) -> list[Hold]:
    found: list[Hold] = []
    for place, taken in enumerate(changes):
        later = changes[place + 1] if place + 1 < len(changes) else None
        found.append(Hold(taken, later.at if later else FOR_EVER, later.asked if later else FOR_EVER))
    return found
