"""What a rule comes to over a stretch of time: the next fires, the last one, how many."""

from itertools import islice

from tasktick.model.schedule import Rule
from tasktick.timetable.fires import FIRST_AT, LAST_AT, Fire, fires, next_fire

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
