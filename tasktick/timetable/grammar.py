"""The grammar of cron: what was written, field by field, or a refusal that names the field.

It is stricter than most crons on purpose. Where programs disagree about what is meant (`5/15`, `22-2`, `*/90`,
`?`, `R`), nobody is served by a guess: the refusal says what to write instead.
"""

import re
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from tasktick.errors import Refused

TEXT_CHARS_MAX = 256
POINTER = "/cron"

MACROS: Mapping[str, str] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Field(msgspec.Struct, frozen=True):
    """A place in an expression: what it is called, its numbers, and the names that stand for some of them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day-of-month", 1, 31)
MONTH = Field("month", 1, 12, MONTHS)
WEEKDAY = Field("day-of-week", 0, 7, WEEKDAYS)
FIVE = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
SIX = (SECOND, *FIVE)

_TERM = re.compile(r"(?:(?P<star>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\w+))?", re.ASCII)
_NEAREST = re.compile(r"(?:(\d{1,2})W|W(\d{1,2}))", re.ASCII)
_NTH = re.compile(r"([0-9A-Z]+)#(\w*)", re.ASCII)
_LAST_WEEKDAY = re.compile(r"(?:([0-7]|[A-Z]{3})L|L([0-7]))", re.ASCII)


class Term(msgspec.Struct, frozen=True):
    """Every `step`-th number from `low` to `high`; `is_star` if it was written with a `*`."""

    low: int
    high: int
    step: int = 1
    is_star: bool = False
    is_range: bool = False

    def numbers(self) -> range:
        """The numbers it stands for."""
        return range(self.low, self.high + 1, self.step)


class Days(msgspec.Struct, frozen=True):
    """What a day field says beyond plain numbers."""

    is_last: bool = False
    """`L`: the last day of the month."""
    is_last_workday: bool = False
    """`LW`: the last Monday to Friday of the month."""
    nearest: frozenset[int] = frozenset()
    """`15W`: the Monday to Friday nearest to the 15th, in the same month."""
    nth: frozenset[tuple[int, int]] = frozenset()
    """`5#2`: (weekday, which), Sunday is 0."""
    last: frozenset[int] = frozenset()
    """`5L`: the last such weekday of the month."""


class Part(msgspec.Struct, frozen=True):
    """One field as it was read."""

    field: Field
    text: str
    terms: tuple[Term, ...]
    days: Days = Days()

    @property
    def begins_with_star(self) -> bool:
        """What tells a wildcard from a fixed time, and AND from OR."""
        return self.text.startswith("*")


def read(text: str) -> tuple[str, tuple[Part, ...]]:
    """The expression in one spelling (macros and letters resolved), and its five or six parts."""
    words = _words(text)
    fields = FIVE if len(words) == len(FIVE) else SIX
    return " ".join(words), tuple(_part(field, word) for field, word in zip(fields, words, strict=True))


def _words(text: str) -> list[str]:
    if len(text) > TEXT_CHARS_MAX:
        _refuse(f"A cron expression has at most {TEXT_CHARS_MAX} characters; this has {len(text)}.")
    if not text.isascii():
        _refuse("A cron expression is ASCII only.")
    if not text.isprintable():
        _refuse("A cron expression holds no control characters; its fields are separated by spaces.")
    words = text.upper().split()
    if not words:
        _refuse("A cron expression has five fields: minute, hour, day of month, month, day of week.")
    if words[0].startswith("@"):
        words = _macro(text.strip()).split()
    if words[0].startswith(("TZ=", "CRON_TZ=")):
        _refuse("A cron expression holds no time zone: put it in `timezone`.")
    if len(words) not in (len(FIVE), len(SIX)):
        _refuse(
            "A cron expression has five fields (minute, hour, day of month, month, day of week), or six with "
            f"seconds first; this has {len(words)}."
        )
    return words


def _macro(text: str) -> str:
    name = text.lower()
    if name in MACROS:
        return MACROS[name]
    if name.startswith("@every"):
        _refuse('An interval is no cron expression: use `every`, such as "every": "5m".')
    if name == "@reboot":
        _refuse("`@reboot` names no time: a schedule belongs to no machine that could be rebooted.")
    _refuse(f"There is no such macro: {text[:32]!r}. There are {', '.join(MACROS)}.")


def _part(field: Field, text: str) -> Part:
    terms: list[Term] = []
    found: list[Days] = []
    for word in text.split(","):
        special = _special(field, word)
        if special is not None:
            found.append(special)
        else:
            terms.append(_term(field, word))
    return Part(field, text, tuple(terms), _joined(found))


def _joined(found: list[Days]) -> Days:
    return Days(
        is_last=any(days.is_last for days in found),
        is_last_workday=any(days.is_last_workday for days in found),
        nearest=frozenset().union(*(days.nearest for days in found)),
        nth=frozenset().union(*(days.nth for days in found)),
        last=frozenset().union(*(days.last for days in found)),
    )


def _special(field: Field, word: str) -> Days | None:
    if field is DAY:
        return _special_day(word)
    if field is WEEKDAY:
        return _special_weekday(word)
    return None


def _special_day(word: str) -> Days | None:
    if word == "L":
        return Days(is_last=True)
    if word in ("LW", "WL"):
        return Days(is_last_workday=True)
    match = _NEAREST.fullmatch(word)
    if match is None:
        return None
    return Days(nearest=frozenset({_number(DAY, match[1] or match[2])}))


def _special_weekday(word: str) -> Days | None:
    match = _NTH.fullmatch(word)
    if match is not None:
        weekday = _number(WEEKDAY, match[1]) % 7
        if match[2] not in ("1", "2", "3", "4", "5"):
            _refuse_in(WEEKDAY, f"`{word}`: after `#` stands which one of the month, 1 to 5")
        return Days(nth=frozenset({(weekday, int(match[2]))}))
    match = _LAST_WEEKDAY.fullmatch(word)
    if match is not None:
        return Days(last=frozenset({_number(WEEKDAY, match[1] or match[2]) % 7}))
    if word == "L":
        _refuse_in(WEEKDAY, "`L` alone names no day here: write the last Friday of the month as `5L`")
    return None


def _term(field: Field, word: str) -> Term:
    match = _TERM.fullmatch(word)
    if match is None:
        _refuse_in(field, _why_not(word))
    step = _step(field, match["step"])
    if match["star"]:
        return Term(field.low, field.high, step, is_star=True)
    low = _number(field, match["low"])
    if match["high"] is None:
        if match["step"] is not None:
            _refuse_in(field, f"`{word}` is read in two ways: say `{low}-{_last(field)}/{match['step']}`")
        return Term(low, low)
    high = _number(field, match["high"])
    if field is WEEKDAY and match["high"] == "SUN" and low > 0:
        high = 7
    if high < low:
        _refuse_in(field, f"`{word}` is empty: a range does not wrap around; join two with a comma")
    return Term(low, high, step, is_range=True)


def _last(field: Field) -> int:
    return 6 if field is WEEKDAY else field.high


def _why_not(word: str) -> str:
    if not word:
        return "there is nothing between two commas, or at an end"
    if "?" in word:
        return "`?` means nothing here: write `*`"
    return f"`{word[:32]}` is no number, range, step or list"


def _step(field: Field, written: str | None) -> int:
    if written is None:
        return 1
    if not written.isdigit() or not 0 < int(written) <= field.high:
        _refuse_in(field, f"the step `/{written}` is not in 1 to {field.high}")
    return int(written)


def _number(field: Field, written: str) -> int:
    if written.isdigit():
        if field.low <= int(written) <= field.high:
            return int(written)
        _refuse_in(field, f"`{written}` is not in {field.low} to {field.high}")
    if written in field.names:
        return field.names.index(written) + field.low
    if field.names:
        _refuse_in(field, f"`{written}` is neither a number nor one of {', '.join(field.names)}")
    _refuse_in(field, f"`{written}` is not a number from {field.low} to {field.high}")


def _refuse_in(field: Field, why: str) -> NoReturn:
    _refuse(f"In the {field.name} field, {why}.")


def _refuse(why: str) -> NoReturn:
    raise Refused("validation_failed", why, errors=[(POINTER, why)])
