"""From a query's words to the store's filters. What is not known is refused, never ignored. Pure."""

import re
from collections.abc import Collection
from typing import Any, get_args

import msgspec

from tasktick.api.faults import Faults
from tasktick.api.paging import Query
from tasktick.api.times import instant_ms
from tasktick.model.attempt import DeathReason
from tasktick.model.checkin import KINDS, STATUSES
from tasktick.model.ids import parse
from tasktick.model.schedule import Outcome
from tasktick.model.state import State
from tasktick.store.checkins import CheckFilter
from tasktick.store.dlq import DeadLetterFilter
from tasktick.store.listing import TaskFilter
from tasktick.store.schedules import ScheduleFilter

PAGE_WORDS = frozenset({"limit", "cursor", "order", "fields"})
SHARED_WORDS = frozenset({"queue", "type", "name", "tag", "schedule_id", "workflow_id", "sla_met", "q"})
TIME_WORDS = frozenset({"run_after", "run_before", "created_after", "created_before"})
TASK_WORDS = PAGE_WORDS | SHARED_WORDS | TIME_WORDS | {"state"}
DEAD_LETTER_WORDS = PAGE_WORDS | SHARED_WORDS | TIME_WORDS | {"unresolved", "class", "reason"}
ATTEMPT_WORDS = frozenset({"limit", "cursor"})
SECRET_WORDS = frozenset({"reveal"})
KEY_WORDS = frozenset({"limit", "cursor", "revoked"})
CALENDAR_WORDS = frozenset({"limit", "cursor"})
CALENDAR_PUT_WORDS = frozenset({"dry_run"})
TENANT_WORDS = frozenset({"limit", "cursor"})
CLASSES = frozenset({"receiver", "network", "policy", "platform"})
DEATH_REASONS: tuple[str, ...] = get_args(DeathReason)
TEXT_CHARS_MAX = 200
NO_SUCH_WORD = "There is no such parameter here."

CHECK_WORDS = frozenset({"limit", "cursor", "status", "paused", "tag", "q"})
PING_WORDS = frozenset({"limit", "cursor", "kind"})
PINGED_WORDS = frozenset({"run"})
EVENT_WORDS = frozenset({"type", "after"})
SCHEDULE_WORDS = PAGE_WORDS | {"name", "tag", "paused", "q"}
LEDGER_WORDS = frozenset({"limit", "cursor", "outcome", "reason", "from", "to"})
OUTCOMES: tuple[str, ...] = get_args(Outcome)
REPEATABLE = frozenset({"state", "outcome"})
PREVIEW_WORDS = frozenset({"count", "from"})
PREVIEW_DEFAULT = 10
PREVIEW_MAX = 1_000
EXPLAIN_WORDS = frozenset({"at"})
FORECAST_WORDS = frozenset({"hours", "by", "queue", "host"})
FORECAST_HOURS_DEFAULT = 24
FORECAST_HOURS_MAX = 168
# How many minutes a step has.
FORECAST_STEPS = {"minute": 1, "quarter": 15, "hour": 60}

_COUNT = re.compile(r"\d{1,6}", re.ASCII)
_SECONDS = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?", re.ASCII)


def known(faults: Faults, query: Query, words: Collection[str], repeatable: Collection[str] = REPEATABLE) -> None:
    """Refuse parameters that nothing here honours, and those that are given twice."""
    for name, values in query.items():
        if name not in words:
            faults.add(f"?{name[:TEXT_CHARS_MAX]}", NO_SUCH_WORD)
        elif len(values) > 1 and name not in repeatable:
            faults.add(f"?{name}", "This is given more than once.")


def tasks(faults: Faults, query: Query, now: int) -> TaskFilter:
    """The filter of a list of tasks."""
    known(faults, query, TASK_WORDS)
    return TaskFilter(
        states=_states(faults, query),
        now=now,
        **_shared(faults, query),
    )


def dead_letters(faults: Faults, query: Query) -> DeadLetterFilter:
    """The filter of a list of dead letters: by default those that nobody has dealt with, with `false` the others."""
    known(faults, query, DEAD_LETTER_WORDS)
    return DeadLetterFilter(
        unresolved=flag(faults, query, "unresolved") if "unresolved" in query else True,
        class_=choice(faults, query, "class", CLASSES, "") or None,
        reason=choice(faults, query, "reason", DEATH_REASONS, "") or None,
        **_shared(faults, query),
    )


def schedules(faults: Faults, query: Query) -> ScheduleFilter:
    """The filter of a list of schedules."""
    known(faults, query, SCHEDULE_WORDS)
    tag_name, tag_value = _tag(faults, query)
    return ScheduleFilter(
        name=_one(query, "name"),
        paused=flag(faults, query, "paused"),
        tag_name=tag_name,
        tag_value=tag_value,
        text=_text(faults, query),
    )


def checks(faults: Faults, query: Query) -> CheckFilter:
    """The filter of a list of checks."""
    known(faults, query, CHECK_WORDS)
    tag_name, tag_value = _tag(faults, query)
    return CheckFilter(
        status=choice(faults, query, "status", STATUSES, "") or None,
        paused=flag(faults, query, "paused"),
        tag_name=tag_name,
        tag_value=tag_value,
        text=_text(faults, query),
    )


def pings(faults: Faults, query: Query) -> str | None:
    """Of which kind pings are asked for."""
    known(faults, query, PING_WORDS)
    return choice(faults, query, "kind", KINDS, "") or None


