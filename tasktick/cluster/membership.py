"""The state machine of the ring: SWIM with Lifeguard's refinements. It is told what came in and what time it is,
and answers with what to send, whom to exchange states with, and what has changed.

Time is monotonic milliseconds of this node alone. Randomness is handed in, so one seed gives one run.
"""

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from tasktick.cluster.awareness import Awareness
from tasktick.cluster.effects import Effect, Exchange, Send
from tasktick.cluster.members import Member, Members
from tasktick.cluster.messages import (
    Ack,
    Address,
    Alive,
    Ask,
    Dead,
    Entry,
    Left,
    Message,
    Nack,
    Node,
    Ping,
    ProbeFor,
    Rumour,
    Standing,
    State,
    Suspect,
    encode,
)
from tasktick.cluster.pace import Pace
from tasktick.cluster.probing import NACK_PART, Prober, Relayed
from tasktick.cluster.seal import ROOM_BYTES

# Strangers are asked who they are at most this often.
ASK_EVERY_MS = 50
UPKEEP_EVERY_MS = 1_000
# Rounds of gossip come a little early or late, or nodes that started together would speak together for ever.
JITTER_PART = 0.1


class Membership:
    """One node's part in the ring."""

    def __init__(self, own: Node, pace: Pace, random: Random, now_ms: float, seeds: Sequence[Address] = ()) -> None:
        self._pace = pace
        self._random = random
        self._seeds = tuple(seeds)
        self.awareness = Awareness(pace.health_max)
        self.members = Members(own, pace, self.awareness, now_ms)
        self._prober = Prober(random, pace.relays_max)
        self._effects: list[Effect] = []
        self._last_ms = now_ms
        # Nodes that start together do not probe together.
        self._probe_at = now_ms + random.random() * pace.probe_every_ms
        self._gossip_at = now_ms
        # Soon once more: whoever joined at the same moment may have missed this node's first words.
        self._exchange_at = now_ms + (1 + 4 * random.random()) * pace.join_every_ms
        self._reconnect_at = now_ms
        self._upkeep_at = now_ms
        self._asked_at = float("-inf")

    @property
    def own(self) -> Node:
        """What this node says of itself."""
        return self.members.own.node

    @property
    def seeds(self) -> tuple[Address, ...]:
        """Whom it asks first."""
        return self._seeds

    @property
    def leave_ms(self) -> int:
        """How long leaving may take."""
        return self._pace.leave_ms

    @property
    def leaving(self) -> bool:
        """Whether this node has said that it goes."""
        return self.members.own.standing is Standing.LEFT

    # ------------------------------------------------------------------------------- told

    def handle(self, messages: Iterable[Message], sender: str, source: Address, now_ms: float) -> list[Effect]:
        """What an authentic datagram said; `source` is where it came from."""
        self._notice_stall(now_ms)
        for message in messages:
            self._handle(message, sender, source, now_ms)
        self._tell(sender, source, now_ms)
        return self._taken()

    def _handle(self, message: Message, sender: str, source: Address, now_ms: float) -> None:
        member = self.members.get(sender)
        # Where the sender says it is counts for more than where the datagram came from.
        reply_to = source if member is None else member.node.address
        match message:
            case Alive() | Suspect() | Dead() | Left():
                if self.members.hear(message, now_ms):
                    self._send(reply_to, sender, self._own_alive())
            case Ping():
                self._send(reply_to, sender, encode(Ack(message.sequence)))
            case ProbeFor():
                self._probe_for(message, sender, reply_to, now_ms)
            case Ack():
                self._acked(message, sender)
            case Nack():
                self._prober.nacked(message.sequence, sender)
            case Ask():
                self._send(reply_to, sender, self._own_alive())
            case _:  # a nudge is not for the state machine
                pass

    def merge(self, state: State, now_ms: float) -> list[Effect]:
        """What another node holds of all members: the living count, the dead are only suspected until they refute."""
        self._notice_stall(now_ms)
        teller = state.entries[0].node.incarnation
        for entry in state.entries:
            member = self.members.get(entry.node.incarnation)
            # Whom the teller doubts it does not bring back to life, nor into a ring that has forgotten it.
            believed = entry.standing is Standing.SUSPECT and (member is None or member.present)
            if entry.standing is Standing.ALIVE or believed:
                self.members.hear(Alive(entry.node, entry.revision), now_ms)
            if (rumour := _doubt(entry, teller)) is not None:
                self.members.hear(rumour, now_ms)
        return self._taken()

    def state(self) -> State:
        """What this node holds of all members."""
        return self.members.state()

    def update(self, now_ms: float, **facts: bool | str) -> list[Effect]:
        """Say something new of this node."""
        self._notice_stall(now_ms)
        node = msgspec.structs.replace(self.own, **facts)
        if node != self.own and not self.leaving:
            self.members.announce(node)
            self._gossip_at = now_ms
        return self._taken()

    def leave(self, now_ms: float) -> list[Effect]:
        """Say that this node goes; it is done when `rumours` are sent, or after the time that leaving may take."""
        if not self.leaving:
            self.members.leave(now_ms)
            self._prober.abandon()
            self._gossip(now_ms)
        return self._taken()

    # ------------------------------------------------------------------------------- time

    def tick(self, now_ms: float) -> list[Effect]:
        """Do what has become due."""
        self._notice_stall(now_ms)
        if not self.leaving:
            self._probe(now_ms)
            for relayed in self._prober.unanswered(now_ms):
                self._send(relayed.reply_to, relayed.requester, encode(Nack(relayed.reply_sequence)))
            self.members.bury_overdue(now_ms)
            self._exchange(now_ms)
        if now_ms >= self._gossip_at:
            self._gossip(now_ms)
        if now_ms >= self._upkeep_at:
            self._upkeep_at = now_ms + UPKEEP_EVERY_MS
            self.members.forget_old(now_ms)
            self.members.report_conflicts(now_ms)
        return self._taken()

    def next_at(self) -> float:
        """When to tick next, if nothing comes in before."""
        due = [self._upkeep_at]
        if len(self.members.rumours) or self._suspects():
            due.append(self._gossip_at)
        if not self.leaving:
            due += [self._probe_at, self._exchange_at, self._reconnect_at]
            due += [self._prober.next_at(), self.members.next_burial_at()]
        return max(min(due), self._last_ms)

    def _notice_stall(self, now_ms: float) -> None:
        """Whoever was stopped for long must not hold against others what it could not hear."""
        lost_ms = now_ms - self._last_ms
        self._last_ms = max(now_ms, self._last_ms)
        if lost_ms < self._pace.stall_ms:
            return
        self.awareness.add(1)
        self.members.delay(lost_ms)
        self._prober.abandon()
        self._probe_at = max(self._probe_at, now_ms + self._pace.probe_timeout_ms)

    # ------------------------------------------------------------------------------- probing

    def _probe(self, now_ms: float) -> None:
        probe = self._prober.current
        if probe is not None:
            if not probe.answered and not probe.asked and now_ms >= probe.ask_at:
                self._ask_others()
            if now_ms >= probe.ends_at:
                if not probe.answered:
                    self._probe_failed(now_ms)
                self._prober.current = None
        if self._prober.current is None and now_ms >= self._probe_at:
            self._start_probe(now_ms)

    def _start_probe(self, now_ms: float) -> None:
        length_ms = self.awareness.scale(self._pace.probe_every_ms)
        self._probe_at = now_ms + length_ms
        candidates = [member.node.incarnation for member in self.members.others()]
        target = self._prober.next_target(candidates, self._may_probe)
        member = None if target is None else self.members.get(target)
        if member is None:
            return
        timeout_ms = self.awareness.scale(self._pace.probe_timeout_ms)
        probe = self._prober.start(member.node.incarnation, now_ms, timeout_ms, length_ms)
        self._send_to(member, encode(Ping(probe.sequence)), *self._accusing(member))

    def _may_probe(self, incarnation: str) -> bool:
        member = self.members.get(incarnation)
        return member is not None and member.present and member is not self.members.own

    def _ask_others(self) -> None:
        probe = self._prober.current
        assert probe is not None
        probe.asked = True
        able = [m for m in self.members.others() if m.standing is Standing.ALIVE and m.node.incarnation != probe.target]
        helpers = self._random.sample(able, min(self._pace.indirect_probes, len(able)))
        probe.helpers = frozenset(helper.node.incarnation for helper in helpers)
        for helper in helpers:
            self._send_to(helper, encode(ProbeFor(probe.sequence, probe.target)))

    def _probe_failed(self, now_ms: float) -> None:
        """Nobody got an answer: if the helpers said so, it is likely the target; if they are silent too, it is us."""
        probe = self._prober.current
        assert probe is not None
        patience = self.awareness.scale(1.0)
        self.awareness.add(max(0, len(probe.helpers) - probe.nacks) if probe.helpers else 1)
        member = self.members.get(probe.target)
        if member is None or not member.present:
            return
        fresh = member.standing is Standing.ALIVE
        self.members.suspect(member, now_ms, self.own.incarnation, patience)
        if fresh:
            # Datagrams may be cut where connections are not; and it hears at once what it has to refute.
            self._effects.append(Exchange(member.node.address))

    def _acked(self, message: Ack, sender: str) -> None:
        relayed = self._prober.acked(message.sequence, sender)
        if relayed is not None:
            self._send(relayed.reply_to, relayed.requester, encode(Ack(relayed.reply_sequence)))
            return
        probe = self._prober.current
        if probe is not None and probe.sequence == message.sequence and probe.answered:
            self._prober.current = None
            self.awareness.add(-1)

    def _probe_for(self, message: ProbeFor, sender: str, reply_to: Address, now_ms: float) -> None:
        member = self.members.get(message.target)
        sequence = None
        if member is not None and member is not self.members.own:
            nack_at = now_ms + NACK_PART * self._pace.probe_timeout_ms
            relayed = Relayed(message.target, sender, reply_to, message.sequence, nack_at)
            sequence = self._prober.relay(relayed)
        if member is None or sequence is None:
            self._send(reply_to, sender, encode(Nack(message.sequence)))
        else:
            self._send_to(member, encode(Ping(sequence)), *self._accusing(member))

    # ------------------------------------------------------------------------------- gossip

    def _suspects(self) -> list[Member]:
        return [member for member in self.members if member.standing is Standing.SUSPECT]

    def _gossip(self, now_ms: float) -> None:
        spread = 1 + JITTER_PART * (2 * self._random.random() - 1)
        self._gossip_at = now_ms + self._pace.gossip_every_ms * spread
        suspects = [] if self.leaving else self._suspects()
        if suspects:
            # Whoever is accused is told by each who accuses, again and again: a lost datagram must cost no life.
            accused = self._random.choice(suspects)
            accused.told_at = now_ms
            self._send_to(accused, *self._accusing(accused))
        if not len(self.members.rumours):
            return
        targets = [member for member in self.members if self._hears_gossip(member, now_ms)]
        for member in self._random.sample(targets, min(self._pace.gossip_fanout, len(targets))):
            self._send_to(member)

    def _hears_gossip(self, member: Member, now_ms: float) -> bool:
        if member is self.members.own:
            return False
        recently = now_ms - member.since_ms < self._pace.gossip_to_dead_ms and not member.replaced
        return member.present or (member.standing is Standing.DEAD and recently)

    def _tell(self, sender: str, source: Address, now_ms: float) -> None:
        """Whoever speaks and is held for dead must know it; whoever is not known must say who it is."""
        if self.leaving:
            return
        member = self.members.get(sender)
        if member is None:
            if now_ms - self._asked_at >= ASK_EVERY_MS:
                self._asked_at = now_ms
                self._send(source, sender, encode(Ask()), self._own_alive())
        elif (accusing := self._accusing(member)) and now_ms - member.told_at >= self._pace.gossip_every_ms:
            member.told_at = now_ms
            self._send_to(member, *accusing)

    def _accusing(self, member: Member) -> tuple[bytes, ...]:
        accusation = member.accusation(self.own.incarnation)
        return () if accusation is None else (encode(accusation),)

    # ------------------------------------------------------------------------------- exchanges

    def _exchange(self, now_ms: float) -> None:
        others = self.members.others()
        if now_ms >= self._exchange_at:
            self._exchange_at = now_ms + self._pace.exchange_ms(len(others) + 1) * (0.5 + self._random.random())
            if others:
                self._effects.append(Exchange(self._random.choice(others).node.address))
        if now_ms >= self._reconnect_at:
            every_ms = self._pace.reconnect_every_ms if others else self._pace.join_every_ms
            self._reconnect_at = now_ms + every_ms * (0.5 + self._random.random())
            lost = self._lost(others)
            if lost:
                self._effects.append(Exchange(self._random.choice(lost)))

    def _lost(self, others: list[Member]) -> list[Address]:
        """Where somebody may be who is not with us: seeds that are no member's address, and the dead."""
        known = {member.node.address for member in others} | {self.own.address}
        dead = {m.node.address for m in self.members if m.standing is Standing.DEAD and not m.replaced}
        return sorted({*self._seeds, *dead} - known)

    # ------------------------------------------------------------------------------- sending

    def _own_alive(self) -> bytes:
        rumour: Rumour = Alive(self.own, self.members.own.revision)
        if self.leaving:
            rumour = Left(self.own.incarnation, self.members.own.revision)
        return encode(rumour)

    def _send_to(self, member: Member, *messages: bytes) -> None:
        self._send(member.node.address, member.node.incarnation, *messages)

    def _send(self, to: Address, incarnation: str, *messages: bytes) -> None:
        """One datagram, filled up with rumours."""
        room = ROOM_BYTES - sum(map(len, messages))
        rumours = self.members.rumours.take(room, self._pace.transmits(self.members.present_count))
        if messages or rumours:
            self._effects.append(Send(to, incarnation, (*messages, *rumours)))

    def _taken(self) -> list[Effect]:
        taken = [*self._effects, *self.members.changes]
        self._effects.clear()
        self.members.changes.clear()
        return taken


def _doubt(entry: Entry, teller: str) -> Rumour | None:
    """What another's entry says against a member."""
    incarnation, revision = entry.node.incarnation, entry.revision
    match entry.standing:
        case Standing.ALIVE:
            return None
        case Standing.SUSPECT | Standing.DEAD:
            return Suspect(incarnation, revision, teller)
        case Standing.LEFT:
            return Left(incarnation, revision)
