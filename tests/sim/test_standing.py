"""Where a task is in a node's memory, as an explanation tells it: asked of a node that runs."""

import asyncio

import pytest

from tasktick.model.ids import partition_of
from tasktick.ready.limits import Reason
from tasktick.ready.standing import Standing
from tasktick.settings import Config, DispatchConfig
from tests.sim.stage import Stage, Told, play


@pytest.mark.slow
def test_a_node_knows_what_holds_a_task_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=5)
        await stage.node.start()
        first, second = await stage.add(1_000, 2)
        assert {stage.node.standing(one).place for one in (first, second)} == {"not_loaded"}
        await stage.until(lambda: len(stage.sender.sent) == 1)
        sent = stage.sender.sent[0].task_id
        other = second if sent == first else first

        assert stage.node.standing(sent) == Standing("in_hand")
        assert stage.node.standing(other) == Standing("ready", Reason.HOST, 1, 1, 1)

        stage.node.ownership.give_up([partition_of(other)])
        assert stage.node.standing(other) == Standing("elsewhere")
        stage.node.ownership.lose_all()
        assert stage.node.standing(sent) == Standing("elsewhere")

    play(scenario, Config(dispatch=DispatchConfig(in_flight_per_host_max=1)))


def test_a_node_learns_how_long_calls_last() -> None:
    async def scenario(stage: Stage) -> None:
        stage.sender.script = lambda task_id, attempt: Told(seconds=2)
        await stage.node.start()
        assert stage.node.ready.limits.latencies() == {}
        await stage.ended(await stage.add(0))
        await asyncio.sleep(0)
        assert 1_900 < stage.node.ready.limits.latencies()["one:80"] < 2_100

    play(scenario)
