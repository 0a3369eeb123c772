"""The wall clock steps under a running node: nothing is early, doubled, stranded, or looked for in a hot loop."""

import asyncio

import pytest

from tasktick.settings import Config
from tests.sim.stage import Stage, Told, play

EARLY_MS = Config().scheduler.early_ms


def test_a_step_forward_fires_what_it_made_due() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        ids = await stage.add(700_000, 3) + await stage.add(3_000_000, 3)
        await asyncio.sleep(5)
        stage.clock.offset_ms += 3_600_000
        assert await stage.ended(ids) < 3, "an hour is more than a near reading looks back over"
        assert stage.metrics.events["clock_stepped"] == 1

    play(scenario)


@pytest.mark.parametrize("step_ms", [-5, -EARLY_MS, -1_990, -2_010, -60_000], ids=str)
@pytest.mark.parametrize("before_ms", [0.3, 5, EARLY_MS - 1, EARLY_MS + 1, 300], ids=str)
def test_a_step_back_about_the_time_of_a_claim_sends_once_and_on_time(step_ms: int, before_ms: float) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(3_000)
        run_at = (await stage.state(task)).run_at
        await asyncio.sleep((run_at - stage.clock.now_ms() - before_ms) / 1_000)
        stage.clock.offset_ms += step_ms
        steps = stage.loop.steps
        if step_ms < -3_000:
            await asyncio.sleep(1)
            assert len(stage.node.hands) == 0, "a claim is given back, not held past its permit"
        assert await stage.ended([task]) < 65
        [sent] = stage.sent_of(task)
        assert 0 <= sent.at - run_at < 1_100
        assert sent.attempt == 1, "a claim that is given back counts as no attempt"
        assert stage.loop.steps - steps < 40_000
        assert len(stage.node.hands) == 0
        assert stage.node.ready.limits.in_flight == 0

    play(scenario)


def test_a_step_back_delays_nothing_that_is_due_already() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=1)
        await stage.node.start()
        ids = await stage.add(0, 300)
        await asyncio.sleep(0.5)
        assert len(stage.sender.sent) < 300, "some of them wait for a slot"
        stage.clock.offset_ms -= 3_600_000
        later = await stage.add(5_000)
        assert await stage.ended(ids) < 10
        assert len(stage.sender.sent) == 300, "nothing went twice, and what was made since waits for its own time"
        assert 3 < await stage.ended(later) < 8

    play(scenario)


def test_what_was_due_before_a_step_back_and_is_moved_since_waits() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=1)
        await stage.node.start()
        ids = await stage.add(0, 300)
        await asyncio.sleep(0.5)
        stage.clock.offset_ms -= 3_600_000
        last = [one for one in ids if not stage.sent_of(one)][-1]
        await stage.move(last, stage.clock.now_ms() + 60_000)
        await asyncio.sleep(20)
        assert not stage.sent_of(last)
        assert len(stage.sender.sent) == 299

    play(scenario)


def test_a_step_forward_takes_nobody_for_lost_who_is_in_hand() -> None:
    """Its lease has passed by the clock; its own deadline, which is not the clock's, alone ends it."""

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=10)
        await stage.node.start()
        ids = await stage.add(0, 20)
        await asyncio.sleep(1)
        stage.clock.offset_ms += 3_600_000
        assert await stage.ended(ids) < 12
        assert len(stage.sender.sent) == 20

    play(scenario)


def test_what_is_moved_sooner_is_found_without_its_hint() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(300_000)
        await asyncio.sleep(1)
        sooner = stage.clock.now_ms() + 5_000
        await stage.move(task, sooner)
        assert await stage.ended([task]) < 5.2
        assert stage.sent_of(task)[0].at == sooner

    play(scenario)


def test_what_is_moved_later_is_not_sent_at_its_old_time() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(1_500)
        await asyncio.sleep(1)
        later = stage.clock.now_ms() + 30_000
        await stage.move(task, later)
        await stage.ended([task])
        assert [one.at for one in stage.sent_of(task)] == [later]
        assert (stage.metrics.events["claim_stale"], stage.metrics.events["clock_stepped"]) == (1, 0)

    play(scenario)
