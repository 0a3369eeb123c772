"""What a schedule says about when, as a value, and whether it can be meant."""

from typing import Literal

import msgspec

from tasktick.errors import Refused
from tasktick.timetable import cron, interval, zones

Gap = Literal["run_after", "skip"]
Repeat = Literal["first", "second", "both"]


class Rule(msgspec.Struct, frozen=True):
    """Exactly one of `cron` and `every_ms`; the rest says how it is read."""

    cron: str | None = None
    every_ms: int | None = None
    anchor_at: int | None = None
    """An instant on the grid of `every_ms`; the Unix epoch if None."""
    timezone: str = "UTC"
    gap: Gap = "run_after"
    """What becomes of a fixed time that does not exist on a day: the first instant after it, or nothing."""
    repeat: Repeat = "first"
    """In which pass of a repeated hour a fixed time fires."""


def check(rule: Rule) -> None:
    """Refuse what is no rule, naming every field at fault; what passes never fails later."""
    errors: list[tuple[str, str]] = []
    refused: list[Refused] = []
    if (rule.cron is None) == (rule.every_ms is None):
        errors.append(("/cron", "A schedule has exactly one of `cron` and `every`."))
    elif rule.every_ms is not None:
        errors += _interval_errors(rule.every_ms)
    else:
        errors += _errors_of_cron(rule, refused)
    if rule.anchor_at is not None and rule.every_ms is None:
        errors.append(("/anchor", "An anchor is for `every`: a cron is aligned to the calendar."))
    try:
        zones.zone(rule.timezone)
    except Refused as wrong:
        errors += wrong.errors
    if not errors:
        return
    # A code of its own is told only where nothing else is wrong.
    code = refused[0].code if refused and len(errors) == 1 else "validation_failed"
    raise Refused(code, errors[0][1], errors=errors)


def _errors_of_cron(rule: Rule, refused: list[Refused]) -> list[tuple[str, str]]:
    assert rule.cron is not None  # the caller looked
    try:
        cron.parse(rule.cron)
    except Refused as wrong:
        refused.append(wrong)
        return wrong.errors
    return []


def _interval_errors(every_ms: int) -> list[tuple[str, str]]:
    if interval.EVERY_MIN_MS <= every_ms <= interval.EVERY_MAX_MS:
        return []
    return [("/every", f"An interval lasts from {interval.EVERY_MIN_MS} ms to 100 years.")]
