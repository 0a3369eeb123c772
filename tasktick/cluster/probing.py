"""Whom to probe next, and what became of it: the rounds, the one probe under way, and probes made for others.

Every member is probed once in each round, in an order that is drawn anew for each; so a dead one is noticed within
two rounds at most, and nobody is probed by all at once.
"""

from collections.abc import Callable
from random import Random

import msgspec

from tasktick.cluster.messages import Address

# A relay gives up a little before who asked does, so that its nack still counts.
NACK_PART = 0.8


class Probe(msgspec.Struct):
    """The probe under way: `helpers` have been asked to try too, `nacks` of them have answered that they cannot."""

    target: str
    sequence: int
    ask_at: float
    ends_at: float
    helpers: frozenset[str] = frozenset()
    nacks: int = 0
    asked: bool = False
    answered: bool = False


class Relayed(msgspec.Struct):
    """A ping that was sent for another member."""

    target: str
    requester: str
    reply_to: Address
    reply_sequence: int
    nack_at: float


class Prober:
    """Rounds and what is under way. Sends nothing itself."""

    def __init__(self, random: Random, relays_max: int) -> None:
        self._random = random
        self._relays_max = relays_max
        self._round: list[str] = []
        self._sequence = 0
        self.current: Probe | None = None
        self.relays: dict[int, Relayed] = {}

    def next_sequence(self) -> int:
        """A number for a ping, never used before by this start of the node."""
        self._sequence += 1
        return self._sequence

    def next_target(self, candidates: list[str], is_candidate: Callable[[str], bool]) -> str | None:
        """Whose turn it is; None if there is nobody. One who came meanwhile waits for the next round."""
        while self._round:
            target = self._round.pop()
            if is_candidate(target):
                return target
        self._round = candidates
        self._random.shuffle(self._round)
        return self._round.pop() if self._round else None

    def start(self, target: str, now_ms: float, timeout_ms: float, length_ms: float) -> Probe:
        """Probe this one; if it does not answer within the timeout, others are asked until the end."""
        self.current = Probe(target, self.next_sequence(), now_ms + timeout_ms, now_ms + length_ms)
        return self.current

    def relay(self, relayed: Relayed) -> int | None:
        """The number under which to ping for another; None if there are too many already."""
        if len(self.relays) >= self._relays_max:
            return None
        sequence = self.next_sequence()
        self.relays[sequence] = relayed
        return sequence

    def acked(self, sequence: int, sender: str) -> Relayed | None:
        """An answer: to the probe under way, or to a relayed ping, which is to be passed on."""
        probe = self.current
        if probe is not None and sequence == probe.sequence:
            probe.answered = probe.answered or sender == probe.target or sender in probe.helpers
            return None
        relayed = self.relays.get(sequence)
        if relayed is None or relayed.target != sender:
            return None
        return self.relays.pop(sequence)

    def nacked(self, sequence: int, sender: str) -> None:
        """A helper hears us, but not the target."""
        probe = self.current
        if probe is not None and sequence == probe.sequence and sender in probe.helpers:
            probe.nacks += 1

    def unanswered(self, now_ms: float) -> list[Relayed]:
        """Relayed pings for which it is time to say that there is no answer."""
        late = [sequence for sequence, relayed in self.relays.items() if relayed.nack_at <= now_ms]
        return [self.relays.pop(sequence) for sequence in late]

    def abandon(self) -> None:
        """Judge nobody by what is under way: this node was not there to hear the answers."""
        self.current = None
        self.relays.clear()

    def next_at(self) -> float:
        """When something here is due."""
        due = min((relayed.nack_at for relayed in self.relays.values()), default=float("inf"))
        probe = self.current
        if probe is None or probe.answered:
            return due
        return min(due, probe.ends_at if probe.asked else probe.ask_at)
