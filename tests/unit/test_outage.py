"""What does not answer is said once, then seldomer and seldomer; that it answers again, once."""

from functools import partial

import structlog

from tasktick import logs
from tasktick.outage import BETWEEN_MS, FIRST_MS, Outage
from tests.unit.test_service import StillClock

TRY_MS = 500.0


class Wait:
    """An outage, and how it is tried."""

    def __init__(self) -> None:
        self.clock = StillClock()
        log = logs.get("test")
        self.outage = Outage(self.clock, partial(log.warning, "waits"), partial(log.info, "goes_on"))

    def fail(self, duration_ms: float, state: object = None) -> list[float]:
        """Fail for so long; when that was said."""
        said, until = [], self.clock.now + duration_ms
        while self.clock.now < until:
            with structlog.testing.capture_logs() as lines:
                self.outage.failed("it is away", state=state)
            said += [self.clock.now for line in lines if line["event"] == "waits"]
            self.clock.now += TRY_MS
        return said


def test_it_is_said_at_growing_intervals() -> None:
    assert Wait().fail(200_000) == [0, FIRST_MS, 3 * FIRST_MS]


def test_the_end_is_said_once_and_how_long_it_took() -> None:
    wait = Wait()
    wait.fail(5_000)
    with structlog.testing.capture_logs() as lines:
        wait.outage.over()
        wait.outage.over()
    assert lines == [{"event": "goes_on", "log_level": "info", "component": "test", "failures": 10, "after_ms": 5_000}]


def test_what_comes_and_goes_is_not_said_each_time() -> None:
    wait = Wait()
    said: list[float] = []
    for _ in range(40):
        said += wait.fail(TRY_MS)
        wait.outage.over()
    assert said == [0, BETWEEN_MS + TRY_MS]


def test_another_state_is_said_at_once() -> None:
    wait = Wait()
    assert wait.fail(2_000, state="trusted") == [0]
    assert wait.fail(2_000, state="not trusted") == [2_000]
