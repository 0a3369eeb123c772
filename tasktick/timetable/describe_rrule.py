"""A recurrence rule as a clause in English."""

from datetime import UTC, datetime, timedelta

from tasktick.timetable.rrule import Rrule
from tasktick.timetable.rrule_grid import UNITS_S

TIMES_SAID_MAX = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def listed(said: list[str]) -> str:
    """Words as people list them."""
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))


def clause(rule: Rrule) -> str:
    """What it does, without its zone."""
    written = rule.written
    unit, number = _UNITS[written.frequency], written.interval
    words = [f"Every {unit}" if number == 1 else f"Every {number} {unit}s"]
    words += [f" {said}" for said in (*_days(rule), _times(rule)) if said]
    if places := written.numbers("BYSETPOS"):
        words.append(f", only the {listed([_nth(place) for place in places])} of these in each {unit}")
    if number > 1:
        words.append(f", counted from {_moment(written.start_ms)}")
    elif written.has_start:
        words.append(f", from {_moment(written.start_ms)}")
    if written.count is not None:
        words.append(f", {written.count} {'time' if written.count == 1 else 'times'}")
    if written.until_ms is not None:
        words.append(f", until {_moment(written.until_ms)}{' UTC' if written.until_is_instant else ''}")
    return "".join(words)


def _days(rule: Rrule) -> list[str]:
    parts, of = rule.days, "year" if rule.days.is_of_year else "month"
    said = []
    if parts.weekdays or parts.nth_weekdays:
        days = [_WEEKDAYS[day] for day in sorted(parts.weekdays)]
        nth = sorted(parts.nth_weekdays, key=lambda one: (one[1] < 0, one[1], one[0]))
        days += [f"the {_nth(which)} {_WEEKDAYS[day]} of the {of}" for day, which in nth]
        said.append(f"on {listed(days)}")
    if parts.month_days:
        said.append(f"{'if that is' if said else 'on'} the {_numbers(parts.month_days)} day of the month")
    if parts.year_days:
        said.append(f"{'if that is' if said else 'on'} the {_numbers(parts.year_days)} day of the year")
    if parts.week_numbers:
        said.append(f"in the {_numbers(parts.week_numbers)} week of the year")
    if parts.months:
        said.append(f"in {listed([_MONTHS[month] for month in sorted(parts.months)])}")
    return said


def _numbers(numbers: frozenset[int]) -> str:
    return listed([_nth(number) for number in sorted(numbers, key=lambda one: (one < 0, one))])


def _times(rule: Rrule) -> str:
    if rule.written.frequency not in UNITS_S:
        if rule.times_a_day > TIMES_SAID_MAX:
            return f"at {rule.times_a_day} times of the day"
        seconds = rule.seconds != (0,)
        return "at " + listed(
            [
                f"{hour:02}:{minute:02}{f':{second:02}' if seconds else ''}"
                for hour in rule.hours
                for minute in rule.minutes
                for second in rule.seconds
            ]
        )
    said = []
    if rule.written.numbers("BYHOUR"):
        said.append(f"in the hours {listed([f'{hour:02}' for hour in rule.hours])}")
    if rule.written.numbers("BYMINUTE") or rule.written.frequency == "HOURLY":
        said.append(f"at minute {listed([str(minute) for minute in rule.minutes])}")
    if rule.written.numbers("BYSECOND") or (rule.written.frequency != "SECONDLY" and rule.seconds != (0,)):
        said.append(f"at second {listed([str(second) for second in rule.seconds])}")
    return " ".join(said)


def _nth(number: int) -> str:
    if number == -1:
        return "last"
    size = abs(number)
    ending = "th" if 10 <= size % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(size % 10, "th")
    return f"{size}{ending}{'-last' if number < 0 else ''}"


def _moment(reading_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=reading_ms)).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
