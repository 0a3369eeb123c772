"""APScheduler 3: a JSON dump of jobs, as Flask-APScheduler's `/scheduler/jobs` answers them, or by `str(job.trigger)`.

All fields of a cron trigger must match. Weekdays are 0 to 6 from *Monday*. Fields that are not given are their least
value if they are smaller than the smallest that is given, else any. `day` may be `last`, `3rd fri` or `last fri`.
A job that is late by more than `misfire_grace_time` (1 s unless said) is not run; of several that are missed one runs
if `coalesce` (so unless said); `max_instances` (1 unless said) is how many run at once.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tasktick.ctl.importers.account import Account, Entry, Refused, glimpse
from tasktick.ctl.importers.numbers import (
    MONTH_NAMES,
    WEEKDAYS,
    Field,
    Found,
    Times,
    once,
    rrule,
    rule_of_both,
)
from tasktick.ctl.importers.numbers import (
    read as numbers,
)

_ORDER = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_LEAST = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
_NAMES = {name.upper(): number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))}
_MONTH = Field("month", 1, 12, MONTH_NAMES)
_DAY = Field("day", 1, 31)
_WEEKDAY = Field("day_of_week", 0, 6, _NAMES)
_HOUR = Field("hour", 0, 23)
_MINUTE = Field("minute", 0, 59)
_SECOND = Field("second", 0, 59)
_YEAR = Field("year", 1970, 9_999)
_NTH = re.compile(r"(1st|2nd|3rd|4th|5th|last)\s+(mon|tue|wed|thu|fri|sat|sun)", re.IGNORECASE)
_SPELLED = re.compile(r"(cron|interval|date)\[(.*)\]", re.DOTALL)
_DELTA = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)
_UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
# What is not later than this runs here in any case.
_GRACE_S = 60
_CLOCKS = (
    "Around a change of the clocks APScheduler's times depend on its version; here `dst` says what becomes of them."
)


def read(account: Account, document: Any) -> None:
    """Every job of a dump."""
    rows = document.get("jobs", [document]) if isinstance(document, Mapping) else document
    for number, one in enumerate(rows if isinstance(rows, list) else [rows], 1):
        if isinstance(one, Mapping) and "trigger" in one:
            name = str(one.get("id") or one.get("name") or f"job-{number}")
            account.add(f"job {name}", name, partial(_schedule, one=one))
        else:
            account.refuse(f"job {number}", glimpse(one), "This is no job: it has no `trigger`.")


def _schedule(entry: Entry, one: Mapping[str, Any]) -> dict[str, Any]:
    kind, given = _trigger(one)
    zone = given.get("timezone") or one.get("timezone")
    rule = _RULES[kind](entry, given, None if zone is None else str(zone))
    if given.get("jitter"):
        entry.changes("Jitter moved a fire both ways; here a fire starts later by up to as much.")
        rule["jitter"] = given["jitter"]
    work = {name: one[name] for name in ("func", "args", "kwargs") if name in one}
    task = {**entry.work({**work, "job": one.get("id")}), "retry": {"max_attempts": 1}}
    paused = "next_run_time" in one and one["next_run_time"] is None
    return {**rule, **_policy(entry, one), "paused": True if paused else None, "task": task}


def _trigger(one: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a trigger, and what it is given: beside it, within it, or in what `str` makes of it."""
    trigger = one["trigger"]
    if isinstance(trigger, Mapping):
        kind = str(trigger.get("type") or trigger.get("trigger"))
        fields = trigger.get("fields")
        given = {**trigger, **(fields if isinstance(fields, Mapping) else {})}
    elif found := _SPELLED.fullmatch(str(trigger).strip()):
        kind = found[1]
        given = {**one, **_spelled(kind, found[2])}
    else:
        kind, given = str(trigger), dict(one)
    if kind not in _RULES:
        raise Refused(f"A trigger `{kind[:40]}` has no counterpart: there are cron, interval and date.")
    if kind == "interval" and one.get("next_run_time"):
        given.setdefault("anchor", one["next_run_time"])
    return kind, given


def _spelled(kind: str, text: str) -> dict[str, Any]:
    if kind == "cron":
        return dict(re.findall(r"(\w+)='([^']*)'", text))
    if kind == "date":
        return {"run_date": text}
    found = _DELTA.fullmatch(text)
    if found is None:
        raise Refused(f"The interval `{text[:40]}` cannot be read.")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}


def _policy(entry: Entry, one: Mapping[str, Any]) -> dict[str, Any]:
    grace = one.get("misfire_grace_time", 1)
    late: dict[str, Any] = {"mode": "latest" if one.get("coalesce", True) else "all"}
    if grace is not None:
        late = {"mode": "none"} if float(grace) <= _GRACE_S else {**late, "window": float(grace)}
        if float(grace) < _GRACE_S:
            entry.changes(f"What is late by up to {_GRACE_S} s is run here, where its grace was {float(grace):g} s.")
    most = int(one.get("max_instances", 1))
    if most > 1:
        entry.changes(f"At most {most} ran at once; here any number may.")
    return {"catch_up": late, "overlap": "skip" if most == 1 else "allow"}


