"""More than fits: full lanes, a full ready queue, a full wheel, a full disk. Nobody is starved, nothing is lost."""

import asyncio
from typing import Any

import msgspec
import pytest

from tasktick.dispatch.dispatcher import CONNECTING_MAX
from tasktick.dispatch.foresight import CROWD
from tasktick.dispatch.sender import SpawningSender
from tasktick.model.state import State
from tasktick.settings import Config, SchedulerConfig
from tasktick.store import claims
from tasktick.store.database import SqliteDatabase
from tasktick.store.protocol import Alone
from tests.sim.stage import Stage, Told, play

pytestmark = pytest.mark.slow

SMALL = Config(scheduler=SchedulerConfig(ready_max=400, lane_max=200))


def test_a_lane_that_stays_full_costs_few_writes_and_starves_nobody() -> None:
    """What is parked one by one comes up one by one: a write for each, hundreds a second, while the host is slow."""

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=5 if task_id in slow else 0.001)
        await stage.node.start()
        slow = set()
        for host in ("dead:80", "slow:80"):
            slow.update(await stage.add(0, 500, host=host))
        honest = await stage.add(1_000, 5, host="honest:80")
        assert await stage.ended(honest) < 1.5
        writes, reads = stage.disk.calls["writer"], stage.disk.calls["near"]
        await asyncio.sleep(10)
        assert stage.metrics.events["task_parked"] > 1_000, "the lanes stay full, and what is parked is looked at"
        assert stage.disk.calls["writer"] - writes < 60
        assert stage.disk.calls["near"] - reads < 100
        slow.clear()
        assert await stage.ended([one.task_id for one in stage.sender.sent], 60) < 30

    play(scenario, SMALL)


