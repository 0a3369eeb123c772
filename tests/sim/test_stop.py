"""How a node stops and dies: grace for what is in flight, an end for everything, and what the next start does."""

import asyncio

import msgspec

from tasktick.model.attempt import End
from tasktick.model.state import State
from tasktick.settings import Config, DispatchConfig
from tasktick.store import leases
from tasktick.store.endings import Ended
from tasktick.store.protocol import Batch, Lane, Transaction
from tests.sim.stage import Stage, Told, play

SHORT = Config(dispatch=DispatchConfig(grace_max_ms=3_000))


def test_a_stop_waits_for_what_is_in_flight_and_takes_up_nothing_more() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        await stage.node.start()
        ids = await stage.add(0, 5)
        await asyncio.sleep(0.5)
        late = await stage.add(1_000, 5)
        began = stage.loop.time()
        await stage.services.stop()
        assert 19 < stage.loop.time() - began < 21, "no longer than the last one needs"
        stage.prepare()
        assert {row.state for row in await stage.states(ids)} == {State.SUCCEEDED}
        assert {row.state for row in await stage.states(late)} == {State.SCHEDULED}
        assert await stage.database.read(lambda tx: leases.owned(tx, stage.node.incarnation)) == {}

    play(scenario)


def test_an_idle_stop_waits_for_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        await stage.ended(await stage.add(0, 5))
        began = stage.loop.time()
        await stage.services.stop()
        assert stage.loop.time() - began < 0.2

    play(scenario)


def test_a_stop_in_the_middle_of_a_claim_is_quick_and_gives_it_back() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(100)
        await stage.until(lambda: stage.node.hands.unsettled_claims > 0)
        began = stage.loop.time()
        await stage.services.stop()
        assert stage.loop.time() - began < 0.2
        stage.prepare()
        row = await stage.state(task)
        assert (row.state, row.attempt, stage.sent_of(task)) == (State.SCHEDULED, 0, [])
        await stage.node.start()
        await stage.ended([task])
        assert [one.attempt for one in stage.sent_of(task)] == [1]

    play(scenario)


def test_a_stop_in_the_middle_of_a_claim_of_nothing_is_quick() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(1_000)
        await stage.move(task, stage.clock.now_ms() + 60_000)
        await stage.until(lambda: stage.node.hands.unsettled_claims > 0)
        began = stage.loop.time()
        await stage.services.stop()
        assert stage.loop.time() - began < 0.2

    play(scenario)


def test_what_outlasts_the_grace_is_released_and_counts_neither_as_attempt_nor_as_interruption() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20 if attempt == 1 else 0.01)
        await stage.node.start()
        [task] = await stage.add(0, max_attempts=1)
        [once] = await stage.add(0, at_most_once=True)
        await asyncio.sleep(0.5)
        began = stage.loop.time()
        await stage.services.stop()
        assert 2.9 < stage.loop.time() - began < 3.5
        stage.prepare()
        row = await stage.state(task)
        assert (row.state, row.interruptions, row.uncounted) == (State.SCHEDULED, 0, 1)
        assert [one.state for one in await stage.attempts(task)] == ["released"]
        dead = await stage.state(once)
        assert (dead.state, dead.reason) == (State.DEAD, "outcome_unknown")
        assert [one.state for one in await stage.attempts(once)] == ["unknown"]
        await stage.node.start()
        assert await stage.ended([task]) < 1, "it goes again at once"
        assert [one.attempt for one in stage.sent_of(task)] == [1, 2]
        fences = [one.fence for one in stage.sent_of(task)]
        assert fences == sorted(set(fences))

    play(scenario, SHORT)


def test_whoever_asks_twice_waits_for_no_grace() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        await stage.node.start()
        [task] = await stage.add(0)
        await asyncio.sleep(0.5)
        began = stage.loop.time()
        stopping = stage.loop.create_task(stage.services.stop())
        await asyncio.sleep(1)
        assert not stopping.done()
        stage.node.dispatcher.hurry()
        await stopping
        assert stage.loop.time() - began < 1.2
        stage.prepare()
        assert [one.state for one in await stage.attempts(task)] == ["released"]

    play(scenario)


