"""From settings to a ring on real sockets: two nodes that the settings alone bring together."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import pytest

from tasktick.clock import SystemClock
from tasktick.cluster.joining import ring_of
from tasktick.cluster.ownership import Ownership
from tasktick.cluster.seat import Hears, Ring, Seat
from tasktick.errors import ConfigError
from tasktick.metrics import Metrics
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.task import Due, Timer
from tasktick.service import Services
from tasktick.settings import ClusterConfig
from tasktick.store.leases import Start
from tests.store.drivers import InlineDatabase

OWN_KEY = bytes(32)
WITHIN_S = 10


class Seated:
    """A seat on its services, and what it heard."""

    def __init__(self, name: str, database: InlineDatabase) -> None:
        clock = SystemClock()
        incarnation = name * 16
        self.due: list[Timer] = []
        self.heard = asyncio.Event()
        self.services = Services(clock)
        self.ownership = Ownership(incarnation, clock.monotonic_ms)
        hears = Hears(
            gained=lambda partitions: None,
            due_soon=self._due_soon,
            forgotten=lambda: "another",
            look_again=lambda: None,
        )
        start = Start(incarnation, name, 2_000)
        self.seat = Seat(clock, database, start, self.ownership, Metrics(), hears, margin_ms=400, near_ms=2_000)

    def _due_soon(self, timers: Sequence[Timer]) -> None:
        self.due += timers
        self.heard.set()

    async def start(self, ring: Ring | None) -> None:
        await self.seat.start(self.services, ring, Random(1))

    @property
    def address(self) -> str:
        assert self.seat.gossip is not None
        host, port = self.seat.gossip.membership.own.address
        return f"{host}:{port}"


async def _until(holds: Callable[[], bool]) -> None:
    give_up = asyncio.get_running_loop().time() + WITHIN_S
    while not holds():
        assert asyncio.get_running_loop().time() < give_up, "it did not happen"
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_two_find_each_other_and_tell_what_is_due() -> None:
    database = InlineDatabase(shared=True)
    first, second = Seated("a", database), Seated("b", database)
    await first.start(ring_of(ClusterConfig(gossip="127.0.0.1:0"), "a", OWN_KEY))
    await second.start(ring_of(ClusterConfig(gossip="127.0.0.1:0", join=(first.address,)), "b", OWN_KEY))
    gossip = first.seat.gossip
    assert gossip is not None
    assert await gossip.until(lambda: first.seat.standings() == {"a" * 16: "alive", "b" * 16: "alive"}, 5_000)
    await _until(lambda: len(second.ownership.epochs) > len(ALL_PARTITIONS) / 4)
    task = Due(f"{'0' * 30}{min(second.ownership.epochs):02x}", "default", "default", "one:80", 5, 1, 1)

    def told() -> bool:  # as soon as the first has seen who owns it now
        first.seat.nudge([task])
        return second.heard.is_set()

    await _until(told)
    assert second.due[0] == Timer(1, task.id)
    await second.services.stop()
    assert await gossip.until(lambda: (first.seat.standings() or {})["b" * 16] == "left", 5_000)
    await _until(lambda: len(first.ownership.epochs) == len(ALL_PARTITIONS))
    await first.services.stop()


@pytest.mark.slow
async def test_one_that_goes_on_as_another_is_known_by_that_name() -> None:
    """The store has forgotten what it began as: hints are for who owns, and so go to the name in the leases."""
    database = InlineDatabase(shared=True)
    first, second = Seated("a", database), Seated("b", database)
    await first.start(ring_of(ClusterConfig(gossip="127.0.0.1:0"), "a", OWN_KEY))
    await second.start(ring_of(ClusterConfig(gossip="127.0.0.1:0", join=(first.address,)), "b", OWN_KEY))
    await _until(lambda: first.seat.standings() == {"a" * 16: "alive", "b" * 16: "alive"})
    await _until(lambda: bool(second.ownership.epochs))
    database.raw.execute("UPDATE nodes SET beat = -9 WHERE name = 'b'")
    await _until(lambda: first.seat.standings() == {"a" * 16: "alive", "another": "alive"})
    await _until(lambda: bool(second.ownership.epochs))
    task = Due(f"{'0' * 30}{min(second.ownership.epochs):02x}", "default", "default", "one:80", 5, 1, 1)

    def told() -> bool:
        first.seat.nudge([task])
        return second.heard.is_set()

    await _until(told)
    await second.services.stop()
    await first.services.stop()


def test_without_gossip_there_is_no_ring() -> None:
    assert ring_of(ClusterConfig(), "any name", OWN_KEY) is None


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 65])
def test_a_machine_whose_name_is_none_for_a_node(name: str) -> None:
    with pytest.raises(ConfigError, match="--node NAME"):
        ring_of(ClusterConfig(gossip="127.0.0.1:0"), name, OWN_KEY)


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.gossip: nowhere\.invalid is not known"):
        ring_of(ClusterConfig(gossip="nowhere.invalid:1", keys=("x" * 16,)), "a", OWN_KEY)


async def test_a_port_that_is_taken() -> None:
    database = InlineDatabase(shared=True)
    first, second = Seated("a", database), Seated("b", database)
    await first.start(ring_of(ClusterConfig(gossip="127.0.0.1:0"), "a", OWN_KEY))
    with pytest.raises(ConfigError, match=r"cluster\.gossip: .* cannot be opened: .*--gossip"):
        await second.start(ring_of(ClusterConfig(gossip=first.address), "b", OWN_KEY))
    await first.services.stop()
