"""The grammar of recurrence rules (RFC 5545): what was written, part by part, or a refusal that says what to write.

Readings are local, as everywhere in this package. The start is `DTSTART` where it is given, else the Unix epoch read
on the local clock, so that a rule without one still means the same at every start of the program.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import msgspec

from tasktick.errors import Refused

TEXT_CHARS_MAX = 2_048
POINTER = "/rrule"
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
COUNT_MAX = 100_000
INTERVAL_MAX = 1_000_000
NO_RULE = "There is no rule here: write for example `FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9`."

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_STAMP = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_LINE = re.compile(r"(?P<name>DTSTART|RRULE)(?P<options>(?:;[^:]*)?):(?P<value>.*)", re.ASCII)

# Lowest and highest number of each list; the negative ones count from the end.
RANGES = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
KNOWN = frozenset({"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *RANGES})


class Written(msgspec.Struct, frozen=True):
    """A rule as it was read; nothing is filled in that was not there, but for the start."""

    frequency: str
    start_ms: int
    has_start: bool
    interval: int = 1
    count: int | None = None
    until_ms: int | None = None
    """A local reading, or an instant if `until_is_instant`."""
    until_is_instant: bool = False
    week_start: int = 0
    """Monday is 0."""
    days: tuple[tuple[int, int], ...] = ()
    """(weekday, which): `2TU` is (1, 2), `-1FR` is (4, -1), `MO` is (0, 0)."""
    lists: dict[str, tuple[int, ...]] = {}

    def numbers(self, name: str) -> tuple[int, ...]:
        """One of the lists of numbers; empty if it was not written."""
        return self.lists.get(name, ())


def read(text: str, timezone: str) -> Written:
    """The rule that a text says, alone or with `DTSTART` and `RRULE:` lines before it."""
    if len(text) > TEXT_CHARS_MAX:
        _refuse(f"A recurrence rule has at most {TEXT_CHARS_MAX} characters; this has {len(text)}.")
    if not text.isascii():
        _refuse("A recurrence rule is ASCII only.")
    start_ms, parts_text = _lines(text, timezone)
    parts = _parts(parts_text)
    frequency = parts.pop("FREQ", "")
    if frequency not in FREQUENCIES:
        _refuse(f"FREQ is one of {', '.join(FREQUENCIES)}.")
    until_ms, until_is_instant = _until(parts.pop("UNTIL", None))
    count = _number(parts, "COUNT", COUNT_MAX)
    week_start = parts.pop("WKST", "MO")
    if week_start not in WEEKDAYS:
        _refuse(f"WKST is one of {', '.join(WEEKDAYS)}.")
    written = Written(
        frequency=frequency,
        start_ms=start_ms or 0,
        has_start=start_ms is not None,
        interval=_number(parts, "INTERVAL", INTERVAL_MAX) or 1,
        count=count,
        until_ms=until_ms,
        until_is_instant=until_is_instant,
        week_start=WEEKDAYS.index(week_start),
        days=_days(parts.pop("BYDAY", None)),
        lists={name: _list(name, value) for name, value in parts.items()},
    )
    _judge(written)
    return written


def _lines(text: str, timezone: str) -> tuple[int | None, str]:
    """The start, and what stands in the RRULE."""
    rule: str | None = None
    start_ms = None
    for line in text.upper().replace("\r\n", "\n").strip().split("\n"):
        found = _LINE.fullmatch(line.strip())
        if found is None and line.startswith(("EXDATE", "RDATE", "EXRULE")):
            _refuse(
                f"{line.partition(':')[0].partition(';')[0]} is not taken: put dates to leave out into a calendar, "
                "and further dates into a second spec."
            )
        name = "RRULE" if found is None else found["name"]
        if name == "RRULE":
            if rule is not None:
                _refuse("This has two rules: give each as a spec of its own.")
            rule = line.strip() if found is None else found["value"]
            if found is not None and found["options"]:
                _refuse("RRULE takes no options: write `RRULE:FREQ=...`.")
        elif found is not None:
            if start_ms is not None:
                _refuse("DTSTART stands here twice.")
            start_ms = _start(found["options"], found["value"], timezone)
    if rule is None:
        _refuse(NO_RULE)
    return start_ms, rule


def _start(options: str, value: str, timezone: str) -> int:
    for option in filter(None, options.split(";")):
        name, _, zone = option.partition("=")
        if name == "TZID" and zone != timezone.upper():
            _refuse(f"DTSTART is in {zone}, the schedule in {timezone}: give that zone as `timezone`.")
        if name not in {"TZID", "VALUE"}:
            _refuse(f"DTSTART does not take {name}.")
    reading_ms, is_instant = _stamp("DTSTART", value)
    if is_instant and timezone not in {"UTC", "Etc/UTC"}:
        _refuse(f"DTSTART is in UTC, the schedule in {timezone}: write DTSTART as a local time, without Z.")
    return reading_ms


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    if not text:
        _refuse(NO_RULE)
    for part in text.strip().rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            _refuse(f"A part is written NAME=value; this is {part[:40]!r}.")
        if name in parts:
            _refuse(f"{name} stands here twice.")
        if name not in KNOWN:
            _refuse(f"There is no {name[:40]} here; there are {', '.join(sorted(KNOWN))}.")
        parts[name] = value
    return parts


def _number(parts: dict[str, str], name: str, most: int) -> int | None:
    value = parts.pop(name, None)
    if value is None:
        return None
    if not value.isdecimal() or not 1 <= int(value[:9]) <= most or len(value) > 9:
        _refuse(f"{name} is a whole number from 1 to {most}.")
    return int(value)


def _until(value: str | None) -> tuple[int | None, bool]:
    if value is None:
        return None, False
    reading_ms, is_instant = _stamp("UNTIL", value)
    if "T" not in value:
        reading_ms += 86_400_000 - 1_000  # a date: up to its last second
    return reading_ms, is_instant


def _stamp(name: str, value: str) -> tuple[int, bool]:
    found = _STAMP.fullmatch(value)
    try:
        assert found is not None
        moment = datetime.strptime(found[1] + (found[2] or "000000"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except (AssertionError, ValueError):
        _refuse(f"{name} is written like 20260131, 20260131T090000 or, in UTC, 20260131T090000Z.")
    if not 1900 <= moment.year <= 9_997:
        _refuse(f"{name} lies in the years 1900 to 9997.")
    return (moment - _EPOCH) // timedelta(milliseconds=1), bool(found[3])


def _days(value: str | None) -> tuple[tuple[int, int], ...]:
    if value is None:
        return ()
    days: list[tuple[int, int]] = []
    for word in value.split(","):
        found = _DAY.fullmatch(word)
        if found is None or (found[1] is not None and not 1 <= abs(int(found[1])) <= 53):
            _refuse(f"BYDAY is a list of days such as MO, 2TU or -1FR; this has {word[:20]!r}.")
        days.append((WEEKDAYS.index(found[2]), int(found[1] or 0)))
    return tuple(sorted(set(days)))


def _list(name: str, value: str) -> tuple[int, ...]:
    low, high, may_be_negative = RANGES[name]
    numbers = set()
    for word in value.split(","):
        digits = word.removeprefix("+").removeprefix("-") if may_be_negative else word
        if not digits.isdecimal() or len(digits) > 3 or not low <= int(digits) <= high:
            signs = f", or -{high} to -{low} from the end" if may_be_negative else ""
            _refuse(f"{name} is a list of numbers from {low} to {high}{signs}; this has {word[:20]!r}.")
        numbers.add(-int(digits) if word.startswith("-") else int(digits))
    return tuple(sorted(numbers))


def _judge(written: Written) -> None:
    """What no part can say alone."""
    has = {name for name in RANGES if written.numbers(name)}
    frequency = written.frequency
    if written.count is not None and written.until_ms is not None:
        _refuse("A rule ends by COUNT or by UNTIL, not by both.")
    if written.count is not None and not written.has_start:
        _refuse("COUNT counts from DTSTART: write `DTSTART:20260101T090000` on a line before the rule.")
    if any(which for _, which in written.days) and frequency not in {"YEARLY", "MONTHLY"}:
        _refuse("BYDAY takes numbers (2TU, -1FR) with FREQ=MONTHLY or YEARLY only.")
    if any(which for _, which in written.days) and "BYWEEKNO" in has:
        _refuse("BYDAY takes no numbers (2TU) beside BYWEEKNO.")
    if "BYWEEKNO" in has and frequency != "YEARLY":
        _refuse("BYWEEKNO is for FREQ=YEARLY.")
    if "BYYEARDAY" in has and frequency in {"DAILY", "WEEKLY", "MONTHLY"}:
        _refuse(f"BYYEARDAY is not for FREQ={frequency}: use FREQ=YEARLY.")
    if "BYMONTHDAY" in has and frequency == "WEEKLY":
        _refuse("BYMONTHDAY is not for FREQ=WEEKLY: use FREQ=MONTHLY.")
    if "BYSETPOS" in has and frequency in {"HOURLY", "MINUTELY", "SECONDLY"}:
        _refuse(f"BYSETPOS is not for FREQ={frequency}: use FREQ=DAILY with BYHOUR, BYMINUTE or BYSECOND.")
    if "BYSETPOS" in has and has == {"BYSETPOS"} and not written.days:
        _refuse("BYSETPOS chooses from a set: it needs another BY part, such as BYDAY.")


def _refuse(why: str) -> NoReturn:
    raise Refused("validation_failed", why, errors=[(POINTER, why)])
