"""Who is not heard from is killed, and meanwhile systemd is fed; who cannot be killed is systemd's."""

from typing import cast

import pytest

from tasktick.processes.process import SupervisedProcess
from tasktick.processes.supervisor import SILENT_LOOKS_MAX, Watch


class Held:
    """A process that says nothing any more, and maybe does not even die."""

    name = "held"
    doing = ""

    def __init__(self) -> None:
        self.silent_looks = 0
        self.is_up = True
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def watch(held: Held) -> Watch:
    return Watch([cast(SupervisedProcess, held)])


async def test_one_that_beats_is_left_alone(watch: Watch, held: Held) -> None:
    for _ in range(5 * SILENT_LOOKS_MAX):
        await watch.step()
        held.silent_looks = 0
    assert held.kills == 0
    assert watch.all_heard


async def test_one_that_is_silent_is_killed_and_then_no_more_looked_for(watch: Watch, held: Held) -> None:
    for _ in range(SILENT_LOOKS_MAX):
        assert watch.all_heard
        await watch.step()
    assert held.kills == 1
    held.is_up = False
    await watch.step()
    assert watch.all_heard
    assert held.kills == 1


async def test_one_that_does_not_die_is_left_to_systemd(watch: Watch, held: Held) -> None:
    for _ in range(SILENT_LOOKS_MAX + 1):
        await watch.step()
    assert not watch.all_heard
