"""What a rule comes to over a stretch of time: the next fires, the last ones, how many.

One rule is counted by arithmetic. Of several, the one with the most fires is, and the others are walked through, as
only that tells which of their fires come together; `rule` lets no more than one of them come oftener than each minute,
so a year of a second one costs half a million steps, once for a gap of a year. The latest fires are found without.
"""

from collections import deque
from itertools import islice

from tasktick.model.schedule import Rule
from tasktick.timetable.fires import FIRST_AT, LAST_AT, Fire, count_of_one, fires, members, next_fire

UPCOMING_MAX = 1_000
_LOOK_BACK_MS = 60_000


def upcoming(rule: Rule, after: int, count: int, until: int | None = None) -> list[Fire]:
    """The next `count` fires strictly after an instant, up to `until` if it is given."""
    limit = min(count, UPCOMING_MAX)
    return list(islice(fires(rule, after, LAST_AT if until is None else until), limit))


def last_fire(rule: Rule, after: int, until: int) -> Fire | None:
    """The latest fire after one instant, up to and including another: by halving, not by walking through them."""
    found: Fire | None = None
    back_ms = _LOOK_BACK_MS
    low = until
    while found is None and low > after:
        low = max(after, until - back_ms, FIRST_AT)
        found = _up_to(next_fire(rule, low), until)
        back_ms *= 2
        if low <= FIRST_AT:
            break
    if found is None:
        return None
    high = until
    while high > found.nominal_at:
        middle = (found.nominal_at + high) // 2
        later = _up_to(next_fire(rule, middle), until)
        if later is not None:
            found = later
        else:
            high = middle
    return found


def _up_to(fire: Fire | None, until: int) -> Fire | None:
    return fire if fire is not None and fire.nominal_at <= until else None


def count_fires(rule: Rule, after: int, until: int) -> int:
    """How many fires there are after one instant, up to and including another."""
    if not rule.spec:
        return count_of_one(rule, after, until)
    counts = sorted(((count_of_one(one, after, until), place) for place, one in enumerate(members(rule))), reverse=True)
    ordered = [members(rule)[place] for _, place in counts]
    return counts[0][0] + sum(
        not any(_fires_at(denser, fire.nominal_at) for denser in ordered[:place])
        for place, one in enumerate(ordered[1:], 1)
        for fire in fires(one, after, until)
    )


def walked(rule: Rule, after: int, until: int) -> int:
    """Through how many fires counting would have to walk."""
    counts = [count_of_one(one, after, until) for one in members(rule)]
    return sum(counts) - max(counts)


def _fires_at(rule: Rule, at: int) -> bool:
    found = next_fire(rule, at - 1)
    return found is not None and found.nominal_at == at


def latest_from(rule: Rule, first: Fire, until: int, wanted: int) -> Fire:
    """The first of the latest `wanted` fires up to an instant, none of them before `first`, which is one itself."""
    if not rule.spec:
        start = _before_latest(rule, first.nominal_at - 1, until, wanted)
        return next_fire(rule, start) or first
    # All of them have the latest of each: where one has enough, nothing earlier is among those of all.
    start = max(_before_latest(one, first.nominal_at - 1, until, wanted) for one in members(rule))
    found = deque(fires(rule, start, until), maxlen=wanted)
    return found[0] if found else first


def _before_latest(rule: Rule, after: int, until: int, wanted: int) -> int:
    """After which instant a single rule has so many fires, or all that it has: by halving, whatever their number."""
    if count_of_one(rule, after, until) <= wanted:
        return after
    low, high = after, until
    while high - low > 1:  # more than `wanted` after low, at most so many after high
        middle = (low + high) // 2
        if count_of_one(rule, middle, until) > wanted:
            low = middle
        else:
            high = middle
    return high