def _cron(entry: Entry, given: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
    text = _fields(given)
    if text["week"] != "*":
        raise Refused("A cron here knows no ISO weeks.")
    timezone = entry.zone(zone, "the dump")
    if timezone != "UTC":
        entry.changes(_CLOCKS)
    bounds = {"start_at": _bound(given.get("start_date")), "end_at": _bound(given.get("end_date"))}
    if text["year"] != "*":
        years = sorted(numbers(_YEAR, text["year"]).numbers)
        if years != list(range(years[0], years[-1] + 1)) or any(bounds.values()):
            raise Refused("Its years have gaps, or stand beside a start_date or end_date.")
        bounds = {"start_at": f"{years[0]}-01-01T00:00:00", "end_at": f"{years[-1]}-12-31T23:59:59"}
    return {**_day_rule(text), "timezone": timezone, **bounds}


def _fields(given: Mapping[str, Any]) -> dict[str, str]:
    """Every field: smaller ones than the smallest that is given are at their least."""
    said = {name: str(given[name]) for name in _ORDER if given.get(name) is not None}
    if not said:
        raise Refused("Its cron trigger has no field.")
    smallest = max(_ORDER.index(name) for name in said)
    rest = {name: _LEAST.get(name, "*") if place > smallest else "*" for place, name in enumerate(_ORDER)}
    return {**rest, **said}


def _day_rule(text: Mapping[str, str]) -> dict[str, str]:
    words = [word.strip() for word in text["day"].split(",")]
    special = [word for word in words if word.lower() == "last" or _NTH.fullmatch(word)]
    weekdays = _weekdays(text["day_of_week"])
    plain = ",".join(word for word in words if word not in special)
    days = numbers(_DAY, plain) if plain else Found(frozenset())
    times = Times(
        minutes=numbers(_MINUTE, text["minute"]),
        hours=numbers(_HOUR, text["hour"]),
        days=days,
        months=numbers(_MONTH, text["month"]),
        weekdays=weekdays,
        seconds=numbers(_SECOND, text["second"]),
    )
    if not special:
        return rule_of_both(times)
    nth = [found for word in special if (found := _NTH.fullmatch(word))]
    if len(weekdays.numbers) < 7:
        if nth:
            raise Refused("A weekday of the month and a day_of_week that must both match have no counterpart.")
        return {"rrule": rrule(times, last_day=True)}
    fields = rule_of_both(_with_days(times, frozenset(range(1, 32))))["cron"].split()
    day_field, weekday_field = len(fields) - 3, len(fields) - 1
    month_days = [*_written_days(days), *(["L"] if len(nth) < len(special) else [])]
    fields[day_field] = ",".join(month_days) or "*"
    fields[weekday_field] = ",".join(_nth(found) for found in nth) or "*"
    return {"cron": " ".join(fields)}


def _with_days(times: Times, days: frozenset[int]) -> Times:
    return Times(
        minutes=times.minutes,
        hours=times.hours,
        days=Found(days, star=True, opens=True),
        months=times.months,
        weekdays=Found(frozenset(range(7)), star=True, opens=True),
        seconds=times.seconds,
    )


def _written_days(days: Found) -> list[str]:
    return [str(day) for day in sorted(days.numbers)]


def _nth(found: re.Match[str]) -> str:
    day = found[2].upper()
    return f"{day}L" if found[1].lower() == "last" else f"{day}#{found[1][0]}"


def _weekdays(text: str) -> Found:
    """From 0 for Monday to 0 for Sunday."""
    found = numbers(_WEEKDAY, text)
    assert len(WEEKDAYS) == 7
    return Found(frozenset((number + 1) % 7 for number in found.numbers), found.star, found.opens)


def _interval(entry: Entry, given: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
    seconds = sum(float(given.get(name) or 0) * size for name, size in _UNITS.items())
    if seconds <= 0:
        raise Refused("Its interval is nothing.")
    anchor = given.get("start_date") or given.get("anchor")
    if anchor is None:
        entry.changes("It counted from when the job was added; here it is counted from the Unix epoch.")
    every = int(seconds) if seconds == int(seconds) else seconds
    return {
        "every": every,
        "anchor": _bound(anchor),
        "timezone": zone or "UTC",
        "end_at": _bound(given.get("end_date")),
    }


def _date(entry: Entry, given: Mapping[str, Any], zone: str | None) -> dict[str, Any]:
    # `str` shortens the zone of a trigger to what no program can read back; when it runs next has its offset.
    text = str(given.get("next_run_time") or given.get("run_date"))
    moment = _moment(text)
    if moment.tzinfo is not None:
        return {"rrule": once(moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")), "timezone": "UTC"}
    return {"rrule": once(moment.strftime("%Y-%m-%dT%H:%M:%S")), "timezone": entry.zone(zone, "the dump")}


def _bound(value: Any) -> str | None:
    """A time of the dump; without an offset it is of the schedule's zone, as there."""
    if value is None:
        return None
    moment = _moment(str(value))
    return moment.isoformat(timespec="seconds") if moment.microsecond == 0 else moment.isoformat()


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.removesuffix(" UTC") + ("+00:00" if text.endswith(" UTC") else ""))
    except ValueError:
        raise Refused(f"`{text[:40]}` is no time that can be read: write it as 2026-12-01T09:00:00+01:00.") from None


_RULES = {"cron": _cron, "interval": _interval, "date": _date}
