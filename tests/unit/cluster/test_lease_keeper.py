"""Keepers of several nodes on one store, in virtual time: who owns what, and when nobody may."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import structlog

from tasktick.clock import wait_for_event
from tasktick.cluster.lease_keeper import LeaseKeeper
from tasktick.cluster.ownership import Ownership
from tasktick.cluster.ring import wanted
from tasktick.errors import StoreError
from tasktick.metrics import Metrics
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.store import leases
from tasktick.store.leases import Start, View
from tasktick.store.protocol import Lane, Operation
from tests.sim.loop import SimLoop
from tests.sim.world import SimClock
from tests.store.drivers import InlineDatabase

TTL_MS = 10_000
MARGIN_MS = 2_000


class Wire:
    """A node's way to the store, which may be cut."""

    def __init__(self, database: InlineDatabase) -> None:
        self._database = database
        self.cut = False
        self.deaf = False

    @property
    def term(self) -> "Wire":
        return self

    async def write(self, operation: Operation[Any], lane: Lane = Lane.CREATE) -> Any:
        if self.cut:
            raise StoreError("The store does not answer.")
        done = await self._database.write(operation, lane)
        if self.deaf:
            raise StoreError("The connection was lost; nobody knows whether it was committed.")
        return done

    async def write_batch(self, batch: Any, items: list[Any]) -> list[Any]:
        raise AssertionError("a keeper writes no batches")


class Member:
    """A keeper, and the loop that it would have."""

    def __init__(self, name: str, incarnation: str, clock: SimClock, database: InlineDatabase) -> None:
        self.name, self.clock = name, clock
        self.wire = Wire(database)
        self.ownership = Ownership(incarnation, clock.monotonic_ms)
        self.metrics = Metrics()
        self.taken: list[int] = []
        self.town: Town | None = None
        self.stopped = False
        self.keeper = LeaseKeeper(
            clock,
            self.wire,
            Start(incarnation, name, TTL_MS),
            self.ownership,
            self.metrics,
            self,
            margin_ms=MARGIN_MS,
        )

    def seen(self, view: View) -> None:
        return

    def gained(self, partitions: Sequence[int]) -> None:
        self.taken.extend(partitions)

    def left_to(self, incarnation: str, partitions: Sequence[int]) -> None:
        """As gossip would, where there is some."""
        if self.town is not None:
            self.town.wake(incarnation)

    def forgotten(self) -> str:
        return f"{self.ownership.incarnation}-again"

    async def run(self) -> None:
        """Renew until stopped."""
        await self.keeper.join()
        while not self.stopped:
            self.keeper.wake.clear()
            await wait_for_event(self.keeper.wake, self.clock, await self.keeper.step())

    @property
    def owned(self) -> set[int]:
        return set(self.ownership.epochs)


class Town:
    """Nodes on one store."""

    def __init__(self, loop: SimLoop) -> None:
        self.clock = SimClock(loop)
        self.database = InlineDatabase(shared=True)
        self.members: list[Member] = []
        self.running: list[asyncio.Task[None]] = []

    def add(self, name: str, incarnation: str | None = None) -> Member:
        """Another node begins."""
        member = Member(name, incarnation or f"{name}-1", self.clock, self.database)
        self.members.append(member)
        self.running.append(asyncio.ensure_future(member.run()))
        return member

    def wake(self, incarnation: str) -> None:
        """Let this one look now."""
        for member in self.members:
            if member.ownership.incarnation == incarnation:
                member.keeper.wake.set()

    def gossip(self) -> None:
        """From now on they hint at what is for another to do."""
        for member in self.members:
            member.town = self

    async def watch(self, seconds: float) -> None:
        """Let time pass; at no time do two believe that they own the same."""
        for _ in range(int(seconds * 20)):
            await asyncio.sleep(0.05)
            believed = [one for member in self.members for one in member.ownership.epochs]
            assert len(believed) == len(set(believed)), "two own one partition"

    @property
    def owned(self) -> set[int]:
        return {one for member in self.members for one in member.owned}

    def end(self) -> None:
        for task in self.running:
            task.cancel()


def play(scenario: Callable[[Town], Awaitable[None]], seed: int = 5) -> None:
    """Run it in virtual time."""
    loop = SimLoop(Random(seed))

    async def run() -> None:
        town = Town(loop)
        try:
            await scenario(town)
        finally:
            town.end()
            await asyncio.gather(*town.running, return_exceptions=True)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def test_one_alone_owns_everything() -> None:
    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(1)
        assert only.owned == set(ALL_PARTITIONS)
        assert sorted(only.taken) == list(ALL_PARTITIONS)

    play(scenario)


def test_a_third_takes_a_third_and_moves_no_other() -> None:
    async def scenario(town: Town) -> None:
        town.add("a")
        town.add("b")
        await town.watch(12)
        assert town.owned == set(ALL_PARTITIONS)
        before = {member.name: set(member.owned) for member in town.members}
        third = town.add("c")
        await town.watch(15)
        assert town.owned == set(ALL_PARTITIONS)
        moved = sum(len(before[member.name] - member.owned) for member in town.members[:2])
        assert moved == len(third.owned)
        assert len(ALL_PARTITIONS) / 5 < moved < len(ALL_PARTITIONS) / 2

    play(scenario)


