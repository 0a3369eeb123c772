"""Celery beat: a JSON dump of `beat_schedule`, or fixtures of django-celery-beat (`manage.py dumpdata`).

In a dump a schedule is seconds, `{"every": 10, "period": "minutes"}`, the fields of a crontab, or what `str` makes of
Celery's objects. Of a crontab both day fields must match (so a recurrence rule where both say something), weekdays
are 0 to 6 from Sunday, ranges wrap, and `N/step` is refused. Beat starts a task whatever still runs, and once at its
own start for what it missed.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from tasktick.ctl.importers.account import Account, Entry, Refused, glimpse
from tasktick.ctl.importers.numbers import Field, Times, once, rule_of_both
from tasktick.ctl.importers.numbers import read as numbers

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_NAMES = {name[:length].upper(): number for number, name in enumerate(_DAYS) for length in range(3, len(name) + 1)}
_FIELDS = {
    "minute": Field("minute", 0, 59, wraps=True, open_step=False),
    "hour": Field("hour", 0, 23, wraps=True, open_step=False),
    "day_of_month": Field("day_of_month", 1, 31, wraps=True, open_step=False),
    "month_of_year": Field("month_of_year", 1, 12, wraps=True, open_step=False),
    "day_of_week": Field("day_of_week", 0, 6, _NAMES, wraps=True, open_step=False),
}
_PERIODS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "microseconds": 0.000_001}
_REPR = re.compile(r"<crontab: (\S+) (\S+) (\S+) (\S+) (\S+) \((m/h/dM/MY/d|m/h/d/dM/MY)\)>")
_FREQ = re.compile(r"<freq: ([\d.]+) (seconds?|minutes?|hours?|days?)>")
_DELTA = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)
_LIKE_BEAT = {"overlap": "allow", "catch_up": {"mode": "latest"}}
_CLOCKS = "Around a change of the clocks Celery's times depend on its version; here `dst` says what becomes of them."
_SOLAR = "The sun's times are no rule here: a schedule for each, or a worker of yours that makes tasks with `run_at`."
_NO_FIXTURE = "This is no row of a fixture, which has `model`, `pk` and `fields`: is the file of another source?"
_COUNTED = "Beat counts an interval from the last run; here it is counted from the Unix epoch, and does not drift."


def read(account: Account, document: Any) -> None:
    """Every entry of a dump, or of fixtures."""
    if isinstance(document, list):
        _fixtures(account, document)
        return
    table = document.get("beat_schedule", document) if isinstance(document, Mapping) else None
    if not isinstance(table, Mapping) or not isinstance(document, Mapping):
        account.refuse("the file", type(document).__name__, "This is neither a beat_schedule nor a list of fixtures.")
        return
    zone = document.get("timezone") if "beat_schedule" in document else None
    for name, one in table.items():
        if isinstance(one, Mapping) and "task" in one and "schedule" in one:
            account.add(f"entry {name}", str(name), partial(_dumped, one=one, zone=zone))
        else:
            account.refuse(f"entry {name}", str(name), "This has no task or no schedule.")


def _dumped(entry: Entry, one: Mapping[str, Any], zone: Any) -> dict[str, Any]:
    options = one.get("options") or {}
    task = _task(entry, one, options.get("queue"), options.get("expires"))
    for name in ("countdown", "eta", "priority"):
        if options.get(name) is not None:
            entry.changes(f"The option `{name}` is left out.")
    return {**_rule(entry, one["schedule"], zone), **_LIKE_BEAT, "task": task}


def _task(entry: Entry, one: Mapping[str, Any], queue: Any, expires: Any) -> dict[str, Any]:
    args, kwargs = (_decoded(one.get(name), usual) for name, usual in (("args", []), ("kwargs", {})))
    task = entry.work({"task": one["task"], "args": args, "kwargs": kwargs}, None if queue is None else str(queue))
    if isinstance(expires, int | float) and expires > 0:
        task["expires_in"] = expires
    elif expires is not None:
        entry.changes("An `expires` that is no number of seconds is left out.")
    return {**task, "retry": {"max_attempts": 1}}


def _decoded(value: Any, usual: Any) -> Any:
    """Fixtures hold JSON within a text."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise Refused("Its arguments are no JSON.") from None
    return usual if value is None else value


