"""When a schedule fires, as the oracle has it: nothing here is taken from the program that is judged."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from tests.oracles.cron_oracle import occurrences

DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timing(msgspec.Struct, frozen=True):
    """The rule of a schedule, as a client would say it."""

    cron: str | None = None
    every_ms: int | None = None
    anchor_at: int = 0
    zone: str = "UTC"
    gap: str = "run_after"
    repeat: str = "first"


def times(timing: Timing, after: int, until: int) -> Sequence[int]:
    """Every nominal time after one instant, up to and including another."""
    if until <= after:
        return ()
    if timing.every_ms is not None:
        every = timing.every_ms
        return range(timing.anchor_at + ((after - timing.anchor_at) // every + 1) * every, until + 1, every)
    found: list[int] = []
    for day in range((after + 1) // DAY_MS, until // DAY_MS + 1):
        found += [at for at, _ in _day(timing, day)]
    return found[bisect_right(found, after) : bisect_right(found, until)]


def collapsed(timing: Timing, at: int) -> int:
    """How many local times fall on this fire."""
    if timing.every_ms is not None:
        return 1
    return dict(_day(timing, at // DAY_MS)).get(at, 1)


def local_ms(timing: Timing, at: int) -> int:
    """What the clock of its zone reads then, in milliseconds as if it were UTC's."""
    offset = (EPOCH + timedelta(milliseconds=at)).astimezone(ZoneInfo(timing.zone)).utcoffset()
    assert offset is not None
    return at + int(offset.total_seconds()) * 1_000


def holds(found: Sequence[int], at: int) -> bool:
    """Whether an instant is one of these, which are in order."""
    place = bisect_left(found, at)
    return place < len(found) and found[place] == at


@lru_cache(maxsize=20_000)
def _day(timing: Timing, day: int) -> tuple[tuple[int, int], ...]:
    """The fires of a day of UTC, and how many local times fall on each."""
    assert timing.cron is not None
    start = EPOCH + timedelta(days=day) - timedelta(milliseconds=1)
    fires = occurrences(timing.cron, ZoneInfo(timing.zone), start, start + timedelta(days=1), timing.gap, timing.repeat)
    return tuple((round((at - EPOCH).total_seconds() * 1_000), number) for at, number in fires)
