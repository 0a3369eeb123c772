"""Why an instant is no nominal time of a rule, and which times are beside it."""

from calendar import day_name, month_name
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from tasktick.model.schedule import Rule
from tasktick.timetable import zones
from tasktick.timetable.cron import Cron
from tasktick.timetable.describe import described_length
from tasktick.timetable.fires import FIRST_AT, LAST_AT, Fire, Readings, members, next_fire, readings
from tasktick.timetable.grammar import MINUTE
from tasktick.timetable.upcoming import last_fire

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = tuple(month_name)
_WEEKDAYS = tuple(day_name)


class Because(msgspec.Struct, frozen=True):
    """A stable code, and a sentence."""

    code: str
    detail: str


def fire_at(rule: Rule, at: int) -> Fire | None:
    """The nominal time at this very instant, if there is one."""
    fire = next_fire(rule, at - 1)
    return fire if fire is not None and fire.nominal_at == at else None


def beside(rule: Rule, at: int, start_at: int | None, end_at: int | None) -> tuple[Fire | None, Fire | None]:
    """The nominal times before and after an instant, from the beginning of a schedule to its end."""
    low = FIRST_AT if start_at is None else max(FIRST_AT, start_at - 1)
    high = LAST_AT - 1 if end_at is None else end_at
    before = last_fire(rule, low, min(at - 1, high)) if at - 1 > low else None
    after = next_fire(rule, max(at, low))
    return before, None if after is None or after.nominal_at > high else after


def why_not(rule: Rule, at: int) -> list[Because]:
    """What says no to an instant that is no nominal time of a checked rule."""
    if not rule.spec:
        return list(_of_one(rule, at))
    return [
        Because(one.code, f"Rule {number}: {one.detail}")
        for number, single in enumerate(members(rule), 1)
        for one in _of_one(single, at)
    ]


def _of_one(rule: Rule, at: int) -> Iterator[Because]:
    wanted = readings(rule)
    if wanted is None:
        assert rule.every_ms is not None  # a checked rule has one of the three
        since = (at - (rule.anchor_at or 0)) % rule.every_ms
        yield Because(
            "between_intervals",
            f"It fires every {described_length(rule.every_ms)}, and the last such time was "
            f"{described_length(since)} before.",
        )
        return
    reading = at + zones.offset_ms(rule.timezone, at)
    if wanted.next_local(reading) == reading:
        # The clock reads what was wanted: it comes twice, and this is the other time.
        yield Because(
            "dst_repeat",
            f"The clock of {rule.timezone} reads {_read(reading)} twice, and `dst.repeat` is `{rule.repeat}`: "
            "this is not the one in which it fires.",
        )
    elif isinstance(wanted, Cron):
        yield from _fields(wanted, reading, rule.timezone)
    elif wanted.written.has_start and _begins_after(wanted, reading):
        yield Because("before_rrule_start", "Its DTSTART is later.")
    else:
        said = f"Its RRULE has no time when the clock of {rule.timezone} reads {_read(reading)}."
        yield Because("rrule_differs", said)
    yield from _gap(wanted, rule, at)


def _begins_after(wanted: Readings, reading: int) -> bool:
    first = wanted.next_local(FIRST_AT)
    return first is not None and first > reading


def _fields(cron: Cron, reading: int, zone: str) -> Iterator[Because]:
    """The fields that do not match what the clock reads."""
    local = _EPOCH + timedelta(milliseconds=reading)
    texts = {part.field.name: part.text for part in cron.parts}
    numbers = (("month", cron.months, local.month), ("hour", cron.hours, local.hour))
    for name, mask, number in (*numbers, ("minute", cron.minutes, local.minute)):
        if not mask >> number & 1:
            said = _MONTHS[number] if name == "month" else f"{number}"
            yield Because(
                f"{name}_differs", f"The {name} is {said} in {zone}, and the {name} field is `{texts[name]}`."
            )
    if cron.months >> local.month & 1 and not cron.matching_days(local.year, local.month) >> local.day & 1:
        day, weekday = cron.parts[-3].text, cron.parts[-1].text
        both = " (a day must match both)" if cron.needs_both_days and "*" not in (day, weekday) else ""
        yield Because(
            "day_differs",
            f"The day is {_WEEKDAYS[local.weekday()]}, {local.day} {_MONTHS[local.month]} in {zone}; the day of "
            f"month field is `{day}`, the day of week field is `{weekday}`{both}.",
        )
    if reading % 1_000 or not cron.seconds >> local.second & 1:
        seconds = f"`{cron.parts[0].text}`" if cron.parts[0].field is not MINUTE else "0, as it has five fields"
        yield Because("second_differs", f"The second is {reading % 60_000 / 1_000:g}, and seconds are {seconds}.")


def _gap(wanted: Readings, rule: Rule, at: int) -> Iterator[Because]:
    """A time of that day that does not exist: it may be the one that was looked for."""
    segment = zones.segment(rule.timezone, at)
    for end_at, before, after in (
        (segment.start_at, segment.offset_before_ms, segment.offset_ms),
        (segment.end_at, segment.offset_ms, segment.offset_after_ms),
    ):
        if before >= after or abs(at - end_at) >= DAY_MS:
            continue
        hit = wanted.next_local(end_at + before)
        if hit is None or hit >= end_at + after:
            continue
        if wanted.is_wildcard:
            what = "it does not fire then"
        elif rule.gap == "skip":
            what = "it is left out, as `dst.gap` is `skip`"
        else:
            what = "it fires at the first instant after the gap"
        yield Because("dst_gap", f"{_read(hit)} does not exist in {rule.timezone}, as the clocks go forward: {what}.")


def _read(reading: int) -> str:
    return (_EPOCH + timedelta(milliseconds=reading)).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
