"""What is held of each member, and what a rumour changes about it.

| rumour | about a member held as | counts if its revision is |
|---|---|---|
| alive | alive, suspect, dead | higher |
| suspect | alive, suspect; of the dead it only raises the revision | the same or higher |
| dead | suspect; of one held as alive it only makes a suspect | the same or higher |
| left | anything but left | any: it says so itself, and is final |

A death is believed at once only of whom we suspect already: one deaf member must not bury the healthy.
Of an unknown member only `alive` counts: of somebody who is no more nothing need be known. About this node
itself an accusation is answered with a higher revision; nobody else may raise it.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from tasktick.cluster.awareness import Awareness
from tasktick.cluster.broadcast import RumourQueue
from tasktick.cluster.effects import Change, Happening
from tasktick.cluster.messages import (
    ENTRIES_MAX,
    REVISION_MAX,
    Alive,
    Dead,
    Entry,
    Left,
    Node,
    Rumour,
    Standing,
    State,
    Suspect,
    encode,
)
from tasktick.cluster.pace import Pace
from tasktick.cluster.suspicion import Suspicion

# Nobody refutes a million times; a rumour that leaps so far is none.
REVISION_LEAP_MAX = 1_000_000


class Member(msgspec.Struct):
    """What is held of one member."""

    node: Node
    revision: int
    standing: Standing
    since_ms: float
    suspicion: Suspicion | None = None
    # When it was last told to its face what is held of it.
    told_at: float = float("-inf")
    # A later start has its name or address: it is hardly alive, whatever old tales say.
    replaced: bool = False

    @property
    def present(self) -> bool:
        """Alive, or not yet known not to be."""
        return self.standing <= Standing.SUSPECT

    def accusation(self, accuser: str) -> Suspect | Dead | None:
        """What it must refute, if anything."""
        match self.standing:
            case Standing.SUSPECT:
                return Suspect(self.node.incarnation, self.revision, accuser)
            case Standing.DEAD:
                return Dead(self.node.incarnation, self.revision, accuser)
            case _:
                return None


class Members:
    """All members, this node among them."""

    def __init__(self, own: Node, pace: Pace, awareness: Awareness, now_ms: float) -> None:
        if not 2 <= pace.members_max <= ENTRIES_MAX:
            raise ValueError(f"members_max is from 2 to {ENTRIES_MAX}, the most that a state may hold")
        self.own = Member(own, 1, Standing.ALIVE, now_ms)
        self.rumours = RumourQueue(pace.rumours_max)
        self.changes: list[Change] = []
        self._pace = pace
        self._awareness = awareness
        self._by_incarnation = {own.incarnation: self.own}
        self._conflicts: set[tuple[str, str]] = set()
        self.spread(Alive(own, 1))

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_incarnation.values())

    def __len__(self) -> int:
        return len(self._by_incarnation)

    def get(self, incarnation: str) -> Member | None:
        """What is held of this one."""
        return self._by_incarnation.get(incarnation)

    def others(self) -> list[Member]:
        """Those present, without this node."""
        return [member for member in self if member.present and member is not self.own]

    @property
    def present_count(self) -> int:
        """How many the ring has, this node among them."""
        return sum(member.present for member in self)

    def spread(self, rumour: Rumour) -> None:
        """Pass this on with what is sent anyway, and in the rounds of gossip."""
        subject = rumour.node.incarnation if isinstance(rumour, Alive) else rumour.incarnation
        self.rumours.add(subject, encode(rumour))

    def state(self) -> State:
        """Everything that is held, this node first."""
        rest = (member for member in self if member is not self.own)
        return State(tuple(Entry(m.node, m.revision, m.standing) for m in (self.own, *rest)))

    # ------------------------------------------------------------------------------- hearing

    def hear(self, rumour: Rumour, now_ms: float) -> bool:
        """Take it for what it is worth; true if it accused this node, and whoever said it should hear better."""
        if isinstance(rumour, Alive):
            self._hear_alive(rumour, now_ms)
            return False
        if rumour.incarnation == self.own.node.incarnation:
            return self._hear_of_self(rumour)
        member = self.get(rumour.incarnation)
        if member is None or rumour.revision > member.revision + REVISION_LEAP_MAX:
            return False
        match rumour:
            case Suspect():
                self._hear_suspect(member, rumour, now_ms)
            case Dead():
                if member.standing is Standing.SUSPECT and rumour.revision >= member.revision:
                    member.revision = rumour.revision
                    self.bury(member, now_ms, rumour.accuser)
                else:
                    self._hear_suspect(member, rumour, now_ms)
            case Left():
                if member.standing is not Standing.LEFT:
                    self._move(member, Standing.LEFT, now_ms)
                    member.revision = max(member.revision, rumour.revision)
                    self.spread(rumour)
                    self._note(Happening.LEFT, member.node)
        return False

    def _hear_of_self(self, rumour: Suspect | Dead | Left) -> bool:
        if isinstance(rumour, Left) or self.own.standing is Standing.LEFT:
            return False
        if rumour.revision >= self.own.revision:
            self.own.revision = min(rumour.revision + 1, REVISION_MAX)
            self._awareness.add(1)
            self.spread(Alive(self.own.node, self.own.revision))
            self._note(Happening.ACCUSED, self.own.node, rumour.accuser)
        return True

    def _hear_alive(self, rumour: Alive, now_ms: float) -> None:
        node = rumour.node
        if node.incarnation == self.own.node.incarnation:
            if rumour.revision > self.own.revision and self.own.standing is Standing.ALIVE:
                self.own.revision = min(rumour.revision + 1, REVISION_MAX)
                self.spread(Alive(self.own.node, self.own.revision))
            return
        member = self.get(node.incarnation)
        if member is None:
            self._meet(rumour, now_ms)
            return
        stale = rumour.revision <= member.revision or rumour.revision > member.revision + REVISION_LEAP_MAX
        if stale or member.standing is Standing.LEFT:
            return
        before, known = member.standing, member.node
        member.node, member.revision = node, rumour.revision
        self.spread(rumour)
        if before is not Standing.ALIVE:
            self._move(member, Standing.ALIVE, now_ms)
            self._note(Happening.RECOVERED if before is Standing.SUSPECT else Happening.JOINED, node)
        if node != known:
            self._note(Happening.UPDATED, node)

    def _meet(self, rumour: Alive, now_ms: float) -> None:
        if len(self) >= self._pace.members_max and not self._make_room():
            return
        member = Member(rumour.node, rumour.revision, Standing.ALIVE, now_ms)
        self._by_incarnation[rumour.node.incarnation] = member
        self.spread(rumour)
        self._note(Happening.JOINED, rumour.node)
        self._replace_predecessors(member, now_ms)

    def _make_room(self) -> bool:
        gone = [member for member in self if not member.present and member is not self.own]
        if not gone:
            return False
        self.forget(min(gone, key=lambda member: member.since_ms))
        return True

    def _replace_predecessors(self, member: Member, now_ms: float) -> None:
        """A later start under the same name or address ends the earlier one; if that lives after all, it refutes."""
        for other in list(self):
            if other is member:
                continue
            if other.node.name != member.node.name and other.node.address != member.node.address:
                continue
            older, newer = sorted((other, member), key=lambda each: (each.node.started_at, each.node.incarnation))
            # This node knows that it is there; of the others, whoever is met last may be an old tale.
            if older is self.own or older.standing is Standing.LEFT:
                continue
            older.replaced = True
            if older.present and newer.present:
                self.bury(older, now_ms, self.own.node.incarnation, by=newer.node.incarnation)

    def _hear_suspect(self, member: Member, rumour: Suspect | Dead, now_ms: float) -> None:
        if rumour.revision < member.revision or member.standing is Standing.LEFT:
            return
        if member.standing is Standing.DEAD:
            # It was alive at that revision, and is doubted there too: nothing below it is a sign of life.
            member.revision = rumour.revision
            return
        if member.suspicion is not None and rumour.revision == member.revision:
            if member.suspicion.confirm(rumour.accuser):
                self.spread(Suspect(rumour.incarnation, rumour.revision, rumour.accuser))
            return
        member.revision = rumour.revision
        self.suspect(member, now_ms, rumour.accuser, 1.0)

    # ------------------------------------------------------------------------------- judging

    def suspect(self, member: Member, now_ms: float, accuser: str, patience: float) -> None:
        """From now on it must refute; `patience` stretches its time."""
        if member.suspicion is not None and accuser == self.own.node.incarnation:
            if member.suspicion.confirm(accuser):
                self.spread(Suspect(member.node.incarnation, member.revision, accuser))
            return
        count = self.present_count
        least_ms = self._pace.suspicion_ms(count) * patience
        # Of n members n - 2 can confirm what one says of another; where too few can, none is waited for.
        wanted = self._pace.suspicion_factor - 2
        already = member.standing is Standing.SUSPECT
        self._move(member, Standing.SUSPECT, now_ms)
        member.suspicion = Suspicion(
            accuser,
            now_ms,
            wanted=0 if member.replaced or count - 2 < wanted else wanted,
            min_ms=least_ms,
            max_ms=least_ms * self._pace.suspicion_max_factor,
        )
        self.spread(Suspect(member.node.incarnation, member.revision, accuser))
        if not already:
            self._note(Happening.SUSPECTED, member.node, accuser)

    def bury(self, member: Member, now_ms: float, accuser: str, by: str = "") -> None:
        """It is dead, until it says otherwise."""
        self._move(member, Standing.DEAD, now_ms)
        self.spread(Dead(member.node.incarnation, member.revision, accuser))
        if by:
            self._note(Happening.REPLACED, member.node, by)
        else:
            self._note(Happening.DIED, member.node, accuser)

    def bury_overdue(self, now_ms: float) -> None:
        """Suspects whose time is up."""
        for member in list(self):
            if member.suspicion is not None and member.suspicion.ends_at <= now_ms:
                self.bury(member, now_ms, self.own.node.incarnation)

    def next_burial_at(self) -> float:
        """When the first suspect's time is up."""
        return min((m.suspicion.ends_at for m in self if m.suspicion is not None), default=float("inf"))

    def delay(self, duration_ms: float) -> None:
        """Nobody could be heard for so long: it counts against nobody."""
        for member in self:
            if member.suspicion is not None:
                member.suspicion.delay(duration_ms)

    # ------------------------------------------------------------------------------- upkeep

    def announce(self, node: Node) -> None:
        """This node says something new of itself."""
        self.own.node = node
        self.own.revision += 1
        self.spread(Alive(node, self.own.revision))

    def leave(self, now_ms: float) -> None:
        """This node goes, and says so."""
        self._move(self.own, Standing.LEFT, now_ms)
        self.spread(Left(self.own.node.incarnation, self.own.revision))

    def forget(self, member: Member) -> None:
        """Hold nothing of it any more."""
        del self._by_incarnation[member.node.incarnation]
        self.rumours.forget(member.node.incarnation)

    def forget_old(self, now_ms: float) -> None:
        """Those who died or left long ago."""
        for member in list(self):
            final = member.replaced or member.standing is Standing.LEFT
            kept_ms = self._pace.replaced_kept_ms if final else self._pace.dead_kept_ms
            if not member.present and member is not self.own and now_ms - member.since_ms >= kept_ms:
                self.forget(member)

    def report_conflicts(self, now_ms: float) -> None:
        """Names that more than one living node claims, each pair once for as long as it lasts."""
        by_name: dict[str, list[Node]] = {}
        for member in self:
            if member.standing is Standing.ALIVE and now_ms - member.since_ms >= self._pace.conflict_ms:
                by_name.setdefault(member.node.name, []).append(member.node)
        found = set(_pairs(by_name.values()))
        for first, second in sorted(found - self._conflicts):
            self._note(Happening.CONFLICT, self._by_incarnation[first].node, second)
        self._conflicts = found

    def _move(self, member: Member, standing: Standing, now_ms: float) -> None:
        if member.standing is not standing:
            member.standing, member.since_ms = standing, now_ms
        if standing is not Standing.SUSPECT:
            member.suspicion = None

    def _note(self, happening: Happening, node: Node, other: str = "") -> None:
        self.changes.append(Change(happening, node, other))


def _pairs(groups: Iterable[list[Node]]) -> Iterator[tuple[str, str]]:
    for group in groups:
        yield from pairwise(sorted(node.incarnation for node in group))
