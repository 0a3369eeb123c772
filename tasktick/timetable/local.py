"""From a local reading to the instant that is meant by it."""

from tasktick.timetable import zones
from tasktick.timetable.fires import FIRST_AT, LAST_AT

_DAY_MS = 86_400_000


def instant_of(zone: str, local_ms: int) -> int | None:
    """When the clock of a zone reads this (milliseconds as if it were UTC's): the first time, or None in a gap.

    No offset reaches a day, and none changes twice within six: what holds a day before and after is all there can be.
    """
    offsets = {_offset_ms(zone, local_ms - _DAY_MS), _offset_ms(zone, local_ms + _DAY_MS)}
    instants = [local_ms - offset for offset in offsets]
    return min((at for at in instants if at + _offset_ms(zone, at) == local_ms), default=None)


def _offset_ms(zone: str, at: int) -> int:
    return zones.offset_ms(zone, min(max(at, FIRST_AT), LAST_AT))
