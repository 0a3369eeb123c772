"""Schedules of Amazon EventBridge Scheduler, as `get-schedule` answers them: one, a list, or `{"Schedules": [...]}`.

`cron(minute hour day month weekday year)`: weekdays are 1 to 7 from Sunday, `?` is no value, `N/step` runs to the end,
`L` is the last day of the month and, alone as a weekday, Saturday; `5L` is the month's last Thursday, `2#3` its third
Monday, `15W` the working day nearest to the 15th. `rate(5 minutes)` counts from StartDate, else from its creation.
`at(...)` fires once. A time that a day does not have is left out, one that it has twice runs once.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from tasktick.ctl.importers.account import Account, Entry, Refused, glimpse
from tasktick.ctl.importers.numbers import MONTH_NAMES, WEEKDAYS, Field, once, written
from tasktick.ctl.importers.numbers import read as numbers

_MINUTE = Field("minute", 0, 59)
_HOUR = Field("hour", 0, 23)
_DAY = Field("day-of-month", 1, 31)
_MONTH = Field("month", 1, 12, MONTH_NAMES)
_WEEKDAY = Field("day-of-week", 1, 7, {name: number for number, name in enumerate(WEEKDAYS, 1)}, wraps=True)
_YEAR = Field("year", 1970, 2199)
_UNITS = {"minute": "m", "hour": "h", "day": "d"}
_DST = {"gap": "skip", "repeat": "first"}
_RETRIES = 185
_AGE_S = 86_400
NO_EXPRESSION = (
    "It does not say when: `list-schedules` leaves that out. Export each with `aws scheduler get-schedule --name NAME`."
)


def read(account: Account, document: Any) -> None:
    """Every schedule of an answer, or of several."""
    rows = document.get("Schedules", [document]) if isinstance(document, Mapping) else document
    for number, one in enumerate(rows if isinstance(rows, list) else [rows], 1):
        if not isinstance(one, Mapping) or not one.get("Name"):
            account.refuse(f"schedule {number}", glimpse(one), "This is no schedule of EventBridge Scheduler.")
            continue
        group = one.get("GroupName") or "default"
        name = str(one["Name"]) if group == "default" else f"{group}.{one['Name']}"
        account.add(f"schedule {group}/{one['Name']}", name, partial(_schedule, one=one))


def _schedule(entry: Entry, one: Mapping[str, Any]) -> dict[str, Any]:
    zone = str(one.get("ScheduleExpressionTimezone") or "UTC")
    window = one.get("FlexibleTimeWindow") or {}
    made: dict[str, Any] = {
        "timezone": zone,
        "overlap": "allow",
        "start_at": _instant(one.get("StartDate")),
        "end_at": _instant(one.get("EndDate")),
        "jitter": f"{window['MaximumWindowInMinutes']}m" if window.get("Mode") == "FLEXIBLE" else None,
        "paused": True if one.get("State") == "DISABLED" else None,
        "note": str(one["Description"])[:1_000] if one.get("Description") else None,
    }
    if one.get("ActionAfterCompletion") == "DELETE":
        entry.changes("It stays when it has ended, where EventBridge would have removed it.")
    rule = _rule(entry, one, zone)
    if "start_at" in rule and (made["start_at"] or made["end_at"]):
        raise Refused("Its years and its StartDate or EndDate both bound it: leave one of them out.")
    return {**made, **rule, "task": _task(entry, one.get("Target") or {})}


def _rule(entry: Entry, one: Mapping[str, Any], zone: str) -> dict[str, Any]:
    text = one.get("ScheduleExpression")
    if not text:
        raise Refused(NO_EXPRESSION)
    found = re.fullmatch(r"\s*(cron|rate|at)\((.*)\)\s*", str(text))
    if found is None:
        raise Refused(f"`{str(text)[:80]}` is none of cron(...), rate(...) and at(...).")
    if found[1] == "at":
        return {"rrule": once(found[2].strip())}
    if found[1] == "rate":
        return _rate(entry, one, found[2])
    made = cron(found[2])
    if zone != "UTC" and re.match(r"\S*\*|\S+ \S*\*", made["cron"]):
        entry.changes("In an hour that comes twice it fires in both; EventBridge says that it runs only once.")
    return {**made, "dst": _DST}


def _rate(entry: Entry, one: Mapping[str, Any], text: str) -> dict[str, Any]:
    found = re.fullmatch(r"\s*([1-9]\d{0,6})\s+(minute|hour|day)s?\s*", text, re.ASCII)
    if found is None:
        raise Refused(f"`rate({text[:40]})` cannot be read.")
    anchor = _instant(one.get("StartDate") or one.get("CreationDate"))
    if anchor is None:
        entry.changes("It counted from its creation, which is not told; here it is counted from the Unix epoch.")
    return {"every": f"{found[1]}{_UNITS[found[2]]}", "anchor": anchor}


def cron(text: str) -> dict[str, Any]:
    """Six fields as five, and the year as a beginning and an end."""
    words = text.upper().split()
    if len(words) != 6:
        raise Refused(f"`cron({text[:80]})` has not six fields.")
    minute, hour, day, month, weekday, year = words
    if day not in ("?", "*") and weekday not in ("?", "*"):
        raise Refused("Day of month and day of week are both given, which EventBridge refuses too.")
    fields = [
        _time(minute, _MINUTE),
        _time(hour, _HOUR),
        "*" if day == "?" else _list(day, _day),
        _time(month, _MONTH),
        "*" if weekday == "?" else _list(weekday, _weekday),
    ]
    return {"cron": " ".join(fields), **_years(year)}


def _time(text: str, field: Field) -> str:
    found = numbers(field, text)
    return written(found.numbers, field.low, field.high, star=found.opens)


def _list(text: str, one: Any) -> str:
    return "*" if text == "*" else ",".join(one(word) for word in text.split(","))


def _day(word: str) -> str:
    if word in ("L", "LW", "WL") or re.fullmatch(r"\d{1,2}W", word, re.ASCII):
        return word
    return written(numbers(_DAY, word).numbers, 1, 31, star=word.startswith("*"))


def _weekday(word: str) -> str:
    """Numbers from 1 to 7 become names, which nobody reads differently."""
    if word == "L":
        return "SAT"
    last = re.fullmatch(r"(\w+)L", word, re.ASCII)
    nth = re.fullmatch(r"(\w+)#([1-5])", word, re.ASCII)
    if last or nth:
        (number,) = numbers(_WEEKDAY, (last or nth)[1]).numbers  # type: ignore[index] # one has matched
        return f"{WEEKDAYS[number - 1]}L" if last else f"{WEEKDAYS[number - 1]}#{nth[2]}"  # type: ignore[index] # one has matched
    return ",".join(WEEKDAYS[number - 1] for number in sorted(numbers(_WEEKDAY, word).numbers))


def _years(text: str) -> dict[str, Any]:
    if text == "*":
        return {}
    found = sorted(numbers(_YEAR, text).numbers)
    if found != list(range(found[0], found[-1] + 1)):
        raise Refused(f"The years `{text[:40]}` have gaps: make one schedule for each stretch.")
    return {"start_at": f"{found[0]}-01-01T00:00:00", "end_at": f"{found[-1]}-12-31T23:59:59"}


def _instant(value: Any) -> str | None:
    """An instant as the command line of AWS prints it, or Unix seconds."""
    if value in (None, ""):
        return None
    try:
        if isinstance(value, int | float):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        raise Refused(f"`{str(value)[:40]}` is no time.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _task(entry: Entry, target: Mapping[str, Any]) -> dict[str, Any]:
    policy = target.get("RetryPolicy") or {}
    retries = int(policy.get("MaximumRetryAttempts", _RETRIES))
    if target.get("DeadLetterConfig"):
        entry.changes("What gives up is a dead letter here, and goes to no queue of Amazon's.")
    payload: dict[str, Any] = {"arn": target.get("Arn")}
    if target.get("Input") is not None:
        payload["input"] = _input(str(target["Input"]))
    known = {"Arn", "Input", "RetryPolicy", "DeadLetterConfig", "RoleArn"}
    payload |= {name: value for name, value in target.items() if name not in known}
    task = entry.work(payload)
    age_s = int(policy.get("MaximumEventAgeInSeconds", _AGE_S))
    return {**task, "retry": {"max_attempts": retries + 1}, "expires_in": f"{age_s}s"}


def _input(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