def _rule(entry: Entry, schedule: Any, zone: Any) -> dict[str, Any]:
    match schedule:
        case bool() | None:
            raise Refused("Its schedule cannot be read.")
        case int() | float():
            return _interval(entry, schedule)
        case str():
            return _spelled(entry, schedule, zone)
        case {"every": every, "period": str(period)} if period in _PERIODS:
            return _interval(entry, float(every) * _PERIODS[period])
        case {"event": _}:
            raise Refused(_SOLAR)
        case Mapping() if schedule.keys() & _FIELDS.keys():
            return _crontab(entry, schedule, schedule.get("timezone") or zone)
    raise Refused("Its schedule cannot be read: it is neither seconds, nor an interval, nor a crontab.")


def _spelled(entry: Entry, text: str, zone: Any) -> dict[str, Any]:
    if found := _REPR.fullmatch(text):
        order = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        if found[6] == "m/h/d/dM/MY":
            order = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
        return _crontab(entry, dict(zip(order, found.groups()[:5], strict=True)), zone)
    if found := _FREQ.fullmatch(text):
        return _interval(entry, float(found[1]) * _PERIODS[found[2].rstrip("s") + "s"])
    if found := _DELTA.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return _interval(entry, days * 86_400 + hours * 3_600 + minutes * 60 + seconds)
    if text.startswith("<solar"):
        raise Refused(_SOLAR)
    raise Refused(f"`{text[:80]}` is no schedule of Celery's.")


def _interval(entry: Entry, seconds: float) -> dict[str, Any]:
    if seconds <= 0:
        raise Refused("Its interval is nothing.")
    entry.changes(_COUNTED)
    return {"every": int(seconds) if seconds == int(seconds) else seconds}


def _crontab(entry: Entry, fields: Mapping[str, Any], zone: Any) -> dict[str, Any]:
    found = {name: numbers(field, _text(fields.get(name, "*"))) for name, field in _FIELDS.items()}
    times = Times(
        minutes=found["minute"],
        hours=found["hour"],
        days=found["day_of_month"],
        months=found["month_of_year"],
        weekdays=found["day_of_week"],
    )
    timezone = entry.zone(None if zone is None else str(zone), "the dump")
    if timezone != "UTC":
        entry.changes(_CLOCKS)
    return {**rule_of_both(times), "timezone": timezone}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else "*" if value is None else str(value)


def _fixtures(account: Account, rows: list[Any]) -> None:
    """Schedules by their model and number, and the tasks that name them."""
    by_model: dict[tuple[str, Any], Mapping[str, Any]] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not isinstance(row.get("fields"), Mapping):
            account.refuse(f"row {number}", glimpse(row), _NO_FIXTURE)
            continue
        by_model[str(row.get("model", "")).rpartition(".")[2].lower(), _known_by(row.get("pk"))] = row["fields"]
    for (model, pk), fields in by_model.items():
        if model == "periodictask":
            name = str(fields.get("name") or f"task-{pk}")
            account.add(f"periodictask {pk}", name, partial(_periodic, one=fields, by_model=by_model))


def _known_by(pk: Any) -> Any:
    """A number or a text as it is; what else stands there as it is written."""
    return pk if isinstance(pk, int | float | str | None) else repr(pk)


def _periodic(
    entry: Entry, one: Mapping[str, Any], by_model: Mapping[tuple[str, Any], Mapping[str, Any]]
) -> dict[str, Any]:
    made = {
        **_LIKE_BEAT,
        **_periodic_rule(entry, one, by_model),
        "start_at": one.get("start_time"),
        "paused": None if one.get("enabled", True) else True,
        "note": str(one["description"])[:1_000] if one.get("description") else None,
    }
    if one.get("one_off"):
        made["max_fires"] = 1
    if one.get("expires"):
        made["end_at"] = one["expires"]
    task = _task(entry, one, one.get("queue"), one.get("expire_seconds"))
    return {**made, "task": task}


def _periodic_rule(
    entry: Entry, one: Mapping[str, Any], by_model: Mapping[tuple[str, Any], Mapping[str, Any]]
) -> dict[str, Any]:
    for kind in ("crontab", "interval", "solar", "clocked"):
        pk = one.get(kind)
        if pk is None:
            continue
        fields = by_model.get((f"{kind}schedule", _known_by(pk)))
        if fields is None:
            raise Refused(f"Its {kind} {pk} is not in the file: dump all of django_celery_beat.")
        if kind == "clocked":
            return _clocked(str(fields.get("clocked_time")))
        return _rule(entry, fields, None)
    raise Refused("It has no schedule.")


def _clocked(text: str) -> dict[str, Any]:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"`{text[:40]}` is no time.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return {"rrule": once(moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"))}