def test_an_attempt_that_is_cut_before_it_began_is_given_back() -> None:
    """No grace at all, and the cut comes between the attempt's start and its first step."""

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        await stage.node.start()
        [task] = await stage.add(100, at_most_once=True)
        await stage.until(lambda: any(flight.call is not None for flight in stage.node.hands.flights()))
        await stage.services.stop()
        stage.prepare()
        row = await stage.state(task)
        if stage.sent_of(task):
            assert (row.state, row.reason) == (State.DEAD, "outcome_unknown")
        else:
            assert (row.state, row.attempt) == (State.SCHEDULED, 0)

    for seed in range(1, 9):
        play(scenario, Config(dispatch=DispatchConfig(grace_max_ms=0)), seed)


def test_a_stop_with_a_full_disk_gives_up_and_the_next_start_takes_it_up() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(100)
        stage.sender.script = lambda task_id, attempt: Told(seconds=1)
        await asyncio.sleep(0.5)
        stage.disk.full = True
        await asyncio.sleep(1)
        began = stage.loop.time()
        await stage.services.stop()
        assert stage.loop.time() - began < 15
        assert not stage.services.crashed.done()
        stage.disk.full = False
        stage.prepare()
        await stage.node.start()
        await stage.ended([task])
        assert [one.state for one in await stage.attempts(task)] == ["interrupted", "succeeded"]

    play(scenario)


async def die_in_flight(stage: Stage, times: int) -> None:
    for _ in range(times):
        await stage.node.start()
        await stage.until(lambda: stage.sender.in_flight > 0, within_s=900, every_s=0.5)
        await stage.kill()
        stage.prepare()


def test_ten_deaths_in_a_row_are_poison() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        [task] = await stage.add(0, hint=False, max_attempts=2)
        await die_in_flight(stage, 10)
        await stage.node.start()
        row = await stage.state(task)
        assert (row.state, row.reason, row.attempt) == (State.DEAD, "poison", 10)

    play(scenario)


def test_an_answer_between_deaths_shows_that_the_task_kills_nobody() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        [task] = await stage.add(0, hint=False, max_attempts=2)
        await die_in_flight(stage, 9)
        stage.sender.script = lambda task_id, attempt: Told(status=503 if attempt == 10 else 200)
        await stage.node.start()
        await stage.until(lambda: len(stage.sent_of(task)) == 10, within_s=900, every_s=0.5)
        await asyncio.sleep(0.1)
        row = await stage.state(task)
        assert (row.state, row.interruptions, row.uncounted) == (State.RETRYING, 0, 9)
        await stage.ended([task])
        assert (await stage.state(task)).state is State.SUCCEEDED

    play(scenario)


def test_what_another_process_may_still_send_is_left_alone_until_its_lease_has_passed() -> None:
    """Its node is not proven dead here: only time is a proof."""

    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        [task] = await stage.add(60_000, timeout_ms=4_000)
        lease_until = stage.clock.now_ms() + 9_000
        await stage.pretend_running(task, lease_until)
        assert await stage.ended([task]) > 8
        [sent] = stage.sent_of(task)
        assert lease_until <= sent.at <= lease_until + 1_500, "within one sweep"
        assert [one.state for one in await stage.attempts(task)] == ["lease_lost", "succeeded"]

    play(scenario)


def test_an_orphan_that_cannot_be_ended_does_not_keep_the_node_from_starting() -> None:
    async def refuse(tx: Transaction, ends: list[End]) -> list[Ended]:
        return [Ended(one.claimed.id, None) for one in ends]

    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=20)
        await stage.add(0, hint=False)
        await die_in_flight(stage, 1)
        sweeper = stage.node.sweeper
        sweeper._rescue = msgspec.structs.replace(sweeper._rescue, end_batch=Batch("end", Lane.FIRE, refuse))
        await asyncio.wait_for(stage.node.start(), 10)
        steps = stage.loop.steps
        await asyncio.sleep(60)
        assert stage.loop.steps - steps < 20_000, "nor does it make the sweeper spin once its lease has passed"

    play(scenario)
