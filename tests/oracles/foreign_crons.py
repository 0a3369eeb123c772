"""When the crons of other schedulers fire, stated as plainly as it can be: a question about each day and each time.

Shares nothing with the importers that it is the oracle of. All in one zone without changes of the clocks, but for
`go_fires_between`, which follows the clock minute by minute.
"""

from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

SUNDAY_FIRST = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONDAY_FIRST = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MINUTES, HOURS, DAYS = (0, 59), (0, 23), (1, 31)

Days = Callable[[date], bool]


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    return names.index(text.lower()) + first if text.lower() in names else int(text)


def hits(text: str, value: int, bounds: tuple[int, int], names: tuple[str, ...] = (), first: int = 0) -> bool:
    """Whether a value is meant by a field: a list of `*`, `a`, `a-b`, each with `/n`; `a/n` goes to the end, and a
    range whose end is before its beginning goes on at the field's beginning."""
    low, high = bounds
    for term in text.split(","):
        base, slash, step = term.partition("/")
        begin, dash, end = base.partition("-")
        if base in ("*", "?"):
            start, length = low, high - low
        else:
            start = _number(begin, names, first)
            last = _number(end, names, first) if dash else high if slash else start
            length = (last - start) % (high - low + 1)
        distance = (value - start) % (high - low + 1)
        if distance <= length and distance % int(step or 1) == 0:
            return True
    return False


def _sunday_first(day: date) -> int:
    return (day.weekday() + 1) % 7


def _last(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def go_day(day_text: str, month_text: str, weekday_text: str) -> Days:
    """Go's cron: either day field, both if one of them holds a star without a step."""

    def has_star(text: str) -> bool:
        return any(term in ("*", "?", "*/1", "?/1") for term in text.split(","))

    def wanted(day: date) -> bool:
        if not hits(month_text, day.month, (1, 12), MONTHS, 1):
            return False
        by_day = hits(day_text, day.day, DAYS)
        by_weekday = hits(weekday_text, _sunday_first(day), (0, 6), SUNDAY_FIRST)
        both = has_star(day_text) or has_star(weekday_text)
        return (by_day and by_weekday) if both else (by_day or by_weekday)

    return wanted


def celery_day(day_text: str, month_text: str, weekday_text: str) -> Days:
    """Celery: all three."""

    def wanted(day: date) -> bool:
        return (
            hits(month_text, day.month, (1, 12))
            and hits(day_text, day.day, DAYS)
            and hits(weekday_text, _sunday_first(day), (0, 6), SUNDAY_FIRST)
        )

    return wanted


def apscheduler_day(day_text: str, month_text: str, weekday_text: str) -> Days:
    """APScheduler: all three, the week begins with Monday as 0; `last`, `3rd fri` and `last fri` are days."""

    def is_day(day: date) -> bool:
        for term in day_text.split(","):
            words = term.split()
            if words == ["last"]:
                found = day.day == _last(day)
            elif len(words) == 2:
                same = day.weekday() == MONDAY_FIRST.index(words[1])
                nth = "last" if day.day + 7 > _last(day) else ""
                found = same and words[0] in (nth, ("1st", "2nd", "3rd", "4th", "5th")[(day.day - 1) // 7])
            else:
                found = hits(term, day.day, DAYS)
            if found:
                return True
        return False

    def wanted(day: date) -> bool:
        return (
            hits(month_text, day.month, (1, 12), MONTHS, 1)
            and is_day(day)
            and hits(weekday_text, day.weekday(), (0, 6), MONDAY_FIRST)
        )

    return wanted


def eventbridge_day(day_text: str, month_text: str, weekday_text: str) -> Days:
    """EventBridge: one of the two is `?` or `*`; the week begins with Sunday as 1."""

    def is_day(day: date, term: str) -> bool:
        if term == "L":
            return day.day == _last(day)
        if term == "LW":
            return day == _nearest_workday(day.replace(day=_last(day)))
        if term.endswith("W"):
            number = int(term[:-1])
            return number <= _last(day) and day == _nearest_workday(day.replace(day=number))
        return hits(term, day.day, DAYS)

    def is_weekday(day: date, term: str) -> bool:
        own = _sunday_first(day) + 1
        if term == "L":
            return own == 7
        if term.endswith("L"):
            return own == _number(term[:-1], SUNDAY_FIRST, 1) and day.day + 7 > _last(day)
        if "#" in term:
            weekday, _, nth = term.partition("#")
            return own == _number(weekday, SUNDAY_FIRST, 1) and (day.day - 1) // 7 + 1 == int(nth)
        return hits(term, own, (1, 7), SUNDAY_FIRST, 1)

    def wanted(day: date) -> bool:
        return (
            hits(month_text, day.month, (1, 12), MONTHS, 1)
            and any(is_day(day, term) for term in day_text.split(","))
            and any(is_weekday(day, term) for term in weekday_text.split(","))
        )

    return wanted


def _nearest_workday(day: date) -> date:
    if day.weekday() == 5:
        return day - timedelta(days=1) if day.day > 1 else day + timedelta(days=2)
    if day.weekday() == 6:
        return day + timedelta(days=1) if day.day < _last(day) else day - timedelta(days=2)
    return day


def fires(days: Days, minute: str, hour: str, year: int) -> list[datetime]:
    """All of a year."""
    times = [(h, m) for h in range(24) if hits(hour, h, HOURS) for m in range(60) if hits(minute, m, MINUTES)]
    first = date(year, 1, 1)
    whole = (first + timedelta(days=number) for number in range((date(year + 1, 1, 1) - first).days))
    return [datetime(day.year, day.month, day.day, h, m, tzinfo=UTC) for day in whole if days(day) for h, m in times]


def go_fires_between(text: Mapping[str, str], zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Go's cron follows the clock: every real minute whose local reading it names."""
    days = go_day(text["day"], text["month"], text["weekday"])
    moment = start
    while moment < end:
        local = moment.astimezone(ZoneInfo(zone))
        named = hits(text["minute"], local.minute, MINUTES) and hits(text["hour"], local.hour, HOURS)
        if named and days(local.date()):
            yield moment
        moment += timedelta(minutes=1)
