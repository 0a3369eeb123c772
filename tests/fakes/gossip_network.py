"""The transport of the ring in memory: same seals, same exchanges, a network of function calls.

It passes the same tests as the sockets (`tests/unit/cluster/test_transport.py`).
"""

import asyncio
from collections.abc import Callable

from tasktick.cluster.messages import Address
from tasktick.cluster.seal import Dropped
from tasktick.cluster.transport import Door


class MemoryNetwork:
    """Who is where. `passes` says whether something gets from one address to another."""

    def __init__(self) -> None:
        self.members: dict[Address, MemoryTransport] = {}
        self.passes: Callable[[Address, Address], bool] = lambda source, to: True
        self.loses_datagrams = False
        self._opened = 0

    def open(self, door: Door, host: str = "127.0.0.1") -> "MemoryTransport":
        """A place for this one."""
        transport = MemoryTransport(self, door, (host, 20_000 + self._opened))
        self._opened += 1
        self.members[transport.address] = transport
        return transport

    def throw(self, to: Address, datagram: bytes, source: Address = ("127.0.0.1", 9)) -> None:
        """Deliver these bytes in the next turn of the loop, if they get there."""
        receiver = self.members.get(to)
        if receiver is not None and not self.loses_datagrams and self.passes(source, to):
            asyncio.get_running_loop().call_soon(receiver.deliver, datagram, source)


class MemoryTransport:
    """One place in the network."""

    def __init__(self, network: MemoryNetwork, door: Door, address: Address) -> None:
        self._network = network
        self._address = address
        self.door = door
        self._closed = False

    @property
    def address(self) -> Address:
        return self._address

    def deliver(self, datagram: bytes, source: Address) -> None:
        """These bytes have arrived."""
        if not self._closed:
            self.door.datagram(datagram, source)

    def send(self, to: Address, incarnation: str, messages: tuple[bytes, ...]) -> None:
        if self._closed:
            self.door.events[Dropped.UNSENT] += 1
        else:
            self._network.throw(to, self.door.seal.close(incarnation, messages), self._address)

    async def exchange(self, to: Address) -> bool:
        await asyncio.sleep(0)
        other = self._network.members.get(to)
        both = self._network.passes(self._address, to) and self._network.passes(to, self._address)
        if self._closed or other is None or not both:
            return False
        hello = other.door.hello()
        push = self.door.push(hello)
        pull = None if push is None else other.door.pull(hello, push)
        return push is not None and pull is not None and self.door.finish(hello, push, pull)

    async def close(self) -> None:
        self._closed = True
        self._network.members.pop(self._address, None)
