"""Whether a rule can be meant."""

from tasktick.errors import Refused
from tasktick.model.schedule import Rule
from tasktick.timetable import cron, interval, zones


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