def test_nothing_is_claimed_while_connections_wait_to_be_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose turn it is, is decided as late as can be: what is claimed has had it."""
    wanted = [CONNECTING_MAX]
    monkeypatch.setattr(SpawningSender, "connecting", property(lambda self: wanted[0]))

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        ids = await stage.add(0, 20)
        await asyncio.sleep(0.5)
        assert (stage.sender.sent, len(stage.node.hands), stage.node.hands.unsettled_claims) == ([], 0, 0)
        wanted[0] = 0
        assert await stage.ended(ids) < 1

    play(scenario)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[claims.Asked]:
    """The claims that are made, in their order."""
    found: list[claims.Asked] = []
    right = claims.CLAIM.alone
    assert right is not None

    def noted(items: list[Any]) -> Alone | None:
        found.extend(items)
        return right(items)

    monkeypatch.setattr(claims, "CLAIM", msgspec.structs.replace(claims.CLAIM, alone=noted))
    return found


def test_claims_begin_small_and_grow_while_they_find_connections(asked: list[claims.Asked]) -> None:
    """Nobody knows at first what a large one would bring: what another tenant has comes with the next one."""

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        assert await stage.ended(await stage.add(1_000, 1_000)) < 5
        sizes = [len(one.ids) for one in asked]
        assert sizes[0] == CONNECTING_MAX < max(sizes)
        await asyncio.sleep(60)
        before = len(asked)
        assert await stage.ended(await stage.add(2_000, 200)) < 5
        assert len(asked[before].ids) == CONNECTING_MAX, "where there was little, a large claim is not the next"

    play(scenario)


def test_what_a_crowd_sends_is_read_before_it_is_due(
    asked: list[claims.Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteDatabase, "shared", True)  # else of schedules alone

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        few = await stage.add(1_500, 10)
        crowd = await stage.add(3_000, CROWD + 50)
        assert await stage.ended(few) < 3
        assert not any(one.foreseen for one in asked)
        assert await stage.ended(crowd) < 5
        assert sum(len(one.foreseen) for one in asked) == len(crowd)
        assert len(stage.node.foresight.provisions) == 0

    play(scenario)


def test_claims_grow_though_a_few_always_wait_for_a_connection(
    asked: list[claims.Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those are about to take one from a call that ends."""
    monkeypatch.setattr(SpawningSender, "connecting", property(lambda self: CONNECTING_MAX // 4))

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        assert await stage.ended(await stage.add(1_000, 1_000)) < 5
        assert max(len(one.ids) for one in asked) > CONNECTING_MAX

    play(scenario)


def test_what_does_not_fit_into_the_ready_queue_goes_when_there_is_room() -> None:
    async def scenario(stage: Stage) -> None:
        # So long ago that no near reading looks back to them.
        ids = [task for host in range(300) for task in await stage.add(-40_000, 1, hint=False, host=f"{host}:80")]
        await stage.node.start()
        assert await stage.ended(ids) < 5, "what overflowed must not wait for the minute's reading"
        assert len(stage.sender.sent) == len(ids)

    play(scenario, Config(scheduler=SchedulerConfig(ready_max=100)))


def test_what_nobody_was_told_of_is_found_behind_a_backlog() -> None:
    """What waits is known, and only its ids are read again; what is not known goes within two readings."""

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=600)
        await stage.node.start()
        stage.node.ready.limits.set_host_cap("one:80", 0)
        held = await stage.add(0, 300)
        await asyncio.sleep(1.5)
        assert (len(stage.node.ready), stage.sender.in_flight) == (300, 0)
        untold = [*await stage.add(-1_000, 3, hint=False, host="two:80"), *await stage.add(0, 2, hint=False)]
        await asyncio.sleep(2.5)
        assert {one.task_id for one in stage.sender.sent} == set(untold[:3])
        assert len(stage.node.ready) == len(held) + 2

    play(scenario)


def test_a_full_wheel_takes_what_is_near_and_the_rest_in_time() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        ids = await stage.add(30_000, 60)
        ids += await stage.add(30_000, 60)
        assert len(stage.node.horizon) <= 60, "hints fill the wheel no further than the loader does"
        soon = await stage.add(500, 1)
        assert await stage.ended(soon) < 0.6
        await stage.ended(ids)
        assert {one.at - (await stage.state(one.task_id)).run_at for one in stage.sender.sent} == {0}

    play(scenario, Config(scheduler=SchedulerConfig(timers_max=50)))


def test_a_full_disk_stops_nothing_and_loses_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=2)
        await stage.node.start()
        running = await stage.add(0, 40)
        await asyncio.sleep(1)
        waiting = await stage.add(2_000, 300)
        stage.disk.full = True
        await asyncio.sleep(100)
        assert not stage.services.crashed.done(), "a lane that is full as well must not end the process"
        assert all(row.state is State.RUNNING for row in await stage.states(running))
        stage.disk.full = False
        assert await stage.ended(running) < 1, "the ends were kept"
        sent = len(stage.sender.sent)
        await asyncio.sleep(2)
        assert len(stage.sender.sent) > sent, "what was due goes at once, not with the minute's reading"
        await stage.ended(waiting)
        assert len(stage.sender.sent) == 340, "nothing was sent twice"

    play(scenario, SMALL)


def test_a_quick_receiver_that_hangs_keeps_its_tasks_from_nobody_for_long() -> None:
    """It answers at once, so that much is claimed ahead of its calls; then its calls hang until their time is over."""

    async def scenario(stage: Stage) -> None:
        hangs = False
        stage.sender.script = lambda task_id, attempt: Told(seconds=20 if hangs else 0.001)
        await stage.node.start()
        await stage.ended(await stage.add(0, 2_000, host="quick:80"))
        hangs = True
        before = len(stage.sender.sent)
        hanging = await stage.add(0, 600, host="quick:80")
        await asyncio.sleep(5)
        writes = stage.disk.calls["writer"]
        given_back = stage.metrics.events["claim_given_back"]
        await asyncio.sleep(10)
        assert len(stage.sender.sent) - before <= 256, "no more calls at once than a host ever gets"
        assert stage.metrics.events["claim_given_back"] == given_back, "nothing is claimed to be given back"
        assert stage.disk.calls["writer"] - writes < 100
        honest = await stage.add(0, 5, host="honest:80")
        stage.sender.script = lambda task_id, attempt: Told(seconds=0.001)
        assert await stage.ended(honest) < 1
        await stage.ended(hanging, 120)
        attempts = [one.attempt for one in stage.sender.sent[before:]]
        assert set(attempts) == {1}, "what was put back has lost no attempt"

    play(scenario)
