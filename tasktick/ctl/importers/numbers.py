"""Fields of other crons as numbers, and numbers as fields of ours. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tasktick.ctl.importers.account import Refused

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
RRULE_DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MONTH_NAMES = {name: number for number, name in enumerate(MONTHS, 1)}
_TERM = re.compile(r"(?P<star>[*?])|(?P<low>\w+)(?:-(?P<high>\w+))?", re.ASCII)


class Field(msgspec.Struct, frozen=True):
    """A field of a dialect: its numbers and names, whether a range may wrap, and whether `N/step` runs to the end."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = {}
    wraps: bool = False
    open_step: bool = True
    question: bool = False


class Found(msgspec.Struct, frozen=True):
    """The numbers of a field; `star` if a plain `*` is among what was written, `opens` if it begins with one."""

    numbers: frozenset[int]
    star: bool = False
    opens: bool = False


def read(field: Field, text: str) -> Found:
    """The numbers that a text means in a dialect."""
    numbers: set[int] = set()
    star = False
    for word in str(text).strip().split(","):
        base, slash, step = word.strip().partition("/")
        size = _step(field, step) if slash else 1
        match = _TERM.fullmatch(base)
        if match is None or (base == "?" and not field.question):
            raise Refused(f"In its {field.name} field, `{word}` cannot be read.")
        if match["star"]:
            star |= size == 1
            numbers.update(range(field.low, field.high + 1, size))
            continue
        low = _number(field, match["low"])
        high = _number(field, match["high"]) if match["high"] else low
        if slash and match["high"] is None:
            if not field.open_step:
                raise Refused(f"In its {field.name} field, `{word}` is read in two ways.")
            high = field.high
        numbers.update(_range(field, word, low, high)[::size])
    return Found(frozenset(numbers), star, str(text).strip()[:1] in {"*", "?"})


def _range(field: Field, word: str, low: int, high: int) -> Sequence[int]:
    if high >= low:
        return range(low, high + 1)
    if not field.wraps:
        raise Refused(f"In its {field.name} field, the range `{word}` is empty.")
    return [*range(low, field.high + 1), *range(field.low, high + 1)]


def _step(field: Field, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise Refused(f"In its {field.name} field, `/{text}` is no step.")
    return int(text)


def _number(field: Field, text: str) -> int:
    named = field.names.get(text.upper())
    if named is not None:
        return named
    if text.isascii() and text.isdigit() and field.low <= int(text) <= field.high:
        return int(text)
    raise Refused(f"In its {field.name} field, `{text}` is not in {field.low} to {field.high}.")


def written(numbers: Collection[int], low: int, high: int, *, star: bool = True) -> str:
    """Numbers as a field of ours: `*` or `*/n` only where a star may stand."""
    if not numbers:
        raise Refused("It never fires.")
    ordered = sorted(numbers)
    if star and len(ordered) == high - low + 1:
        return "*"
    step = ordered[1] - ordered[0] if len(ordered) > 1 else 0
    if star and step > 1 and ordered == list(range(low, high + 1, step)):
        return f"*/{step}"
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    return ",".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}"


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Every field as numbers; weekdays are 0 to 6 from Sunday."""

    minutes: Found
    hours: Found
    days: Found
    months: Found
    weekdays: Found
    seconds: Found = Found(frozenset({0}))


def cron_of_either(times: Times) -> str:
    """A cron for a source in which either day field is enough, unless one of them has a plain `*`."""
    day = "*" if times.days.star else written(times.days.numbers, 1, 31, star=False)
    weekday = "*" if times.weekdays.star else written(times.weekdays.numbers, 0, 6, star=False)
    return _cron(times, day, weekday)


def rule_of_both(times: Times) -> dict[str, str]:
    """A rule for a source in which both day fields must match: a cron, or a recurrence rule if both say something."""
    if len(times.days.numbers) < 31 and len(times.weekdays.numbers) < 7:
        return {"rrule": rrule(times)}
    day = written(times.days.numbers, 1, 31, star=True)
    return {"cron": _cron(times, day, written(times.weekdays.numbers, 0, 6, star=True))}


def _cron(times: Times, day: str, weekday: str) -> str:
    fields = [_plain(times.minutes, 0, 59), _plain(times.hours, 0, 23), day, _plain(times.months, 1, 12), weekday]
    if times.seconds.numbers != {0}:
        fields.insert(0, _plain(times.seconds, 0, 59))
    return " ".join(fields)


def _plain(found: Found, low: int, high: int) -> str:
    """A star stays one, and nothing becomes one: it tells what follows the clock where that is changed."""
    return written(found.numbers, low, high, star=found.opens)


def rrule(times: Times, *, last_day: bool = False) -> str:
    """The same as a recurrence rule, whose day fields must both match."""
    days = [str(day) for day in sorted(times.days.numbers)] + (["-1"] if last_day else [])
    parts = ["FREQ=DAILY"]
    if len(times.months.numbers) < 12:
        parts.append(f"BYMONTH={_list(times.months.numbers)}")
    parts.append(f"BYMONTHDAY={','.join(days)}")
    parts.append("BYDAY=" + ",".join(RRULE_DAYS[day] for day in sorted(times.weekdays.numbers)))
    parts += [f"BYHOUR={_list(times.hours.numbers)}", f"BYMINUTE={_list(times.minutes.numbers)}"]
    if times.seconds.numbers != {0}:
        parts.append(f"BYSECOND={_list(times.seconds.numbers)}")
    return ";".join(parts)


def _list(numbers: Collection[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def once(local: str) -> str:
    """A recurrence rule that fires once, at a local time written as 2026-12-01T09:00:00."""
    compact = local.replace("-", "").replace(":", "")
    if re.fullmatch(r"\d{8}T\d{6}", compact, re.ASCII) is None:
        raise Refused(f"`{local[:40]}` is no time.")
    return f"DTSTART:{compact}\nRRULE:FREQ=DAILY;COUNT=1"
