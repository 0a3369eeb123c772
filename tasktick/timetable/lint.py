"""What a rule may not be meant to do: warnings for a preview, none of which refuses anything."""

from datetime import UTC, datetime, timedelta

import msgspec

from tasktick.model.schedule import Rule
from tasktick.timetable import zones
from tasktick.timetable.cron import Cron
from tasktick.timetable.fires import FIRST_AT, LAST_AT, Readings, members, next_fire, readings
from tasktick.timetable.grammar import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Part, Term
from tasktick.timetable.rrule import Rrule
from tasktick.timetable.zones import Segment

YEAR_MS = 366 * 86_400_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
# Of the months, in a year that is no leap year.
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALL_HOURS = (1 << 24) - 1
_ONLY_ZERO = 1
# How many of each field there are before it begins again; days begin again after months of several lengths.
_CYCLES = {SECOND: 60, MINUTE: 60, HOUR: 24, MONTH: 12, WEEKDAY: 7}
_PASSES = {"first": "in the first pass", "second": "in the second pass", "both": "in both passes"}


class Advice(msgspec.Struct, frozen=True):
    """A stable code, and a sentence."""

    code: str
    detail: str


def lint(rule: Rule, after: int, until: int | None = None) -> list[Advice]:
    """What to think about before a checked rule is used, from an instant on; `until` is where the schedule ends."""
    if not rule.spec:
        return _of_one(rule, after, until)
    found = [
        Advice(one.code, f"Rule {number}: {one.detail}")
        for number, single in enumerate(members(rule), 1)
        for one in _of_one(single, after, until)
    ]
    return found


def _of_one(rule: Rule, after: int, until: int | None) -> list[Advice]:
    warnings = _never(rule, after, until)
    wanted = readings(rule)
    if wanted is None:
        return warnings or _of_interval(rule)
    if isinstance(wanted, Cron):
        warnings += _seconds(wanted) + _both_days(wanted) + _uneven(wanted) + _short_months(wanted)
    else:
        warnings += _of_rrule(wanted)
    warnings += _changes_of_clock(wanted, rule, min(max(after, FIRST_AT), LAST_AT - 1))
    return warnings + _crowded(wanted, rule)


def _of_interval(rule: Rule) -> list[Advice]:
    """One of whole hours or days comes when many others do, unless its anchor says otherwise."""
    assert rule.every_ms is not None  # a checked rule has one of the three
    anchor_at = rule.anchor_at or 0
    if rule.every_ms % DAY_MS == 0 and anchor_at % DAY_MS == 0:
        return [
            Advice("midnight", "Much fires at midnight UTC: an `anchor` at another minute, or `jitter`, finds room.")
        ]
    if rule.every_ms % HOUR_MS == 0 and anchor_at % HOUR_MS == 0:
        detail = "Much fires at the top of the hour: an `anchor` at another minute, or `jitter`, finds more room."
        return [Advice("top_of_hour", detail)]
    return []


def _short_months(cron: Cron) -> list[Advice]:
    """A day that some of its months do not have, unless it fires on days of the week too."""
    day, weekday = cron.parts[-3], cron.parts[-1]
    named = [term.low for term in day.terms if term.low == term.high and not term.is_star]
    months = [month for month in range(1, 13) if cron.months >> month & 1]
    missing = [one for one in named if any(one > _LENGTHS[month - 1] for month in months)]
    if not missing or day.days.is_last or (weekday.text != "*" and not cron.needs_both_days):
        return []
    last = max(missing)
    if months == [2] and last == 29:
        return [Advice("short_months", "It fires in leap years only: `L` is the last day of every February.")]
    return [Advice("short_months", f"A month without day {last} is left out: `L` is the last day of every month.")]


def _of_rrule(rule: Rrule) -> list[Advice]:
    """What recurrence rules are known to surprise with."""
    written, found = rule.written, []
    if written.interval > 1 and not written.has_start:
        found.append(
            Advice("counted_from_epoch", "INTERVAL is counted from 1 January 1970: a DTSTART says where it begins.")
        )
    beyond = [day for day in rule.days.month_days if day > 28]
    if beyond and not any(day < 0 for day in rule.days.month_days):
        detail = f"A month without day {max(beyond)} is left out: BYMONTHDAY=-1 is the last day of every month."
        found.append(Advice("short_months", detail))
    return found


