"""How many times of a rule fall on which minute: what a forecast adds up.

A rule that fires oftener than about each minute is counted by arithmetic, minute by minute; any other is walked
through. So the cost is bounded by the minutes that are asked for, however dense the rule. Everything here comes in
small steps, one for each value that is given, so that whoever asks can pause between them.
"""

from collections.abc import Iterator

from tasktick.model.schedule import Rule
from tasktick.timetable.calendars import Shade
from tasktick.timetable.fires import count_of_one, fires, members, next_fire
from tasktick.timetable.policy import offset_ms
from tasktick.timetable.upcoming import count_fires

MINUTE_MS = 60_000
# Up to so many times a minute it is walked through.
WALKED_PER_MINUTE = 2


def about(rule: Rule, after: int, until: int) -> int:
    """How many times there are at most after one instant, up to and including another; equal ones of several count."""
    return sum(count_of_one(one, after, until) for one in members(rule))


def by_minute(rule: Rule, after: int, until: int, from_at: int) -> Iterator[tuple[int, int]]:
    """Minutes, from `from_at` on, and how many times after one instant, up to and including another, are in each."""
    minutes = (until - from_at) // MINUTE_MS + 1
    if about(rule, after, until) <= WALKED_PER_MINUTE * minutes:
        for fire in fires(rule, after, until):
            yield (fire.nominal_at - from_at) // MINUTE_MS, 1
        return
    for minute in range(max(0, (after - from_at) // MINUTE_MS), minutes):
        begin = from_at + minute * MINUTE_MS
        yield minute, count_fires(rule, max(after, begin - 1), min(until, begin + MINUTE_MS - 1))


def each(rule: Rule, after: int, until: int, shade: Shade, left: int | None) -> Iterator[int | None]:
    """The times after one instant, up to and including another, that will run; None for one that is held."""
    for fire in fires(rule, after, until):
        if left is not None and left <= 0:
            return
        if shade.reason(fire.nominal_at) is not None:
            yield None
            continue
        left = None if left is None else left - 1
        yield fire.nominal_at


def spread(rule: Rule, schedule_id: str, nominal_at: int, jitter_ms: int) -> int:
    """When a fire with a spread starts, exactly."""
    following = next_fire(rule, nominal_at)
    room_ms = None if following is None else following.nominal_at - nominal_at
    return nominal_at + offset_ms(schedule_id, nominal_at, jitter_ms, room_ms)


def smeared(counts: dict[int, float], spread_ms: int, minutes: int) -> dict[int, float]:
    """The same counts with each evenly over what its spread may be: what is to be expected of many."""
    found: dict[int, float] = {}
    width = max(1, round(spread_ms / MINUTE_MS))
    for minute, count in counts.items():
        for later in range(minute, min(minute + width, minutes)):
            found[later] = found.get(later, 0.0) + count / width
    return found