def test_one_that_dies_is_followed_within_its_term() -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        first.stopped = True
        await town.watch(TTL_MS / 1_000 + 0.1)
        assert second.owned == set(ALL_PARTITIONS)
        assert first.owned == set()

    play(scenario)


def test_one_that_is_cut_off_owns_nothing_before_another_may() -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        first.wire.cut = True
        await town.watch((TTL_MS - MARGIN_MS) / 1_000 + 0.5)
        assert first.owned == set()
        await town.watch(8)
        assert second.owned == set(ALL_PARTITIONS)
        first.wire.cut = False
        await town.watch(15)
        assert first.owned, "it has its share again"
        assert town.owned == set(ALL_PARTITIONS)

    play(scenario)


def test_one_that_leaves_is_followed_at_the_next_look() -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        await first.keeper.leave()
        assert first.owned == set()
        await town.watch(TTL_MS / 3_000 + 0.5)
        assert second.owned == set(ALL_PARTITIONS)

    play(scenario)


def test_one_that_is_drained_hands_over_and_takes_its_share_again() -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        share = set(first.owned)
        await town.database.write(lambda tx: leases.drain(tx, "a", town.clock.now_ms()))
        await town.watch(10)
        assert (first.owned, second.owned) == (set(), set(ALL_PARTITIONS))
        await town.database.write(lambda tx: leases.undrain(tx, "a"))
        await town.watch(10)
        assert first.owned == share

    play(scenario)


def test_a_hand_over_leaves_no_gap_of_a_second() -> None:
    async def scenario(town: Town) -> None:
        town.add("a")
        await town.watch(5)
        town.add("b")
        gap = longest = 0.0
        for _ in range(300):
            await asyncio.sleep(0.05)
            gap = gap + 0.05 if town.owned != set(ALL_PARTITIONS) else 0.0
            longest = max(longest, gap)
        assert longest < 1

    play(scenario)


def test_placement_is_what_they_come_to() -> None:
    async def scenario(town: Town) -> None:
        for name in ("a", "b", "c", "d"):
            town.add(name)
        await town.watch(30)
        now = town.clock.now_ms()
        view = await town.database.read(lambda tx: leases.view(tx, now))
        for member in town.members:
            assert member.owned == set(wanted(view.nodes, f"{member.name}-1", now))

    play(scenario)


def test_hints_make_the_heirs_of_one_that_leaves_look_at_once() -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        town.gossip()
        await first.keeper.leave()
        await town.watch(0.1)
        assert second.owned == set(ALL_PARTITIONS)

    play(scenario)


def test_a_renewal_that_may_have_been_committed_is_asked_for_again() -> None:
    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(5)
        only.wire.deaf = True
        await town.watch(4)
        only.wire.deaf = False
        await town.watch(5)
        assert only.owned == set(ALL_PARTITIONS)
        assert not town.running[0].done()

    play(scenario)


def test_what_nobody_took_while_its_owner_could_not_renew_is_new_to_it() -> None:
    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(5)
        only.taken.clear()
        only.wire.cut = True
        await town.watch(20)
        assert only.owned == set()
        only.wire.cut = False
        await town.watch(5)
        assert sorted(only.taken) == list(ALL_PARTITIONS), "it must read all that came due meanwhile"

    play(scenario)


def test_one_that_leaves_takes_nothing_back() -> None:
    """Its last look may be under way when it leaves."""

    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        await first.keeper.leave()
        now = town.clock.now_ms()
        assert await town.database.write(lambda tx: leases.acquire(tx, "a-1", now, ALL_PARTITIONS)) == {}
        await town.watch(5)
        assert second.owned == set(ALL_PARTITIONS)

    play(scenario)


def test_what_is_acquired_while_it_leaves_is_given_back_at_once() -> None:
    """What it takes may commit behind what it gives back, and its term goes on until its last call has ended."""

    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(1)
        await town.database.write(lambda tx: leases.release(tx, "a-1", ALL_PARTITIONS[:9], town.clock.now_ms()))
        write = only.wire.write

        async def overtaken(operation: Operation[Any], lane: Lane = Lane.CREATE) -> Any:
            """The first that takes something has committed, and has not heard of it yet."""
            done = await write(operation, lane)
            if isinstance(done, dict) and not only.keeper._leaving:
                await only.keeper.leave()
                town.database.raw.execute(
                    "UPDATE leases SET incarnation = 'a-1', free_since = NULL WHERE partition_id < 9"
                )
            return done

        only.wire.write = overtaken  # type: ignore[method-assign] # an instance's own
        only.keeper.wake.set()
        await town.watch(1)
        assert only.owned == set()
        rows = await town.database.read(leases.read)
        assert [row.partition for row in rows if row.incarnation is not None] == []

    play(scenario)


def test_an_outage_is_said_when_it_begins_and_when_trust_is_gone_and_when_it_is_over() -> None:
    async def scenario(town: Town) -> None:
        member = town.add("a")
        await town.watch(1)
        with structlog.testing.capture_logs() as logs:
            member.wire.cut = True
            await town.watch(25)
            member.wire.cut = False
            await town.watch(5)
        said = [(line["event"], line.get("trusted")) for line in logs if line["event"].startswith("lease_rene")]
        assert said == [("lease_renewal_failed", True), ("lease_renewal_failed", False), ("lease_renewed_again", None)]
        assert member.metrics.events["lease_renewal_failed"] > 10

    play(scenario)
