"""Schedules in words: when, what is to come, and what became of what has passed. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tasktick.client.core import Answer

if TYPE_CHECKING:
    from tasktick.model.schedule import Member, Rule

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_OVERLAP = {
    "skip": "skip: a fire is left out while the one before it is at work",
    "buffer_one": "buffer_one: one fire waits for the one before it, further ones are left out",
    "buffer_all": "buffer_all: each fire waits for the one before it",
    "cancel_other": "cancel_other: the fire before it is cancelled",
    "allow": "allow: each fire starts at its time",
}
_CATCH_UP = {
    "latest": "latest: after an outage one run stands for all that was missed",
    "earliest": "earliest: after an outage the first of what was missed runs",
    "all": "all: after an outage everything that was missed runs",
    "none": "none: what an outage missed is not run",
}
_GAP = {"run_after": "runs at the first instant after it", "skip": "is left out"}
_REPEAT = {"first": "runs the first time", "second": "runs the second time", "both": "runs both times"}
_PAUSED = {"failures": " by its failures", "gone": " by a receiver that answered 410 Gone"}
_COUNTS = ("fired", "skipped", "missed", "failed")
# What these words say in their own way; all else is shown as the API names it.
_SAID = frozenset(
    (
        *(
            "id",
            "key",
            "name",
            "ended",
            "counts",
            "clock_behind_ledger",
            "cron",
            "every",
            "anchor",
            "rrule",
            "spec",
            "timezone",
            "dst",
            "paused",
        ),
        *("paused_until", "note", "next_fire_at", "last_fire_at", "overlap", "catch_up", "jitter", "start_at"),
        *("end_at", "max_fires", "task", "overlap_key", "pause_on_failures", "consecutive_failures", "pause_reason"),
    )
)


def now_of(answer: Answer) -> datetime | None:
    """What the server's clock says, by which it decides."""
    try:
        return parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None


def span(seconds: float) -> str:
    """A length of time by its two largest units."""
    whole = int(seconds)
    if seconds != whole and abs(seconds) < _UNITS[2][1]:
        return f"{seconds:g} s"
    words = []
    for unit, length in _UNITS:
        number, whole = divmod(whole, length)
        if number:
            words.append(f"{number} {unit}")
        elif words:
            break
    return " ".join(words[:2]) or "0 s"


def short_span(seconds: float) -> str:
    """A length of time by the largest unit of which there are two."""
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return span(seconds)


