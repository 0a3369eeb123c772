"""Whole gossip services: three on real sockets, and the same in memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest
import structlog

from tasktick.clock import SystemClock, wait_for_event
from tasktick.cluster.effects import Happening
from tasktick.cluster.gossip import JOINS_FAILED_NOTED, NUDGES_WAITING_MAX, Gossip
from tasktick.cluster.membership import Membership
from tasktick.cluster.messages import Address, DueSoon, Node, Standing, WakeUp
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import Dropped, Keyring, Seal
from tasktick.cluster.transport import Door, Transport, open_sockets
from tasktick.metrics import Metrics
from tasktick.service import Services
from tests.fakes.gossip_network import MemoryNetwork

KEYRING = Keyring([b"the key of three nodes"])
# A tenth of the defaults: the machine is one, and nobody wants to wait.
FAST = Pace(
    probe_every_ms=100,
    probe_timeout_ms=40,
    gossip_every_ms=20,
    reconnect_every_ms=500,
    join_every_ms=50,
    leave_ms=500,
    stall_ms=1_000,
)


class Hints:
    """What a node was nudged about."""

    def __init__(self) -> None:
        self.due: list[DueSoon] = []
        self.woken: list[int] = []
        self.came = asyncio.Event()

    def due_soon(self, tasks: Sequence[DueSoon]) -> None:
        self.due += tasks
        self.came.set()

    def wake_up(self, partitions: Sequence[int]) -> None:
        self.woken += partitions
        self.came.set()


class Running:
    """One node."""

    def __init__(
        self, gossip: Gossip, services: Services, transport: Transport, hints: Hints, metrics: Metrics
    ) -> None:
        self.gossip = gossip
        self.services = services
        self.transport = transport
        self.hints = hints
        self.metrics = metrics

    @property
    def incarnation(self) -> str:
        return self.gossip.membership.own.incarnation

    def names(self) -> set[str]:
        """Others that it holds as alive."""
        return {member.node.name for member in self.gossip.alive() if member.standing is Standing.ALIVE}

    async def sees(self, *names: str, within_ms: float = 10_000) -> None:
        """Wait until it sees these, and nobody else."""
        assert await self.gossip.until(lambda: self.names() == set(names), within_ms), self.names()

    async def end(self) -> None:
        """Gone without a word."""
        await self.services.stop()
        await self.transport.close()


async def start(
    number: int,
    seeds: Sequence[Address],
    network: MemoryNetwork | None,
    pace: Pace = FAST,
    keyring: Keyring = KEYRING,
) -> Running:
    """A node that is running."""
    clock, metrics, hints, random = SystemClock(), Metrics(), Hints(), Random(number)
    services = Services(clock)
    incarnation = f"{Random().getrandbits(64):016x}"
    door = Door(Seal(keyring, incarnation), metrics.events)
    transport: Transport = await open_sockets(door) if network is None else network.open(door)
    node = Node(incarnation, f"node-{number}", *transport.address, started_at=clock.now_ms(), version="1.0")
    membership = Membership(node, pace, random, clock.monotonic_ms(), seeds)
    gossip = door.listener = Gossip(clock, membership, transport, services.spawn, metrics, hints)
    services.run_loop(gossip)
    return Running(gossip, services, transport, hints, metrics)


@pytest.fixture(params=["sockets", "memory"])
async def three(request: pytest.FixtureRequest) -> AsyncIterator[list[Running]]:
    """Three nodes, of which two were told of the first."""
    network = None if request.param == "sockets" else MemoryNetwork()
    first = await start(1, (), network)
    nodes = [first, *[await start(number, [first.transport.address], network) for number in (2, 3)]]
    for node in nodes:
        await node.sees(*({"node-1", "node-2", "node-3"} - {node.gossip.membership.own.name}))
    yield nodes
    for node in nodes:
        await node.end()


@pytest.mark.slow
async def test_one_that_stops_without_a_word_is_found_dead(three: list[Running]) -> None:
    first, second, third = three
    await third.end()
    for node, other in ((first, "node-2"), (second, "node-1")):
        await node.sees(other)
        await node.gossip.until(lambda node=node: _standing(node, third) is Standing.DEAD, 10_000)  # type: ignore[misc] # bound defaults
        assert _standing(node, third) is Standing.DEAD
    assert sum(node.metrics.events[Happening.DIED] for node in (first, second)) == 2
    for node in (first, second):
        assert not [name for name in node.metrics.events if name in {Dropped.MALFORMED, Dropped.UNAUTHENTICATED}]


def _standing(node: Running, of: Running) -> Standing | None:
    member = node.gossip.membership.members.get(of.incarnation)
    return None if member is None else member.standing


@pytest.mark.slow
async def test_one_that_leaves_is_known_to_have_left(three: list[Running]) -> None:
    first, second, third = three
    await third.gossip.leave()
    await third.end()
    for node in (first, second):
        assert await node.gossip.until(lambda node=node: _standing(node, third) is Standing.LEFT, 5_000)  # type: ignore[misc] # bound defaults
    assert first.metrics.events[Happening.DIED] == 0


@pytest.mark.slow
async def test_what_a_node_says_anew_comes_to_all(three: list[Running]) -> None:
    first, second, third = three
    second.gossip.update(drained=True, api="http://127.0.0.1:8080")
    for node in (first, third):
        assert await node.gossip.until(lambda node=node: _is_drained(node, second), 5_000)  # type: ignore[misc] # bound defaults


def _is_drained(node: Running, of: Running) -> bool:
    member = node.gossip.membership.members.get(of.incarnation)
    return member is not None and member.node.drained and member.node.api == "http://127.0.0.1:8080"


@pytest.mark.slow
async def test_nudges_go_to_whom_they_are_for(three: list[Running]) -> None:
    first, second, third = three
    tasks = [DueSoon(f"{number:032x}", number) for number in range(60)]
    for task in tasks:
        first.gossip.nudge(second.incarnation, task)
    first.gossip.nudge(second.incarnation, WakeUp((1, 255)))
    while len(second.hints.due) < len(tasks) or not second.hints.woken:
        second.hints.came.clear()
        assert await wait_for_event(second.hints.came, SystemClock(), 5_000)
    assert (second.hints.due, second.hints.woken) == (tasks, [1, 255])
    assert (third.hints.due, third.hints.woken) == ([], [])
    # Some batches, not one datagram each.
    assert first.metrics.events["nudge_sent"] <= 5


@pytest.mark.slow
async def test_nudges_are_bounded_and_lost_where_nobody_is(three: list[Running]) -> None:
    first, second, _ = three
    first.gossip.nudge("f" * 16, WakeUp((1,)))
    for number in range(NUDGES_WAITING_MAX + 50):
        first.gossip.nudge(second.incarnation, DueSoon(f"{number:032x}", 1))
    await first.gossip.step()
    assert first.metrics.events["nudge_dropped"] >= 51


@pytest.mark.slow
async def test_a_node_that_starts_again_takes_the_place_of_its_former_self() -> None:
    network = MemoryNetwork()
    first = await start(1, (), network)
    second = await start(2, [first.transport.address], network)
    await first.sees("node-2")
    await second.end()
    again = await start(2, [first.transport.address], network)
    assert await first.gossip.until(lambda: _standing(first, again) is Standing.ALIVE, 5_000)
    assert await first.gossip.until(lambda: _standing(first, second) is Standing.DEAD, 5_000)
    assert len(first.gossip.alive()) == 1
    await again.end()
    await first.end()


@pytest.mark.slow
async def test_with_datagrams_cut_nobody_dies_for_exchanges_speak_for_them() -> None:
    network = MemoryNetwork()
    first = await start(1, (), network)
    second = await start(2, [first.transport.address], network)
    await first.sees("node-2")
    network.loses_datagrams = True
    assert await first.gossip.until(lambda: first.metrics.events[Happening.RECOVERED] >= 2, 10_000)
    assert first.metrics.events[Happening.DIED] == 0
    await second.end()
    await first.end()


async def test_one_that_joins_with_another_key_and_the_one_it_asks_say_so_once() -> None:
    with structlog.testing.capture_logs() as logs:
        first = await start(1, (), None)
        second = await start(2, [first.transport.address], None, keyring=Keyring([b"the key of another ring"]))
        async with asyncio.timeout(20):
            while second.metrics.events["gossip_exchange_failed"] < 2 * JOINS_FAILED_NOTED:
                second.gossip.changed.clear()
                await wait_for_event(second.gossip.changed, SystemClock(), 20)
        await second.end()
        await first.end()
    said = [line for line in logs if line["log_level"] == "warning"]
    assert sorted(line["event"] for line in said) == ["gossip_joins_nobody", "gossip_refused"]
    assert all("cluster.keys_file" in line["advice"] for line in said)
