"""What a tenant's tasks are signed with may take long to read: others do not wait for it."""

import asyncio

from tests.sim.stage import Stage, play


def test_a_claim_makes_room_for_the_next_one_while_its_secrets_are_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        held = stage.signing.held["slow"] = asyncio.Event()
        (slow,) = await stage.add(0, tenant="slow")
        await stage.until(lambda: stage.node.standing(slow).place == "in_hand")
        (quick,) = await stage.add(0, tenant="quick")
        await stage.until(lambda: len(stage.sender.sent) == 1)
        assert [one.task_id for one in stage.sender.sent] == [quick]
        held.set()
        await stage.until(lambda: len(stage.sender.sent) == 2)
        assert stage.sender.sent[1].task_id == slow

    play(scenario)


def test_the_loader_waits_for_no_secrets() -> None:
    async def scenario(stage: Stage) -> None:
        held = stage.signing.held["slow"] = asyncio.Event()
        await stage.add(1_000, tenant="slow")
        (quick,) = await stage.add(1_500, tenant="quick")
        await stage.node.start()
        await stage.until(lambda: len(stage.sender.sent) == 1)
        assert stage.sender.sent[0].task_id == quick
        held.set()
        await stage.until(lambda: len(stage.sender.sent) == 2)

    play(scenario)