def from_now(instant: Any, now: datetime | None, said: Callable[[float], str] = short_span) -> str | None:
    """How far ahead or back an instant of the API is."""
    if now is None or not isinstance(instant, str):
        return None
    try:
        then = datetime.fromisoformat(instant)
    except ValueError:
        return None
    # An instant out of nowhere is in UTC, as all of the API's are.
    seconds = (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    if abs(seconds) < 1:
        return "now"
    return f"in {said(int(seconds))}" if seconds > 0 else f"{said(int(-seconds))} ago"


def state(schedule: Mapping[str, Any]) -> str:
    """Whether anything is to come of it."""
    if schedule.get("paused"):
        return "paused"
    return "ended" if schedule.get("ended") else "active"


def description(schedule: Mapping[str, Any]) -> str:
    """When it fires, as a sentence; what this program cannot read stays as it is."""
    from tasktick.errors import Refused
    from tasktick.timetable.describe import describe

    rule = _rule_of(schedule)
    if rule is None:
        return "-"
    try:
        return describe(rule)
    except Refused:
        said = [one.cron or one.rrule or "an interval" for one in (rule.spec or (rule,))]
        return f"{'; and '.join(said)}, {rule.timezone} time."


def _rule_of(schedule: Mapping[str, Any]) -> "Rule | None":
    """The rule, as far as it tells when; None if there is none that can be read."""
    from tasktick.model.schedule import Rule

    members = tuple(filter(None, map(_member_of, schedule.get("spec") or ())))
    if members:
        return Rule(spec=members, timezone=str(schedule.get("timezone")))
    one = _member_of(schedule)
    if one is None:
        return None
    return Rule(one.cron, one.every_ms, one.anchor_at, one.rrule, timezone=str(schedule.get("timezone")))


def _member_of(said: Mapping[str, Any]) -> "Member | None":
    from tasktick.model.schedule import Member

    every = said.get("every")
    if isinstance(every, int | float) and every > 0:
        return Member(every_ms=round(every * 1_000), anchor_at=None if said.get("anchor") is None else 0)
    if said.get("cron") is not None:
        return Member(cron=str(said["cron"]))
    return None if said.get("rrule") is None else Member(rrule=str(said["rrule"]))


def when(schedule: Mapping[str, Any]) -> str:
    """When it fires, but for what other columns say."""
    said = description(schedule).replace(f", {schedule.get('timezone')} time", "", 1)
    return re.sub(r", counted from [^;,]*", "", said.replace(" (six fields: seconds first)", "").removesuffix("."))


def outcomes(schedule: Mapping[str, Any], *, whole: bool = False) -> str | None:
    """What became of its times: all counts, or those that are not 0."""
    counts = schedule.get("counts") or {}
    found = [(name, counts.get(name) or 0) for name in _COUNTS]
    return ", ".join(f"{number:,} {name}" for name, number in found if number or whole) or None


def name_of(schedule: Mapping[str, Any]) -> Any:
    """By what it can be asked for."""
    return f"key:{schedule['key']}" if schedule.get("key") else schedule.get("id")


def in_full(schedule: Mapping[str, Any], now: datetime | None) -> Iterator[tuple[str, Any]]:
    """All that there is to say of a schedule, what matters first."""
    yield from ((field, schedule.get(field)) for field in ("id", "key", "name"))
    yield "state", _state_in_full(schedule, now)
    yield "calls", _call((schedule.get("task") or {}).get("target") or {})
    yield "when", description(schedule)
    yield from ((field, schedule.get(field)) for field in ("cron", "anchor", "rrule", "spec", "timezone"))
    if schedule.get("clock_behind_ledger"):
        yield "mind", "the clock is behind what is decided already: nothing fires until it has caught up"
    yield "clock changes", _clock_changes(schedule)
    yield "next", _instant(schedule.get("next_fire_at"), now)
    yield "last", _instant(schedule.get("last_fire_at"), now)
    yield "so far", outcomes(schedule, whole=True)
    yield "overlap", _OVERLAP.get(str(schedule.get("overlap")), schedule.get("overlap"))
    shared = schedule.get("overlap_key")
    yield "overlap with", None if shared is None else f"all schedules of the overlap key {shared}"
    yield "failures", _failures(schedule)
    yield "catch up", _catch_up(schedule.get("catch_up") or {}, schedule.get("overlap"))
    jitter = schedule.get("jitter")
    yield "jitter", f"each fire starts up to {span(jitter)} later" if jitter else None
    yield "not before", schedule.get("start_at")
    yield "not after", schedule.get("end_at")
    most = schedule.get("max_fires")
    yield "at most", None if most is None else f"{most:,} runs"
    yield "note", schedule.get("note")
    yield from ((field, value) for field, value in schedule.items() if field not in _SAID)
    yield "task", schedule.get("task")


def _failures(schedule: Mapping[str, Any]) -> str | None:
    """How many in a row there are, and after how many it pauses itself."""
    now, most = schedule.get("consecutive_failures") or 0, schedule.get("pause_on_failures")
    words = [f"the last {now:,} gave up" if now > 1 else "the last one gave up"] if now else []
    words += [f"after {most:,} in a row it is paused"] if most else []
    return "; ".join(words) or None


def _call(target: Mapping[str, Any]) -> str | None:
    return f"{target.get('method')} {target['url']}" if target.get("url") else None


def _state_in_full(schedule: Mapping[str, Any], now: datetime | None) -> str:
    match state(schedule):
        case "paused":
            until = schedule.get("paused_until")
            why = _PAUSED.get(str(schedule.get("pause_reason")), "")
            return f"paused until {_instant(until, now)}" if until else f"paused{why} until it is resumed"
        case "ended":
            return "ended: nothing is to come"
        case other:
            return other


def _instant(instant: Any, now: datetime | None) -> Any:
    relative = from_now(instant, now, span)
    return f"{instant}, {relative}" if relative else instant


def _clock_changes(schedule: Mapping[str, Any]) -> str | None:
    dst = schedule.get("dst")
    # What has no fixed time, and a zone without changes, know no such times.
    if not isinstance(dst, Mapping) or schedule.get("timezone") in (None, "UTC") or _follows_clock(schedule):
        return None
    gap, repeat = (_GAP.get(str(dst.get("gap"))), _REPEAT.get(str(dst.get("repeat"))))
    return f"a time that a day does not have {gap}; one that it has twice {repeat}"


def _follows_clock(schedule: Mapping[str, Any]) -> bool:
    """Whether no rule of it names a fixed time."""
    from tasktick.errors import Refused
    from tasktick.timetable.fires import members, readings

    rule = _rule_of(schedule)
    try:
        wanted = [readings(one) for one in members(rule)] if rule is not None else []
    except Refused:
        return False
    return all(one is None or one.is_wildcard for one in wanted)


def _catch_up(catch_up: Mapping[str, Any], overlap: Any) -> str:
    mode = str(catch_up.get("mode"))
    words = [_CATCH_UP.get(mode, mode)]
    if mode == "all" and overlap in ("skip", "buffer_one"):
        words.append(f"but `overlap` {overlap} leaves out what comes while one of them runs")
    if isinstance(window := catch_up.get("window"), int | float):
        words.append(f"what is older than {span(window)} is missed")
    if mode == "all":
        words.append(f"at most {catch_up.get('max')}")
    return "; ".join(words)


def fires(found: Sequence[Mapping[str, Any]], now: datetime | None) -> tuple[list[str], list[list[Any]]]:
    """The columns and rows of fires to come; where none is spread, the effective time is the nominal one."""
    spread = any(fire.get("effective") != fire.get("nominal") for fire in found)
    columns = ["nominal", "local", *(["effective"] if spread else []), "in", "note"]
    return columns, [
        [
            from_now(fire.get("effective") or fire.get("nominal"), now) if name == "in" else fire.get(name)
            for name in columns
        ]
        for fire in found
    ]
