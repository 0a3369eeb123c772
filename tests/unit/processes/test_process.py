"""One real process under its supervisor: what is said of its ends."""

import asyncio
from collections.abc import Sequence

import structlog

from tasktick.clock import SystemClock
from tasktick.processes.process import Boss, Place, SupervisedProcess
from tasktick.processes.restarts import DEATHS_NOTED, Around
from tasktick.processes.sockets import open_gossip
from tasktick.service import Services
from tasktick.settings import Config

DEADLINE_S = 10


async def levels_of(command: Sequence[str], ends: int, *, stop: bool = False) -> list[str]:
    """How loud each end of this command was said; it is always the same one that is started again."""
    services, pair, died = Services(SystemClock()), open_gossip("127.0.0.1", 0), asyncio.Event()
    ended: list[str] = []
    process: SupervisedProcess

    def changed() -> None:
        ended.append("")
        if len(ended) == ends:
            process.stop()
            died.set()

    def config() -> Config:  # asked for as soon as it is there
        if stop:
            process.stop()
            process.kill()
        return Config()

    fileno = pair.exchanges.fileno()
    place = Place("a-1", command, fileno, fileno, pair, config)
    boss = Boss(
        lambda: Around(all_served=True, others_serve=True), changed, lambda _: None, lambda _: None, lambda *_: None
    )
    process = SupervisedProcess(place, boss, services.spawn, SystemClock())
    with structlog.testing.capture_logs() as logs:
        running = asyncio.ensure_future(process.run(is_first=False))
        await asyncio.wait_for(died.wait(), DEADLINE_S)
        await asyncio.wait_for(running, DEADLINE_S)
    await services.stop()
    for one in (pair.exchanges, pair.datagrams):
        one.close()
    return [line["log_level"] for line in logs if line["event"] == "process_ended"]


async def test_a_death_is_a_warning_and_one_that_keeps_dying_an_error() -> None:
    levels = await levels_of(["sh", "-c", "kill -9 $$"], DEATHS_NOTED + 1)
    assert levels == ["warning"] * DEATHS_NOTED + ["error"]


async def test_an_end_in_order_is_no_warning() -> None:
    assert await levels_of(["sh", "-c", "exit 0"], 1) == ["info"]
    assert await levels_of(["sh", "-c", "sleep 60"], 1, stop=True) == ["info"]
