"""When a cron expression fires, stated as plainly as it can be.

Slow on purpose: it walks minutes (wildcard jobs) or days (fixed-time jobs), and shares nothing with the package that
it is the oracle of. Outside its claim: zones whose offset has seconds, jumps of three hours or more.
"""

from calendar import monthrange
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

RANGES = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def fields(expression: str) -> list[str]:
    """Six fields, in numbers: names replaced, a second of 0 put before five."""
    words = MACROS.get(expression, expression).upper().split()
    if len(words) == 5:
        words = ["0", *words]
    for number, name in enumerate(MONTHS, 1):
        words[4] = words[4].replace(name, str(number))
    words[5] = words[5].replace("-SUN", "-7")
    for number, name in enumerate(WEEKDAYS):
        words[5] = words[5].replace(name, str(number))
    return words


@lru_cache(maxsize=4096)
def parse(expression: str) -> list[set[int]]:
    """The plain numbers of each field."""
    out = []
    for field, (low, high) in zip(fields(expression), RANGES, strict=True):
        numbers: set[int] = set()
        for term in field.split(","):
            if "L" in term or "W" in term or "#" in term:
                continue
            base, _, step = term.partition("/")
            if base == "*":
                first, last = low, high
            elif "-" in base:
                first, last = map(int, base.split("-"))
            else:
                first = last = int(base)
            numbers |= set(range(first, last + 1, int(step) if step else 1))
        out.append(numbers)
    if 7 in out[5]:
        out[5].add(0)
    return out


def special_date(term: str, day: date) -> bool:
    """Whether `L`, `LW` or `15W` means this day."""
    length = monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == length
    workdays = [n for n in range(1, length + 1) if date(day.year, day.month, n).isoweekday() <= 5]
    if term == "LW":
        return day.day == max(workdays)
    if term.endswith("W"):
        wanted = int(term[:-1])
        return wanted <= length and day.day == min(workdays, key=lambda n: abs(n - wanted))
    return False


def special_weekday(term: str, day: date) -> bool:
    """Whether `5#2` or `5L` means this day."""
    length = monthrange(day.year, day.month)[1]
    alike = [n for n in range(1, length + 1) if (n - day.day) % 7 == 0]
    weekday = day.isoweekday() % 7
    if "#" in term:
        number, which = map(int, term.split("#"))
        return weekday == number % 7 and alike.index(day.day) == which - 1
    if term.endswith("L"):
        return weekday == int(term[:-1]) % 7 and day.day == alike[-1]
    return False


@lru_cache(maxsize=65536)
def day_ok(expression: str, day: date) -> bool:
    """Whether it fires on this day: both day fields if one begins with `*`, else either."""
    written, numbers = fields(expression), parse(expression)
    dom = day.day in numbers[3] or any(special_date(term, day) for term in written[3].split(","))
    dow = day.isoweekday() % 7 in numbers[5] or any(special_weekday(term, day) for term in written[5].split(","))
    both = written[3][0] == "*" or written[5][0] == "*"
    return day.month in numbers[4] and ((dom and dow) if both else (dom or dow))


def wild(expression: str) -> bool:
    """Whether it follows the clock."""
    written = fields(expression)
    return written[1][0] == "*" or written[2][0] == "*"


def first_after_gap(naive: datetime, zone: tzinfo) -> datetime:
    """The first instant after the gap in which this local time lies."""
    early = naive.replace(tzinfo=zone, fold=0).astimezone(UTC)
    late = naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
    low, high = min(early, late) - timedelta(hours=1), max(early, late) + timedelta(hours=1)
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle <= low:
            break
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


def to_utc(naive: datetime, zone: tzinfo, gap: str, repeat: str) -> list[datetime]:
    """The instants at which a local date-time fires: none, one or two."""
    passes = [naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    if passes[0].astimezone(zone).replace(tzinfo=None) != naive:
        return [] if gap == "skip" else [first_after_gap(naive, zone)]
    if passes[0] == passes[1]:
        return passes[:1]
    return {"first": passes[:1], "second": passes[1:], "both": passes}[repeat]


def walk_minutes(expression: str, zone: tzinfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every real second (or minute, of which second 0) whose local reading matches."""
    seconds, minutes, hours = parse(expression)[:3]
    instant = start.astimezone(UTC).replace(second=0, microsecond=0)
    while instant <= end:
        local = instant.astimezone(zone)
        if local.minute in minutes and local.hour in hours and day_ok(expression, local.date()):
            for second in seconds:
                fire = instant + timedelta(seconds=second)
                if start < fire <= end:
                    yield fire
        instant += timedelta(minutes=1)


def walk_days(
    expression: str, zone: tzinfo, start: datetime, end: datetime, gap: str, repeat: str
) -> Iterator[datetime]:
    """Every matching local date-time, as the instants at which it fires."""
    seconds, minutes, hours = parse(expression)[:3]
    day = (start.astimezone(zone) - timedelta(days=2)).date()
    last = (end.astimezone(zone) + timedelta(days=2)).date()
    while day <= last:
        if day_ok(expression, day):
            for hour in hours:
                for minute in minutes:
                    for second in seconds:
                        naive = datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001
                        yield from (u for u in to_utc(naive, zone, gap, repeat) if start < u <= end)
        day += timedelta(days=1)


def occurrences(
    expression: str,
    zone: tzinfo,
    start: datetime,
    end: datetime,
    gap: str = "run_after",
    repeat: str = "first",
) -> list[tuple[datetime, int]]:
    """All fires t with start < t <= end, as UTC instants, and how many local times fall on each."""
    if wild(expression):
        found = walk_minutes(expression, zone, start, end)
    else:
        found = walk_days(expression, zone, start, end, gap, repeat)
    return sorted(Counter(found).items())
