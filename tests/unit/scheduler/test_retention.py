"""Retention removes what is old, unless nobody can tell what is old."""

from tasktick.scheduler.retention import DAY_MS, IDLE_MS, Retention
from tasktick.settings import StoreConfig
from tasktick.store.protocol import Lane, Operation, T


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000_000
        self.monotonic = 5_000.0

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> float:
        return self.monotonic

    async def sleep_ms(self, duration_ms: float) -> None:
        self.pass_ms(duration_ms)

    def pass_ms(self, duration_ms: float) -> None:
        self.wall += round(duration_ms)
        self.monotonic += duration_ms


class CountingWriter:
    """Counts what it is asked to write, and answers that nothing was left to remove."""

    def __init__(self) -> None:
        self.writes = 0

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T:
        assert lane is Lane.UPKEEP
        self.writes += 1
        return 0  # type: ignore[return-value] # how many rows

    async def write_batch(self, batch: object, items: list[object]) -> list[object]:
        raise AssertionError("retention writes no batches")

    async def tidy(self, now: int, before: int) -> bool:
        assert before < now
        return False


async def test_a_doubtful_clock_removes_nothing_by_its_age_for_a_day() -> None:
    clock, writer = HandClock(), CountingWriter()
    retention = Retention(clock, writer, writer.tidy, StoreConfig())
    assert await retention.step() == IDLE_MS
    assert writer.writes == 5

    clock.wall += 40 * DAY_MS
    assert await retention.step() == IDLE_MS
    clock.pass_ms(DAY_MS - 1)
    await retention.step()
    assert writer.writes == 7, "only events, of which there may be too many"

    clock.pass_ms(1)
    await retention.step()
    assert writer.writes == 12


async def test_the_drift_of_a_day_is_no_step() -> None:
    clock, writer = HandClock(), CountingWriter()
    retention = Retention(clock, writer, writer.tidy, StoreConfig())
    for _ in range(60):
        clock.pass_ms(60_000)
        clock.wall += 60_000  # a minute in a minute is far more than any clock drifts
        await retention.step()
    assert writer.writes == 300


async def test_other_settings_count_from_the_next_round_which_is_now() -> None:
    writer = CountingWriter()
    retention = Retention(HandClock(), writer, writer.tidy, StoreConfig())
    await retention.step()
    retention.reconfigure(StoreConfig(retention_batch_rows=0))
    assert retention.wake.is_set()
    assert await retention.step() != IDLE_MS  # no rows are a full batch of none