def _never(rule: Rule, after: int, until: int | None) -> list[Advice]:
    fire = next_fire(rule, after)
    if fire is not None and (until is None or fire.nominal_at <= until):
        return []
    return [Advice("never_fires", "It has no fire before its end.")]


def _seconds(cron: Cron) -> list[Advice]:
    if not cron.has_seconds:
        return []
    return [Advice("seconds_first", "This has six fields: the first one is read as seconds.")]


def _both_days(cron: Cron) -> list[Advice]:
    day, weekday = cron.parts[-3], cron.parts[-1]
    if day.text == "*" or weekday.text == "*":
        return []
    if cron.needs_both_days:
        detail = (
            "Day of month and day of week are both given, and one of them begins with `*`: it fires only on days "
            "that match both."
        )
    else:
        detail = (
            "Day of month and day of week are both given: it fires on days that match either, not only on those "
            "that match both."
        )
    return [Advice("day_fields", detail)]


def _uneven(cron: Cron) -> list[Advice]:
    return [
        Advice("uneven_step", _uneven_detail(part, term))
        for part in cron.parts
        for term in part.terms
        if _is_uneven(part, term)
    ]


def _is_uneven(part: Part, term: Term) -> bool:
    """Whether a step over the whole of a field is shorter where the field begins again."""
    covers_all = term.low == part.field.low and term.high >= part.field.high - (part.field is WEEKDAY)
    if term.step == 1 or not covers_all:
        return False
    return part.field is DAY or _CYCLES[part.field] % term.step != 0


def _uneven_detail(part: Part, term: Term) -> str:
    larger = {SECOND: "minute", MINUTE: "hour", HOUR: "day", DAY: "month", MONTH: "year", WEEKDAY: "week"}
    return (
        f"`{part.text}` in the {part.field.name} field begins again with each {larger[part.field]}, so one step is not "
        f"{term.step}: for equal distances use `every`."
    )


def _changes_of_clock(wanted: Readings, rule: Rule, after: int) -> list[Advice]:
    """The first gap and the first repeated hour within a year that this rule fires in."""
    if wanted.is_wildcard and _runs_all_day(wanted):
        # It fires all day long: that it follows the clock is what everybody expects.
        return []
    found: dict[str, Advice] = {}
    segment = zones.segment(rule.timezone, after)
    while segment.end_at <= min(after + YEAR_MS, LAST_AT - 1):
        warning = _change_of_clock(wanted, rule, segment)
        if warning is not None:
            found.setdefault(warning.code, warning)
        segment = zones.segment(rule.timezone, segment.end_at)
    return list(found.values())


def _change_of_clock(wanted: Readings, rule: Rule, segment: Segment) -> Advice | None:
    """What the change at the end of this segment does to the rule."""
    is_gap = segment.offset_ms < segment.offset_after_ms
    low, high = sorted((segment.end_at + segment.offset_ms, segment.end_at + segment.offset_after_ms))
    hit = wanted.next_local(low)
    if hit is None or hit >= high:
        return None
    moment = (_EPOCH + timedelta(milliseconds=hit)).strftime("%Y-%m-%d %H:%M")
    if is_gap:
        if wanted.is_wildcard:
            what = "it does not fire then"
        elif rule.gap == "skip":
            what = "it is left out (`dst.gap` is `skip`)"
        else:
            what = "it fires at the first instant after the gap"
        return Advice("dst_gap", f"{moment} does not exist in {rule.timezone}, as the clocks go forward: {what}.")
    passes = _PASSES["both" if wanted.is_wildcard else rule.repeat]
    return Advice("dst_repeat", f"{moment} comes twice in {rule.timezone}, as the clocks go back: it fires {passes}.")


def _runs_all_day(wanted: Readings) -> bool:
    return wanted.hours == _ALL_HOURS if isinstance(wanted, Cron) else len(wanted.hours) == 24


def _crowded(wanted: Readings, rule: Rule) -> list[Advice]:
    """When many others fire too."""
    at_once = wanted.minutes in (_ONLY_ZERO, (0,)) and wanted.seconds in (_ONLY_ZERO, (0,))
    if at_once and wanted.hours in (_ONLY_ZERO, (0,)):
        detail = f"Much fires at midnight, {rule.timezone} time: another minute, or `jitter`, finds more room."
        return [Advice("midnight", detail)]
    if at_once and _runs_all_day(wanted):
        return [
            Advice("top_of_hour", "Much fires at the top of the hour: another minute, or `jitter`, finds more room.")
        ]
    return []
