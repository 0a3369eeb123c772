"""The path of a task through one node: slots and permits, readings, and what is left behind when it has ended."""

import asyncio

import pytest

from tasktick.errors import ServiceCrashed
from tasktick.model.change import ACTIONS
from tasktick.model.state import State
from tasktick.settings import Config, SchedulerConfig
from tasktick.store import tasks
from tests.sim.stage import Stage, Told, play

pytestmark = pytest.mark.slow


def nothing_is_left(stage: Stage) -> None:
    """Every slot is free, every hand is empty."""
    node = stage.node
    assert (len(node.hands), node.hands.unsettled_claims, node.ready.limits.in_flight, len(node.ready)) == (0, 0, 0, 0)
    assert node.ready.limits.counts() | {"hosts": 0} == {"tenants": 0, "queues": 0, "hosts": 0}


def test_nothing_is_claimed_without_a_slot_in_hand() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=1)
        await stage.node.start()
        ids = await stage.add(0, 200)
        await asyncio.sleep(0.5)
        running = [row for row in await stage.states(ids) if row.state is State.RUNNING]
        assert len(running) == stage.sender.in_flight < 200
        await stage.ended(ids)
        nothing_is_left(stage)

    play(scenario)


def test_an_attempt_that_has_ended_lets_go_of_its_call() -> None:
    """The call knows the attempt, to tell it: held by each other, both would be left to the collector."""

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=1)
        await stage.node.start()
        ids = await stage.add(0, 3)
        await stage.until(lambda: stage.sender.in_flight == len(ids))
        flights = stage.node.hands.flights()
        assert len(flights) == len(ids)
        assert all(flight.call is not None for flight in flights)
        await stage.ended(ids)
        assert all(flight.call is None for flight in flights)

    play(scenario)


def test_a_claim_that_comes_back_too_late_is_given_back_unsent() -> None:
    """What permits a send counts from before the claim was issued."""

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        ids = await stage.add(1_000, 20)
        stage.disk.slow_s = 2.5
        await asyncio.sleep(9)
        assert stage.sender.sent == []
        assert stage.metrics.events["claim_given_back"] >= 20
        assert (stage.metrics.fired.total, stage.metrics.lateness.total) == (0, 0)
        stage.disk.slow_s = 0.0
        assert await stage.ended(ids) < 10
        assert {one.attempt for one in stage.sender.sent} == {1}
        assert len(stage.sender.sent) == 20
        nothing_is_left(stage)

    play(scenario)


@pytest.mark.parametrize(
    "told",
    [
        Told(status=500),
        Told(status=404),
        Told(status=None, failure="reset"),
        Told(status=None, failure="connect_failed"),
        Told(seconds=3_600),
    ],
    ids=["500", "404", "reset", "refused", "silent"],
)
def test_whatever_becomes_of_an_attempt_its_slot_comes_back(told: Told) -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: told
        await stage.node.start()
        ids = await stage.add(0, 150, timeout_ms=2_000)
        await stage.ended(ids)
        assert {row.state for row in await stage.states(ids)} == {State.DEAD}
        nothing_is_left(stage)

    play(scenario)


def test_the_wheel_knows_what_is_within_the_horizon_and_no_more() -> None:
    async def scenario(stage: Stage) -> None:
        within = await stage.add(90_000, 30, hint=False)
        beyond = await stage.add(130_000, 30, hint=False)
        await stage.node.start()
        assert len(stage.node.horizon) == 30
        await asyncio.sleep(45)
        assert len(stage.node.horizon) == 60, "what has come nearer was read by now"
        await stage.ended(within + beyond)
        assert {one.at - (await stage.state(one.task_id)).run_at for one in stage.sender.sent} == {0}
        assert len(stage.node.horizon) == 0

    play(scenario, Config(scheduler=SchedulerConfig(horizon_ms=100_000)))


def test_what_was_overdue_before_the_start_goes_at_once_however_old() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.add(-40 * 86_400_000, 10, hint=False)
        await stage.node.start()
        assert await stage.ended(ids) < 0.5

    play(scenario)


@pytest.mark.parametrize("hint", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("before_s", [5, 1, 0.05], ids=str)
def test_what_is_cancelled_or_removed_is_not_sent_whoever_still_remembers_it(hint: bool, before_s: float) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        gone, removed, paused = await stage.add(10_000, 3)
        await asyncio.sleep(10 - before_s)
        rows = await stage.states([gone, removed, paused])
        now = stage.clock.now_ms()
        changes = [ACTIONS["cancel"](rows[0], now), ACTIONS["pause"](rows[2], now)]
        assert len(await stage.database.write(lambda tx: tasks.change(tx, changes))) == 2
        await stage.database.write(lambda tx: tasks.delete(tx, [(removed, rows[1].tenant, int(rows[1].state))]))
        if hint:
            stage.node.written([one.after for one in changes])
        await asyncio.sleep(20)
        assert stage.sender.sent == []
        nothing_is_left(stage)
        assert len(stage.node.horizon) == 0

    play(scenario)


def test_a_broken_store_is_the_end_of_the_process() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        await stage.add(1_000, 3)
        stage.disk.broken = True
        await asyncio.wait({stage.services.crashed}, timeout=5)
        assert stage.sender.sent == []
        stage.services.crashed.result()

    with pytest.raises(ServiceCrashed, match="store: A commit failed"):
        play(scenario)
