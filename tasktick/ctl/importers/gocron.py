"""The cron of Go programs (robfig/cron): Kubernetes' and QStash's.

Weekdays are 0 to 6 from Sunday, 7 is refused. `N/step` runs to the end of the field. Either day field is enough,
unless one holds a plain `*` or `?`; `*/2` counts as no star there, and as one in ours. It follows the clock: a time
that a day does not have is not run, one that it has twice is run twice.
"""

import re
from typing import Any

from tasktick.ctl.importers.account import Entry, Refused
from tasktick.ctl.importers.numbers import MONTH_NAMES, WEEKDAYS, Field, Times, cron_of_either, read
from tasktick.timetable.grammar import MACROS

FOLLOWS_CLOCK = {"gap": "skip", "repeat": "both"}
_MINUTE = Field("minute", 0, 59, question=True)
_HOUR = Field("hour", 0, 23, question=True)
_DAY = Field("day-of-month", 1, 31, question=True)
_MONTH = Field("month", 1, 12, MONTH_NAMES, question=True)
_WEEKDAY = Field("day-of-week", 0, 6, {name: number for number, name in enumerate(WEEKDAYS)}, question=True)
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)
_EVERY = re.compile(r"@every\s+(.+)")
_DURATION = re.compile(r"(?:\d+h)?(?:\d+m)?(?:\d+s)?", re.ASCII)


def rule(entry: Entry, text: str) -> tuple[dict[str, Any], str | None]:
    """When it fires, and the zone that stands in the text."""
    zone = None
    if found := _ZONED.fullmatch(text.strip()):
        zone, text = found[1], found[2]
    text = text.strip()
    if found := _EVERY.fullmatch(text):
        if not found[1] or _DURATION.fullmatch(found[1]) is None:
            raise Refused(f"The interval `{found[1]}` cannot be read.")
        entry.changes("`@every` counted from when its scheduler was started; here it is counted from the Unix epoch.")
        return {"every": found[1]}, zone
    text = MACROS.get(text.lower(), text)
    words = text.split()
    if len(words) != 5:
        raise Refused(f"`{text[:80]}` is no cron of five fields.")
    minute, hour, day, month, weekday = words
    times = Times(
        minutes=read(_MINUTE, minute),
        hours=read(_HOUR, hour),
        days=read(_DAY, day),
        months=read(_MONTH, month),
        weekdays=read(_WEEKDAY, weekday),
    )
    return {"cron": cron_of_either(times), "dst": FOLLOWS_CLOCK}, zone
