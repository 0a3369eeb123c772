"""What `store move` says while it waits."""

import pytest

from tasktick.ctl import store_move
from tasktick.store.moving import Progress


class StoppedClock:
    """A clock that its test moves."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def now_ms(self) -> int:
        return int(self.at_ms)

    def monotonic_ms(self) -> float:
        return self.at_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        self.at_ms += duration_ms


def test_that_the_daemon_is_to_be_stopped_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StoppedClock()
    told = store_move.Told(clock)
    for phase, note in (("wait", "Stop it."), ("wait", "Stop it."), ("follow", ""), ("wait", "Stop it.")):
        clock.at_ms += 2 * store_move.SAID_EVERY_MS
        told(Progress(phase, note=note))
    assert capsys.readouterr().err.splitlines() == [
        "waiting; Stop it.",
        "copying what has changed",
        "waiting; Stop it.",
    ]
