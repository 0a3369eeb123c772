"""Instants and durations as clients write and read them. Pure.

In: RFC 3339 with an offset, or Unix seconds; durations as seconds, `1h30m`, or ISO 8601. Out: RFC 3339 in
UTC with milliseconds, and seconds. What is finer than a millisecond is rounded up, so that nothing is early.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil

Number = int | float
Instant = str | int | float
Duration = str | int | float

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_MIN_MS = -62_135_596_800_000
INSTANT_MAX_MS = 253_402_300_799_999
DURATION_CHARS_MAX = 64
# Numbers between these are no seconds, and as milliseconds they are in the years to 9999.
_MILLIS_MIN, _MILLIS_MAX = INSTANT_MAX_MS // 1_000, INSTANT_MAX_MS
SECOND_CHARS = 19  # such as 2026-12-01T09:00:00

_SECOND = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)", re.ASCII)
_FRACTION = r"(?:\.(\d{1,18}))?"
_BEHIND_SECOND = re.compile(_FRACTION + r"([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_LOCAL = re.compile(_SECOND.pattern + _FRACTION, re.ASCII)
_UNITS_MS: tuple[int, ...] = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_SPELLED = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?"
    r"(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_ISO = re.compile(
    r"P(?:(\d+(?:[.,]\d+)?)W)?(?:(\d+(?:[.,]\d+)?)D)?"
    r"(?:T(?:(\d+(?:[.,]\d+)?)H)?(?:(\d+(?:[.,]\d+)?)M)?(?:(\d+(?:[.,]\d+)?)S)?)?",
    re.ASCII,
)
_ISO_UNITS_MS: tuple[int, ...] = (7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1_000)

INSTANT_HELP = "An instant is RFC 3339 with an offset, such as 2026-12-01T09:00:00+01:00, or Unix seconds."
OUT_OF_RANGE = "An instant lies in the years 1 to 9999."
MILLIS = "This looks like milliseconds: send seconds, or a text such as 2026-11-20T06:00:00Z."
DURATION_HELP = (
    'A duration is a number of seconds, or text with units, such as "90s", "1h30m", "500ms", "2d" or "PT90S".'
)


def instant_ms(value: Instant) -> int:
    """Milliseconds since the Unix epoch; raises ValueError with a sentence."""
    if isinstance(value, str):
        # Of those that come together the seconds are few, and so is what stands behind a second.
        offset, fraction_ms = _behind_second(value[SECOND_CHARS:])
        ms = _second_ms(value[:SECOND_CHARS], offset) + fraction_ms
    else:
        ms = _number_ms(value, INSTANT_HELP)
    if not INSTANT_MIN_MS <= ms <= INSTANT_MAX_MS:
        raise ValueError(OUT_OF_RANGE if isinstance(value, str) or not _MILLIS_MIN <= value <= _MILLIS_MAX else MILLIS)
    return ms


@lru_cache(maxsize=4_096)
def _behind_second(text: str) -> tuple[str | None, int]:
    """The offset, if there is one, and the fraction."""
    match = _BEHIND_SECOND.fullmatch(text)
    if match is None:
        raise ValueError(INSTANT_HELP)
    return match[2], _fraction_ms(match[1])


@lru_cache(maxsize=4_096)
def _second_ms(text: str, offset: str | None) -> int:
    """The second that is written so."""
    match = _SECOND.fullmatch(text)
    if match is None:
        raise ValueError(INSTANT_HELP)
    if offset is None:
        raise ValueError(f"This time has no offset, so it is not known when it is. {INSTANT_HELP}")
    try:
        whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{offset.upper()}")
    except ValueError:
        raise ValueError(f"There is no such date or time. {INSTANT_HELP}") from None
    return round(whole.timestamp()) * 1_000


def local_ms(value: Instant) -> int | None:
    """What a clock reads in a time that is written without an offset, as if it were UTC's; None if it has one."""
    if not isinstance(value, str) or _LOCAL.fullmatch(value) is None:
        return None
    return _second_ms(value[:SECOND_CHARS], "Z") + _behind_second(value[SECOND_CHARS:])[1]


def _fraction_ms(digits: str | None) -> int:
    """Digits after the point of a second, in ms, rounded up."""
    if digits is None:
        return 0
    return int(digits[:3].ljust(3, "0")) + (1 if digits[3:].strip("0") else 0)


def _number_ms(value: Number, advice: str) -> int:
    try:
        # A float is the nearest one to what was meant, so it is rounded to the nearest millisecond.
        return value * 1_000 if isinstance(value, int) else round(value * 1_000)
    except (OverflowError, ValueError):
        raise ValueError(advice) from None


def duration_ms(value: Duration) -> int:
    """Milliseconds; raises ValueError with a sentence."""
    if isinstance(value, str):
        return _written_duration_ms(value)
    ms = _number_ms(value, DURATION_HELP)
    if ms < 0:
        raise ValueError("A duration is not negative.")
    # What is not zero stays so: a millisecond is the least that can be waited.
    return ms if ms or not value else 1


def _written_duration_ms(text: str) -> int:
    if not 0 < len(text) <= DURATION_CHARS_MAX:
        raise ValueError(DURATION_HELP)
    if text[0] == "-" and text[1:2].isdigit():
        raise ValueError("A duration is not negative.")
    if text[0] == "P":
        match, units = _ISO.fullmatch(text), _ISO_UNITS_MS
        if text.endswith("T"):
            match = None
    else:
        match, units = _SPELLED.fullmatch(text), _UNITS_MS
    if match is None or not any(match.groups()):
        raise ValueError(DURATION_HELP)
    return ceil(
        sum(_exact_ms(part, unit) for part, unit in zip(match.groups(), units, strict=True) if part is not None)
    )


def _exact_ms(number: str, unit_ms: int) -> Number:
    whole, _, fraction = number.replace(",", ".").partition(".")
    return int(whole) * unit_ms + (int(fraction) * unit_ms / 10 ** len(fraction) if fraction else 0)


def written(instant: int) -> str:
    """An instant as clients read it."""
    second, ms = divmod(instant, 1_000)
    return f"{_written_second(second)}.{ms:03d}Z"


@lru_cache(maxsize=4_096)
def _written_second(second: int) -> str:
    """The instants of a burst are in few seconds, hence the cache."""
    return (EPOCH + timedelta(seconds=second)).isoformat()[:-6]


def written_or_none(instant: int | None) -> str | None:
    """The same, where there may be none."""
    return None if instant is None else written(instant)


def seconds(duration: int) -> Number:
    """A duration as clients read it."""
    whole, rest = divmod(duration, 1_000)
    return duration / 1_000 if rest else whole


def seconds_or_none(duration: int | None) -> Number | None:
    """The same, where there may be none."""
    return None if duration is None else seconds(duration)
