"""The loop of the ring: gives the state machine what came in and the time, and does what it says.

It also carries nudges: straight to the node that they are for, a few to a datagram, so many a second and no more.
A nudge that is lost costs a moment, since everything that it hints at is polled.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tasktick import logs
from tasktick.clock import Clock, wait_for_event
from tasktick.cluster.effects import Change, Effect, Exchange, Happening, Send
from tasktick.cluster.members import Member
from tasktick.cluster.membership import Membership
from tasktick.cluster.messages import Address, DueSoon, Message, Nudge, State, WakeUp, decode, encode
from tasktick.cluster.seal import ROOM_BYTES, Dropped, Opened
from tasktick.cluster.transport import Transport
from tasktick.metrics import Metrics
from tasktick.service import Spawner

log = logs.get("gossip")

# What has come in and not been looked at; a node that is so far behind loses more datagrams, as it would anyway.
INBOX_MAX = 2_048
EXCHANGES_MAX = 4
# Nudges wait for the next turn of the loop, so that those of one batch of writes travel together.
NUDGES_WAITING_MAX = 1_024
NUDGE_DATAGRAMS_PER_SECOND = 200
NUDGES_BATCH = 24
REST_MAX_MS = 1_000.0
# So often nobody answers at each of those that it was told to join, until that is said.
JOINS_FAILED_NOTED = 5
NOTABLE = frozenset({Happening.DIED, Happening.ACCUSED})


class Nudged(Protocol):
    """Who is told of nudges. Both return at once."""

    def due_soon(self, tasks: Sequence[DueSoon]) -> None: ...

    def wake_up(self, partitions: Sequence[int]) -> None: ...


class _Datagram(msgspec.Struct, frozen=True):
    opened: Opened
    source: Address


class Gossip:
    """One node's life in the ring. Also what the transport tells what comes in."""

    name = "gossip"

    def __init__(
        self,
        clock: Clock,
        membership: Membership,
        transport: Transport,
        spawn: Spawner,
        metrics: Metrics,
        nudged: Nudged,
        on_change: Callable[[Change], None] = lambda change: None,
    ) -> None:
        self.wake = asyncio.Event()
        self.membership = membership
        self._clock = clock
        self._spawn = spawn
        self._metrics = metrics
        self._nudged = nudged
        self._on_change = on_change
        self._transport = transport
        self._inbox: deque[_Datagram] = deque()
        self._exchanging: set[Address] = set()
        self._nudges: dict[str, deque[Nudge]] = {}
        self._nudge_tokens = float(NUDGE_DATAGRAMS_PER_SECOND)
        self._nudge_tokens_at = clock.monotonic_ms()
        self._joins_failed = 0
        # Set whenever a member has changed; who waits for something clears it and looks.
        self.changed = asyncio.Event()

    # ------------------------------------------------------------------------------- told by the transport

    def received(self, opened: Opened, source: Address) -> None:
        self._take_in(_Datagram(opened, source))

    def merge(self, state: State) -> None:
        # At once: the answer to an exchange already holds what this node refutes.
        self._perform(self.membership.merge(state, self._clock.monotonic_ms()))
        self.wake.set()

    def state(self) -> State:
        return self.membership.state()

    def _take_in(self, item: _Datagram) -> None:
        if len(self._inbox) >= INBOX_MAX:
            self._metrics.events[Dropped.OVERLOADED] += 1
            return
        self._inbox.append(item)
        self.wake.set()

    # ------------------------------------------------------------------------------- told by the node

    def alive(self) -> list[Member]:
        """The others that are alive, or not yet known not to be."""
        return self.membership.members.others()

    def update(self, **facts: bool | str) -> None:
        """Say something new of this node: whether it is drained, by which incarnation its term goes."""
        self._perform(self.membership.update(self._clock.monotonic_ms(), **facts))
        self.wake.set()

    def nudge(self, incarnation: str, nudge: Nudge) -> None:
        """Hint something to that node; it may be lost, and is if there is too much."""
        waiting = self._nudges.setdefault(incarnation, deque())
        if sum(map(len, self._nudges.values())) >= NUDGES_WAITING_MAX:
            self._metrics.events["nudge_dropped"] += 1
            return
        waiting.append(nudge)
        self.wake.set()

    async def leave(self) -> None:
        """Say that this node goes, and wait until that was said often enough, or for as long as leaving may take."""
        deadline = self._clock.monotonic_ms() + self.membership.leave_ms
        self._perform(self.membership.leave(self._clock.monotonic_ms()))
        while self.alive() and len(self.membership.members.rumours) and (left := self._left_ms(deadline)) > 0:
            await self._clock.sleep_ms(min(left, self.membership.next_at() - self._clock.monotonic_ms() + 1))
            self._perform(self.membership.tick(self._clock.monotonic_ms()))

    def _left_ms(self, deadline: float) -> float:
        return deadline - self._clock.monotonic_ms()

    async def until(self, holds: Callable[[], bool], timeout_ms: float) -> bool:
        """Wait until this holds of the members; false if it does not in time."""
        deadline = self._clock.monotonic_ms() + timeout_ms
        while not holds():
            self.changed.clear()
            if self._left_ms(deadline) <= 0:
                return False
            await wait_for_event(self.changed, self._clock, self._left_ms(deadline))
        return True

    # ------------------------------------------------------------------------------- the loop

    async def step(self) -> float:
        """Take in what came, do what is due; how long until something is."""
        for _ in range(len(self._inbox)):
            self._handle(self._inbox.popleft())
        self._perform(self.membership.tick(self._clock.monotonic_ms()))
        self._send_nudges()
        rest_ms = self.membership.next_at() - self._clock.monotonic_ms()
        return min(max(rest_ms, 0.5), REST_MAX_MS)

    def _handle(self, datagram: _Datagram) -> None:
        sender = datagram.opened.sender
        messages: list[Message] = []
        due: list[DueSoon] = []
        woken: list[int] = []
        for raw in datagram.opened.messages:
            match decode(raw):
                case None:
                    self._metrics.events[Dropped.MALFORMED] += 1
                case DueSoon() as nudge:
                    due.append(nudge)
                case WakeUp(partitions=partitions):
                    woken.extend(partitions)
                case message:
                    messages.append(message)
        self._perform(self.membership.handle(messages, sender, datagram.source, self._clock.monotonic_ms()))
        if due:
            self._nudged.due_soon(due)
        if woken:
            self._nudged.wake_up(woken)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._transport.send(effect.to, effect.incarnation, effect.messages)
                case Exchange():
                    self._start_exchange(effect.address)
                case Change():
                    self._tell(effect)

    def _tell(self, change: Change) -> None:
        node, happening = change.node, change.happening
        self._metrics.events[happening] += 1
        seen = log.bind(happening=str(happening), node=node.name, incarnation=node.incarnation, other=change.other)
        if happening is Happening.CONFLICT:
            log.warning(
                "node_name_conflict",
                node=node.name,
                incarnation=node.incarnation,
                address=f"{node.host}:{node.port}",
                other=change.other,
                advice="two nodes live under this name, and only the later one owns anything: give each its own name "
                "with --node",
            )
        elif happening in NOTABLE:
            seen.warning("member_changed")
        else:
            seen.info("member_changed")
        self.changed.set()
        self._on_change(change)

    def _start_exchange(self, address: Address) -> None:
        if address in self._exchanging or len(self._exchanging) >= EXCHANGES_MAX:
            return
        self._exchanging.add(address)
        self._spawn(self._exchange(address), "gossip_exchange")

    async def _exchange(self, address: Address) -> None:
        try:
            done = await self._transport.exchange(address)
            self._metrics.events["gossip_exchanged" if done else "gossip_exchange_failed"] += 1
            self._note_join(address, done)
        finally:
            self._exchanging.discard(address)

    def _note_join(self, address: Address, done: bool) -> None:
        """Say once that nobody is found, until somebody was."""
        seeds = self.membership.seeds
        if done or self.alive():
            self._joins_failed = 0
        elif address in seeds:
            self._joins_failed += 1
            if self._joins_failed == JOINS_FAILED_NOTED * len(set(seeds)):
                log.warning(
                    "gossip_joins_nobody",
                    join=[f"{host}:{port}" for host, port in seeds],
                    tries=self._joins_failed,
                    advice="nobody answers there, or has another key: look at --join, at the --gossip and the log of "
                    "the other, at cluster.keys_file (the same on each node), and at the firewall (TCP and UDP)",
                )

    # ------------------------------------------------------------------------------- nudges

    def _send_nudges(self) -> None:
        if not self._nudges:
            return
        now_ms = self._clock.monotonic_ms()
        earned = (now_ms - self._nudge_tokens_at) * NUDGE_DATAGRAMS_PER_SECOND / 1_000
        self._nudge_tokens = min(self._nudge_tokens + max(0.0, earned), float(NUDGE_DATAGRAMS_PER_SECOND))
        self._nudge_tokens_at = now_ms
        for incarnation, waiting in self._nudges.items():
            member = self.membership.members.get(incarnation)
            while waiting:
                if member is None or not member.present or self._nudge_tokens < 1:
                    self._metrics.events["nudge_dropped"] += len(waiting)
                    break
                self._nudge_tokens -= 1
                self._metrics.events["nudge_sent"] += 1
                self._transport.send(member.node.address, incarnation, _batch(waiting))
        self._nudges.clear()


def _batch(waiting: deque[Nudge]) -> tuple[bytes, ...]:
    """The first few, as many as fit one datagram; they are taken off the line."""
    batch: list[bytes] = []
    room = ROOM_BYTES
    while waiting and len(batch) < NUDGES_BATCH:
        encoded = encode(waiting[0])
        if batch and len(encoded) > room:
            break
        room -= len(encoded)
        batch.append(encoded)
        waiting.popleft()
    return tuple(batch)
