"""The network of gossip in bad weather: datagrams are lost, late, doubled and out of order, ways are cut or clogged.

What comes to a process that is stopped waits in its socket until it goes on.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from random import Random
from typing import TypeVar

from tasktick.cluster.messages import Address
from tasktick.cluster.transport import Door
from tests.fakes.gossip_network import MemoryNetwork, MemoryTransport
from tests.sim.loop import PROCESS, SimLoop

T = TypeVar("T")


def within(process: str) -> Context:
    """Where something runs that belongs to this process."""
    context = Context()
    context.run(PROCESS.set, process)
    return context


class Weather(MemoryNetwork):
    """The network."""

    def __init__(self, loop: SimLoop, random: Random) -> None:
        super().__init__()
        self._loop = loop
        self._random = random
        self._process: dict[Address, str] = {}
        self.calm()
        self.passes = self._passes

    def calm(self) -> None:
        """Everything arrives, soon; what was clogged, now."""
        self.loss = 0.0
        self.doubling = 0.0
        self.delay_s = 0.0
        self.cut_all = False
        self.cut: set[tuple[str, str]] = set()
        self.clogged: dict[str, list[tuple[Address, bytes, Address]]] = getattr(self, "clogged", {})
        for process in list(self.clogged):
            self.unclog(process)

    def admit(self, door: Door, process: str) -> MemoryTransport:
        """A place for this process."""
        pull = door.pull
        door.pull = partial(within(process).run, pull)  # type: ignore[method-assign,call-arg] # its own process does it
        transport = self.open(door)
        self._process[transport.address] = process
        return transport

    def clog(self, process: str) -> None:
        """Nothing comes to it for now."""
        self.clogged.setdefault(process, [])

    def unclog(self, process: str) -> None:
        """What was to come comes at once, in any order."""
        waiting = self.clogged.pop(process, [])
        self._random.shuffle(waiting)
        for to, datagram, source in waiting:
            self._deliver(to, datagram, source)

    def _passes(self, source: Address, to: Address) -> bool:
        ends = self._process.get(source, ""), self._process.get(to, "")
        return not (self._is_cut(*ends) or any(self._loop.is_frozen(one) or one in self.clogged for one in ends))

    def _is_cut(self, source: str, to: str) -> bool:
        return self.cut_all or (source, to) in self.cut

    def throw(self, to: Address, datagram: bytes, source: Address = ("127.0.0.1", 9)) -> None:
        random = self._random
        process = self._process.get(to)
        if process is None or to not in self.members or self._is_cut(self._process.get(source, ""), process):
            return
        copies = 2 if random.random() < self.doubling else 1
        for _ in range(copies):
            if random.random() >= self.loss:
                late_s = 0.0003 + random.random() * self.delay_s
                self._later(late_s, lambda: self._arrive(process, to, datagram, source))

    def _later(self, late_s: float, arrive: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(late_s, arrive, context=Context())

    def _arrive(self, process: str, to: Address, datagram: bytes, source: Address) -> None:
        if process in self.clogged:
            self.clogged[process].append((to, datagram, source))
        else:
            self._deliver(to, datagram, source)

    def _deliver(self, to: Address, datagram: bytes, source: Address) -> None:
        receiver = self.members.get(to)
        if receiver is not None:
            self._loop.call_soon(receiver.deliver, datagram, source, context=within(self._process[to]))
