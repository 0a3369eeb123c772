"""Whether a rule can be meant."""

from tasktick.errors import Refused
from tasktick.model.schedule import Member, Rule
from tasktick.timetable import cron, interval, rrule, zones

MEMBERS_MAX = 20
# Of several rules only one comes oftener: see `upcoming` for why.
OFTEN_MS = 60_000
NOT_ONE = "A schedule has exactly one of `cron`, `every`, `rrule` and `spec`."
NOT_ONE_OF_SEVERAL = "This has exactly one of `cron`, `every` and `rrule`."


def check(rule: Rule) -> None:
    """Refuse what is no rule, naming every field at fault; what passes never fails later."""
    found: list[Refused] = []
    zone_errors = _zone_errors(rule.timezone)
    if rule.spec:
        errors = _errors_of_several(rule, not zone_errors, found)
    else:
        errors = _errors_of_one(rule, None if zone_errors else rule.timezone, found, NOT_ONE)
    errors += zone_errors
    if not errors:
        return
    # A code of its own is told only where nothing else is wrong.
    code = found[0].code if found and len(errors) == 1 else "validation_failed"
    raise Refused(code, errors[0][1], errors=errors)


def _zone_errors(timezone: str) -> list[tuple[str, str]]:
    try:
        zones.zone(timezone)
    except Refused as wrong:
        return wrong.errors
    return []


def _errors_of_several(rule: Rule, is_zone: bool, found: list[Refused]) -> list[tuple[str, str]]:
    if _given(rule) or rule.anchor_at is not None:
        return [("/spec", NOT_ONE)]
    if len(rule.spec) > MEMBERS_MAX:
        return [("/spec", f"This has {len(rule.spec)} rules; there are at most {MEMBERS_MAX}.")]
    errors: list[tuple[str, str]] = []
    for place, one in enumerate(rule.spec):
        own = _errors_of_one(one, rule.timezone if is_zone else None, found, NOT_ONE_OF_SEVERAL)
        if not own and one in rule.spec[:place]:
            own = [("", "This stands here twice.")]
        errors += [(f"/spec/{place}{pointer}", detail) for pointer, detail in own]
    often = [] if errors or not is_zone else [place for place, one in enumerate(rule.spec) if _is_often(one, rule)]
    return errors + [
        (f"/spec/{place}", "Only one of several rules may come oftener than once a minute.") for place in often[1:]
    ]


def _given(one: Member) -> int:
    return sum(value is not None for value in (one.cron, one.every_ms, one.rrule))


def _errors_of_one(one: Member, timezone: str | None, found: list[Refused], not_one: str) -> list[tuple[str, str]]:
    errors: list[tuple[str, str]] = []
    if _given(one) != 1:
        errors.append(("/cron" if isinstance(one, Rule) else "", not_one))
    elif one.every_ms is not None:
        errors += _interval_errors(one.every_ms)
    else:
        errors += _errors_of_calendar(one, timezone, found)
    if one.anchor_at is not None and one.every_ms is None:
        errors.append(("/anchor", "An anchor is for `every`: a cron is aligned to the calendar."))
    return errors


def _errors_of_calendar(one: Member, timezone: str | None, found: list[Refused]) -> list[tuple[str, str]]:
    try:
        if one.cron is not None:
            cron.parse(one.cron)
        elif one.rrule is not None and timezone is not None:
            rrule.parse(one.rrule, timezone)
    except Refused as wrong:
        found.append(wrong)
        return wrong.errors
    return []


def _interval_errors(every_ms: int) -> list[tuple[str, str]]:
    if interval.EVERY_MIN_MS <= every_ms <= interval.EVERY_MAX_MS:
        return []
    return [("/every", f"An interval lasts from {interval.EVERY_MIN_MS} ms to 100 years.")]


def _is_often(one: Member, rule: Rule) -> bool:
    """Whether it may come more than once in a minute."""
    if one.every_ms is not None:
        return one.every_ms < OFTEN_MS
    if one.cron is not None:
        return cron.parse(one.cron).seconds.bit_count() > 1
    return one.rrule is not None and len(rrule.parse(one.rrule, rule.timezone).seconds) > 1
