"""Many members in virtual time: real state machines and real seals, a network that loses, delays, doubles and cuts.

A process may be crashed, stopped and resumed (what came in meanwhile waits, up to what a socket buffer holds),
and started again under its name with a new incarnation. One seed gives one run.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from random import Random

import msgspec

from tasktick.cluster.effects import Change, Effect, Exchange, Happening, Send
from tasktick.cluster.membership import Membership
from tasktick.cluster.messages import Address, Node, Standing, decode, decode_state, encode
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import DATAGRAM_BYTES_MAX, Dropped, Keyring, Seal

KEYRING = Keyring([b"the key of the simulated ring"])
# What waits in the socket of a process that is stopped.
BUFFERED_MAX = 256


class Faults(msgspec.Struct):
    """What the network does."""

    loss: float = 0.0
    doubled: float = 0.0
    delay_ms: tuple[float, float] = (0.2, 5.0)
    exchanges_fail: bool = False
    # Nothing passes from the first to the second.
    cuts: set[tuple[str, str]] = msgspec.field(default_factory=set)


class Process:
    """One start of one node."""

    def __init__(self, world: "World", name: str, seeds: Iterable[str]) -> None:
        self.name = name
        self.offset_ms = world.random.uniform(0, 1e7)
        incarnation = f"{world.random.getrandbits(64):016x}"
        self.node = Node(incarnation, name, *world.address(name), started_at=int(world.now_ms) + 1)
        self.seal = Seal(KEYRING, incarnation)
        random = Random(world.random.getrandbits(64))
        places = [world.address(seed) for seed in seeds]
        self.machine = Membership(self.node, world.pace, random, world.now_ms + self.offset_ms, places)
        self.stopped = False
        self.ended = False
        self.waiting: list[tuple[bytes, Address]] = []
        self.tick_order = 0
        self.rumours_most = 0

    def sees(self, standing: Standing = Standing.ALIVE) -> set[str]:
        """Incarnations that it holds as such."""
        return {member.node.incarnation for member in self.machine.members if member.standing is standing}


class World:
    """All of them."""

    def __init__(self, seed: int, names: Iterable[str], pace: Pace | None = None) -> None:
        self.random = Random(seed)
        self.pace = pace or Pace()
        self.faults = Faults()
        self.now_ms = 0.0
        self.processes: dict[str, Process] = {}
        self.changes: list[tuple[float, str, Change]] = []
        self.dropped: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.exchanged: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        for name in names:
            self.start(name)

    def address(self, name: str) -> Address:
        """Where a name lives, always the same."""
        number = self._numbers.setdefault(name, len(self._numbers))
        return (f"10.0.{number >> 8}.{number & 255}", 7_946)

    # ------------------------------------------------------------------------------- processes

    def start(self, name: str) -> Process:
        """A new start of this node; its predecessor, if any, is gone."""
        if name in self.processes:
            self.crash(name)
        process = Process(self, name, list(self.processes)[:2])
        self.processes[name] = process
        self._plan_tick(process)
        return process

    def crash(self, name: str) -> None:
        """It is gone, without a word."""
        self.processes[name].ended = True

    def leave(self, name: str) -> None:
        """It says that it goes, stays as long as leaving takes, and is gone."""
        process = self.processes[name]
        self._perform(process, process.machine.leave(self.now_ms + process.offset_ms))
        self._plan_tick(process)
        self.after(self.pace.leave_ms, lambda: setattr(process, "ended", True))

    def stop(self, name: str) -> None:
        """SIGSTOP."""
        self.processes[name].stopped = True

    def resume(self, name: str) -> None:
        """SIGCONT: it takes what waits in its socket, and believes that no time has passed."""
        process = self.processes[name]
        process.stopped = False
        waiting, process.waiting = process.waiting, []
        for datagram, source in waiting:
            self._open(process, datagram, source)
        self._tick(process)

    def alive(self) -> list[Process]:
        """Processes that run."""
        return [process for process in self.processes.values() if not process.ended and not process.stopped]

    # ------------------------------------------------------------------------------- time

    def after(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Do this so much later."""
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), call))

    def run(self, duration_ms: float) -> None:
        """Let so much time pass."""
        self.run_until(lambda: False, duration_ms)

    def run_until(self, done: Callable[[], bool], within_ms: float) -> float | None:
        """How long it took until this held, looked at ten times a second; None if it did not in time."""
        started = look_at = self.now_ms
        while True:
            if self.now_ms >= look_at:
                if done():
                    return self.now_ms - started
                look_at = self.now_ms + 100
            if not self._events or self._events[0][0] > started + within_ms:
                self.now_ms = started + within_ms
                return None
            self.now_ms, _, call = heapq.heappop(self._events)
            call()

    def settle(self, within_ms: float = 60_000) -> float:
        """How long it takes until all who run see each other, and nobody else, as alive."""
        took = self.run_until(self.is_settled, within_ms)
        assert took is not None, {process.name: len(process.sees()) for process in self.alive()}
        return took

    def is_settled(self) -> bool:
        """Whether all who run see each other, and nobody else, as alive, and agree on what each says of itself."""
        running = self.alive()
        expected = {process.node.incarnation: process.machine.own for process in running}
        return all(
            {m.node.incarnation: m.node for m in process.machine.members if m.present} == expected
            and not process.sees(Standing.SUSPECT)
            for process in running
        )

    # ------------------------------------------------------------------------------- figures

    def happened(self, happening: Happening, since_ms: float = 0.0) -> list[tuple[float, str, Change]]:
        """What was noticed, by whom and when."""
        return [each for each in self.changes if each[2].happening is happening and each[0] >= since_ms]

    def false_deaths(self, since_ms: float = 0.0) -> int:
        """How often somebody who ran was taken for dead."""
        return len(self.happened(Happening.DIED, since_ms))

    # ------------------------------------------------------------------------------- inside

    def _plan_tick(self, process: Process) -> None:
        process.tick_order += 1
        order = process.tick_order
        delay_ms = max(0.0, process.machine.next_at() - process.offset_ms - self.now_ms)

        def tick() -> None:
            if order == process.tick_order:
                self._tick(process)

        # A timer is never early.
        self.after(delay_ms + 0.01, tick)

    def _tick(self, process: Process) -> None:
        if process.ended or process.stopped:
            return
        self._perform(process, process.machine.tick(self.now_ms + process.offset_ms))
        self._plan_tick(process)

    def _perform(self, process: Process, effects: list[Effect]) -> None:
        process.rumours_most = max(process.rumours_most, len(process.machine.members.rumours))
        for effect in effects:
            match effect:
                case Send():
                    self._send(process, effect)
                case Exchange():
                    self.exchanged[process.name] += 1
                    self._exchange(process, effect.address)
                case Change():
                    self.changes.append((self.now_ms, process.name, effect))

    def _at(self, address: Address) -> Process | None:
        for process in self.processes.values():
            if process.node.address == address and not process.ended:
                return process
        return None

    def _passes(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self.faults.cuts

    def _send(self, process: Process, effect: Send) -> None:
        self.sent[process.name] += 1
        datagram = process.seal.close(effect.incarnation, effect.messages)
        assert len(datagram) <= DATAGRAM_BYTES_MAX
        for _ in range(2 if self.random.random() < self.faults.doubled else 1):
            if self.random.random() >= self.faults.loss:
                self.after(
                    self.random.uniform(*self.faults.delay_ms),
                    lambda: self._deliver(process, effect.to, datagram),
                )

    def _deliver(self, sender: Process, to: Address, datagram: bytes) -> None:
        receiver = self._at(to)
        if receiver is None or not self._passes(sender.name, receiver.name):
            return
        if receiver.stopped:
            if len(receiver.waiting) < BUFFERED_MAX:
                receiver.waiting.append((datagram, sender.node.address))
            return
        self._open(receiver, datagram, sender.node.address)

    def _open(self, process: Process, datagram: bytes, source: Address) -> None:
        opened = process.seal.open(datagram)
        if isinstance(opened, Dropped):
            self.dropped[opened] += 1
            return
        messages = [message for message in map(decode, opened.messages) if message is not None]
        now_ms = self.now_ms + process.offset_ms
        self._perform(process, process.machine.handle(messages, opened.sender, source, now_ms))
        self._plan_tick(process)

    def _exchange(self, process: Process, to: Address) -> None:
        delay_ms = sum(self.random.uniform(*self.faults.delay_ms) for _ in range(4))
        # TCP sends again what is lost: it costs time.
        delay_ms += 200 * sum(self.random.random() < self.faults.loss for _ in range(4))
        self.after(delay_ms, lambda: self._exchanged(process, to))

    def _exchanged(self, process: Process, to: Address) -> None:
        other = self._at(to)
        if other is None or other is process or other.stopped or process.stopped or process.ended:
            return
        both = self._passes(process.name, other.name) and self._passes(other.name, process.name)
        if not both or self.faults.exchanges_fail:
            return
        for receiver, sender in ((other, process), (process, other)):
            state = decode_state(encode(sender.machine.state()))
            assert state is not None
            self._perform(receiver, receiver.machine.merge(state, self.now_ms + receiver.offset_ms))
            self._plan_tick(receiver)


def names(size: int) -> list[str]:
    """So many names."""
    return [f"node-{number}" for number in range(size)]
