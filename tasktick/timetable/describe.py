"""A rule as an English sentence."""

import cron_descriptor

from tasktick.model.schedule import Rule
from tasktick.timetable import rrule
from tasktick.timetable.cron import Cron, parse
from tasktick.timetable.describe_rrule import clause
from tasktick.timetable.describe_rrule import listed as _listed
from tasktick.timetable.fires import members
from tasktick.timetable.grammar import DAY, Days, Part

_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1))
_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_WHICH = ("", "first", "second", "third", "fourth", "fifth")


def describe(rule: Rule) -> str:
    """What a checked rule does, in one sentence."""
    if not rule.spec:
        return _sentence(rule, _said(rule))
    said = [_said(one) for one in members(rule)]
    return _sentence(rule, "; and ".join([said[0], *(f"{one[0].lower()}{one[1:]}" for one in said[1:])]))


def _sentence(rule: Rule, said: str) -> str:
    # Where nothing but an interval is said, the zone says nothing.
    is_local = any(one.every_ms is None for one in members(rule))
    seconds = any(one.cron is not None and parse(one.cron).has_seconds for one in members(rule))
    zone = f", {rule.timezone} time" if is_local else ""
    return f"{said}{zone}{' (six fields: seconds first)' if seconds else ''}."


def _said(rule: Rule) -> str:
    """What one rule does."""
    if rule.cron is not None:
        return _of_cron(parse(rule.cron))
    if rule.rrule is not None:
        return clause(rrule.parse(rule.rrule, rule.timezone))
    assert rule.every_ms is not None  # a checked rule has one of the three
    return _of_interval(rule.every_ms, rule.anchor_at)


def described_length(length_ms: int) -> str:
    """A length of time in words."""
    words = []
    rest = length_ms
    for unit, unit_ms in _UNITS:
        number, rest = divmod(rest, unit_ms)
        if number:
            words.append(f"{number} {unit}{'s' if number > 1 else ''}")
    return _listed(words)


def _of_interval(every_ms: int, anchor_at: int | None) -> str:
    length = described_length(every_ms)
    if length.startswith("1 ") and " " not in length[2:]:
        length = length[2:]
    return f"Every {length}, counted from {'the Unix epoch' if anchor_at is None else 'its anchor'}"


def _of_cron(cron: Cron) -> str:
    """By cron-descriptor, except for days that it gets wrong: lists with `L` or `W`, two day fields, `0,7`."""
    words = cron.text.split()
    day, weekday = cron.parts[-3], cron.parts[-1]
    has_both = day.text != "*" and weekday.text != "*"
    has_special = day.days != Days() or weekday.days != Days()
    if not has_both and not has_special and "7" not in weekday.text:
        return _described(cron.text)
    said = [f"on {what}" for what in (_days(cron, day), _weekdays(cron, weekday)) if what]
    words[-3] = words[-1] = "*"
    between = ", but only if that is " if cron.needs_both_days else ", and "
    return f"{_described(' '.join(words))}, {between.join(said)}"


def _described(text: str) -> str:
    options = cron_descriptor.Options()
    options.use_24hour_time_format = True
    options.locale_code = "en_US"
    return str(cron_descriptor.ExpressionDescriptor(text, options).get_full_description())


def _days(cron: Cron, part: Part) -> str:
    if part.text == "*":
        return ""
    numbers = [number for number in range(DAY.low, DAY.high + 1) if cron.days >> number & 1]
    said = [f"{first}" if first == last else f"{first} to {last}" for first, last in _runs(numbers)]
    said = [f"day{'s' if len(numbers) > 1 else ''} {_listed(said)}"] if said else []
    said += [f"the weekday nearest to day {number}" for number in sorted(part.days.nearest)]
    said += ["the last weekday of the month"] if part.days.is_last_workday else []
    said += ["the last day of the month"] if part.days.is_last else []
    return _listed(said)


def _weekdays(cron: Cron, part: Part) -> str:
    if part.text == "*":
        return ""
    said = [name for number, name in enumerate(_WEEKDAY_NAMES) if cron.weekdays >> number & 1]
    said += [f"the {_WHICH[which]} {_WEEKDAY_NAMES[weekday]} of the month" for weekday, which in sorted(part.days.nth)]
    said += [f"the last {_WEEKDAY_NAMES[weekday]} of the month" for weekday in sorted(part.days.last)]
    return _listed(said)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as one pair of the first and the last."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