class LedgerFilter(msgspec.Struct, frozen=True):
    """Which rows of a ledger: from one instant on, before another."""

    outcomes: list[str] | None
    reason: str | None
    from_at: int | None
    to_at: int | None


def ledger(faults: Faults, query: Query) -> LedgerFilter:
    """The filter of a ledger."""
    known(faults, query, LEDGER_WORDS)
    outcomes = sorted(set(query.get("outcome", ())))
    if not set(OUTCOMES).issuperset(outcomes):
        faults.add("?outcome", f"An outcome is one of {', '.join(OUTCOMES)}.")
    return LedgerFilter(
        outcomes or None, _one(query, "reason"), _instant(faults, query, "from"), _instant(faults, query, "to")
    )


def preview(faults: Faults, query: Query) -> tuple[int, int | None]:
    """How many fires are asked for, and after which instant."""
    known(faults, query, PREVIEW_WORDS)
    text = _one(query, "count")
    count = int(text) if text is not None and _COUNT.fullmatch(text) else PREVIEW_DEFAULT
    if text is not None and not (_COUNT.fullmatch(text) and 1 <= count <= PREVIEW_MAX):
        faults.add("?count", f"This is a number from 1 to {PREVIEW_MAX}.")
    return count, _instant(faults, query, "from")


def explained_at(faults: Faults, query: Query, now: int) -> int:
    """The instant that is to be explained: now, if nothing else is said."""
    known(faults, query, EXPLAIN_WORDS)
    at = _instant(faults, query, "at")
    return now if at is None else at


def forecast(faults: Faults, query: Query) -> tuple[int, int, str | None, str | None]:
    """How many hours ahead, in steps of so many minutes, of which queue and host."""
    known(faults, query, FORECAST_WORDS)
    text = _one(query, "hours")
    hours = int(text) if text is not None and _COUNT.fullmatch(text) else FORECAST_HOURS_DEFAULT
    if text is not None and not (_COUNT.fullmatch(text) and 1 <= hours <= FORECAST_HOURS_MAX):
        faults.add("?hours", f"This is a number from 1 to {FORECAST_HOURS_MAX}.")
    step = choice(faults, query, "by", tuple(FORECAST_STEPS), "minute")
    return (
        hours,
        FORECAST_STEPS[step if step in FORECAST_STEPS else "minute"],
        _one(query, "queue"),
        _one(query, "host"),
    )


def _shared(faults: Faults, query: Query) -> dict[str, Any]:
    tag_name, tag_value = _tag(faults, query)
    found: dict[str, Any] = {name: _one(query, name) for name in ("queue", "type", "name")}
    for name in TIME_WORDS:
        found[name] = _instant(faults, query, name)
    return found | {
        "tag_name": tag_name,
        "tag_value": tag_value,
        "schedule_id": _id(faults, query, "schedule_id", "sch"),
        "workflow_id": _id(faults, query, "workflow_id", "wfl"),
        "sla_met": flag(faults, query, "sla_met"),
        "text": _text(faults, query),
    }


def _one(query: Query, name: str) -> str | None:
    values = query.get(name, ())
    return values[-1] if values else None


def _states(faults: Faults, query: Query) -> list[int] | None:
    words = query.get("state", ())
    if not words:
        return None
    by_word = {state.word: int(state) for state in State}
    for word in words:
        if word not in by_word:
            faults.add("?state", f"A state is one of {', '.join(by_word)}.")
    return sorted({by_word[word] for word in words if word in by_word})


def _tag(faults: Faults, query: Query) -> tuple[str | None, str | None]:
    text = _one(query, "tag")
    if text is None:
        return None, None
    name, colon, value = text.partition(":")
    if not colon:
        faults.add("?tag", "A tag is given as name:value.")
    return name, value


def _instant(faults: Faults, query: Query, name: str) -> int | None:
    text = _one(query, name)
    if text is None:
        return None
    try:
        return instant_ms(_number(text))
    except ValueError as error:
        # A `+` that was not escaped arrives as a space: say so, since it is the usual cause.
        advice = " In a query, + is written %2B." if " " in text else ""
        faults.add(f"?{name}", f"{error}{advice}")
        return None


def _number(text: str) -> str | float:
    """Unix seconds as a number; what Python would take for one beyond that (1_0, nan, other digits) is text."""
    return float(text) if _SECONDS.fullmatch(text) else text


def _id(faults: Faults, query: Query, name: str, prefix: str) -> str | None:
    text = _one(query, name)
    if text is None:
        return None
    try:
        return parse(prefix, text, name)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is no id
        faults.add(f"?{name}", f"This is no id; one begins with {prefix}_.")
        return None


def flag(faults: Faults, query: Query, name: str) -> bool | None:
    """A yes or a no."""
    text = _one(query, name)
    if text is None:
        return None
    if text not in {"true", "false", "1", "0"}:
        faults.add(f"?{name}", "This is true or false.")
    return text in {"true", "1"}


def choice(faults: Faults, query: Query, name: str, words: Collection[str], default: str) -> str:
    """One of a few words."""
    text = _one(query, name)
    if text is None:
        return default
    if text not in words:
        faults.add(f"?{name}", f"This is one of {', '.join(sorted(words))}.")
    return text


def _text(faults: Faults, query: Query) -> str | None:
    text = _one(query, "q")
    if text is None:
        return None
    if not 0 < len(text) <= TEXT_CHARS_MAX:
        faults.add("?q", f"This has 1 to {TEXT_CHARS_MAX} characters.")
    return text
