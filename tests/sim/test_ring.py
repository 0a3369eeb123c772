"""Whole nodes on one store: each task and each time of a schedule once, whoever dies, is stopped or leaves."""

import asyncio
from random import Random

import pytest

from tasktick.model.partition import ALL_PARTITIONS
from tasktick.settings import ClusterConfig, Config, DispatchConfig
from tasktick.store import leases
from tests.sim.stage import Told
from tests.sim.town import SWEEP_MS, TTL_MS, Town, play

NAMES = ("a", "b", "c")
# What nobody has claimed goes on within a term, a sweep and so much, after its node died.
TAKEOVER_MS = TTL_MS + SWEEP_MS + 2_000
BY_LEASES_ALONE_MS = 1_100
# By then everybody has seen who owns what.
A_LOOK_S = TTL_MS / 3_000 + 0.2


@pytest.mark.parametrize("gossips", [True, False])
def test_three_share_the_work_and_each_task_goes_once(gossips: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.add(*NAMES)
        await town.settled()
        await asyncio.sleep(A_LOOK_S)
        shares = [len(one.owned) for one in town.residents.values()]
        assert min(shares) > len(ALL_PARTITIONS) / 5
        for second in range(10):
            await town.create(second * 500, 20, by=NAMES[second % 3])
            await town.create(5_000, 10)
        await town.ended()
        assert town.doubles() == []
        assert {name for name, sent in town.sent_by.items() if sent} == set(NAMES)
        late = town.late_ms()
        assert max(late.values()) <= (100 if gossips else BY_LEASES_ALONE_MS)
        assert min(late.values()) >= 0

    play(scenario, gossips=gossips)


def test_a_nudge_brings_what_is_due_now_to_its_owner() -> None:
    async def scenario(town: Town) -> None:
        await town.add(*NAMES)
        await town.settled()
        await asyncio.sleep(A_LOOK_S)
        await town.create(0, 60, by="a")
        await town.ended()
        assert max(town.late_ms().values()) < 50
        assert town.residents["a"].metrics.events["nudge_sent"] > 0

    play(scenario)


@pytest.mark.parametrize("gossips", [True, False])
def test_each_time_of_a_schedule_goes_once(gossips: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.add("a", "b")
        await town.settled()
        made = [await town.schedule(2_000, "a") for _ in range(12)]
        await asyncio.sleep(9)
        await town.add("c")
        await asyncio.sleep(15)
        await town.stop("a")
        await asyncio.sleep(15)
        for one in made:
            times = [entry.row.nominal_at for entry in await town.ledger(one)]
            assert times == list(range(times[0], times[0] + 2_000 * len(times), 2_000))
            assert len(times) >= 19
            assert {entry.row.outcome for entry in await town.ledger(one)} == {"run"}
        assert town.doubles() == []
        assert len({one.task_id for one in town.sent}) == len(town.sent)

    play(scenario, gossips=gossips)


@pytest.mark.parametrize("gossips", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_work_goes_on_after_a_node_was_killed(seed: int, gossips: bool) -> None:
    async def scenario(town: Town) -> None:
        random = Random(seed)
        town.script = lambda task_id, attempt: Told(seconds=0.3)
        await town.add(*NAMES)
        await town.settled()
        made = [await town.schedule(1_000, "b") for _ in range(6)]
        for _ in range(150):
            await town.create(random.randrange(30_000), 2, by=random.choice(("b", "c")))
        await asyncio.sleep(8 + random.random() * 2)
        killed_at = town.clock.now_ms()
        in_hand = set(town.residents["a"].node.hands.ids())
        town.kill("a")
        await town.ended()
        for task_id, late in town.late_ms().items():
            assert late < 100 or town.made[task_id].run_at + late <= killed_at + TAKEOVER_MS
        assert set(town.doubles()) <= in_hand, "only what was in its hands may have gone before"
        for one in made:
            times = [entry.row.nominal_at for entry in await town.ledger(one)]
            assert times == list(range(times[0], times[0] + 1_000 * len(times), 1_000))
            assert {entry.row.outcome for entry in await town.ledger(one)} == {"run"}

    play(scenario, seed=seed, gossips=gossips)


@pytest.mark.parametrize("terms", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("sending", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_one_that_was_stopped_for_long_changes_nothing_that_is_not_its_own(
    seed: int, sending: bool, terms: float
) -> None:
    """Between a claim and its sending, or while its calls are on their way."""
    stale = 0

    async def scenario(town: Town) -> None:
        nonlocal stale
        random = Random(seed * 10 + int(terms * 2))
        town.script = lambda task_id, attempt: Told(seconds=0.2)
        first = (await town.add(*NAMES))[0]
        await town.settled()
        made = [await town.schedule(1_000, "b") for _ in range(6)]
        for _ in range(200):
            await town.create(random.randrange(40_000), 2, by=random.choice(("b", "c")))
        await asyncio.sleep(8)
        sender = first.node.world.sender
        await town.until(lambda: (sender.in_flight if sending else first.node.hands.unsettled_claims) > 0)
        in_hand = set(first.node.hands.ids())
        town.freeze("a")
        await asyncio.sleep(terms * TTL_MS / 1_000)
        town.thaw("a")
        await town.ended()
        await town.settled()
        await town.until(lambda: not first.node.hands.ids())
        assert set(town.doubles()) <= in_hand
        for one in made:
            times = [entry.row.nominal_at for entry in await town.ledger(one)]
            assert times == list(range(times[0], times[0] + 1_000 * len(times), 1_000))
        stale = first.metrics.events["stale_write"]

    play(scenario, seed=seed)
    if sending and terms >= 2:
        assert stale > 0, "what it had sent went to others meanwhile, and its own end of it was stale"


def test_one_that_is_drained_hands_over_without_a_gap() -> None:
    async def scenario(town: Town) -> None:
        random = Random(4)
        town.script = lambda task_id, attempt: Told(seconds=3)
        await town.add(*NAMES)
        await town.settled()
        for _ in range(200):
            await town.create(random.randrange(20_000), 2, by=random.choice(NAMES))
        await asyncio.sleep(5)
        await town.database.write(lambda tx: leases.drain(tx, "a", town.clock.now_ms()))
        town.residents["b"].node.rebalance()
        await asyncio.sleep(1)
        assert town.residents["a"].owned == set()
        await town.settled()
        await town.ended()
        assert town.doubles() == []
        assert max(town.late_ms().values()) < 1_000

    play(scenario)


@pytest.mark.parametrize("gossips", [True, False])
def test_a_rolling_restart_loses_nothing_and_delays_little(gossips: bool) -> None:
    async def scenario(town: Town) -> None:
        random = Random(5)
        town.script = lambda task_id, attempt: Told(seconds=4 if task_id.endswith("7") else 0.05)
        await town.add(*NAMES)
        await town.settled()
        for _ in range(300):
            await town.create(random.randrange(60_000), 2, by=random.choice(NAMES))
        for name in NAMES:
            await asyncio.sleep(5)
            await town.stop(name)
            await town.add(name)
        await town.settled()
        await town.ended()
        assert town.doubles() == []
        assert max(town.late_ms().values()) < (2_000 if gossips else TTL_MS / 3 + 1_000)

    play(scenario, gossips=gossips)


def test_one_that_is_cut_from_the_store_sends_nothing_after_its_trust_window() -> None:
    async def scenario(town: Town) -> None:
        [first, *_] = await town.add(*NAMES)
        await town.settled()
        for _ in range(100):
            await town.create(town.random.randrange(40_000), 3, by="b")
        await asyncio.sleep(8)
        first.wire.cut = True
        cut_at = town.clock.monotonic_ms()
        await town.ended()
        assert not first.node.is_trusted
        assert all(one.monotonic_ms < cut_at + TTL_MS for one in town.sent_by["a"])
        assert not [task_id for task_id, late in town.late_ms().items() if late > TAKEOVER_MS]
        first.wire.cut = False
        await town.settled()

    play(scenario)


def test_a_cut_of_gossip_alone_moves_nothing() -> None:
    async def scenario(town: Town) -> None:
        await town.add(*NAMES)
        await town.settled()
        before = {name: one.owned for name, one in town.residents.items()}
        epochs = {lease.partition: lease.epoch for lease in (await town.view()).leases}
        town.cut_gossip = True
        await asyncio.sleep(120)
        assert set(town.residents["a"].node.standings().values()) > {"dead"}  # type: ignore[union-attr] # it gossips
        assert {name: one.owned for name, one in town.residents.items()} == before
        assert {lease.partition: lease.epoch for lease in (await town.view()).leases} == epochs
        await town.create(500, 50, by="a")
        await town.ended()
        assert max(town.late_ms().values()) < BY_LEASES_ALONE_MS

    play(scenario)


def test_a_third_is_known_and_has_its_share_at_once() -> None:
    async def scenario(town: Town) -> None:
        await town.add("a", "b")
        await town.settled()
        await asyncio.sleep(5)
        began = town.loop.time()
        await town.add("c")
        await town.settled()
        assert town.loop.time() - began < 2

    play(scenario)


def test_terms_may_be_short() -> None:
    short = Config(
        cluster=ClusterConfig(lease_ttl_ms=1_000, lease_margin_ms=200), dispatch=DispatchConfig(grace_max_ms=1_000)
    )

    async def scenario(town: Town) -> None:
        await town.add(*NAMES)
        await town.settled()
        for _ in range(50):
            await town.create(town.random.randrange(20_000), 2, by="b")
        for name in ("a", "c"):
            await asyncio.sleep(4)
            town.kill(name)
            await town.add(name)
        await town.ended()
        assert max(town.late_ms().values()) < 1_000 + SWEEP_MS + 2_000

    play(scenario, short)
