"""What is told of schedules, beside what is told of their tasks."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tasktick.model.ids import wire
from tasktick.model.schedule import Plan, Schedule
from tasktick.store import events
from tasktick.store.protocol import Transaction

PAUSED = "schedule.paused"
RESUMED = "schedule.resumed"
TYPES = (PAUSED, RESUMED)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def tell(tx: Transaction, plans: Sequence[Plan]) -> None:
    """Which of these schedules stand still since, or go on."""
    items: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for plan in plans:
        before, after = plan.before, plan.after
        if after.paused and (not before.paused or before.paused_until != after.paused_until):
            items[after.tenant].append(_item(after, PAUSED, _pause(after)))
        elif before.paused and not after.paused:
            items[after.tenant].append(_item(after, RESUMED, {"key": after.key}))
    if items:
        await events.record(tx, items, max(plan.after.updated_at for plan in plans))


def _item(schedule: Schedule, type_: str, data: dict[str, Any]) -> tuple[Any, ...]:
    """As `events.Item` reads it; the states are a task's."""
    return wire("sch", schedule.id), 0, 0, schedule.updated_at, None, type_, data


def _pause(schedule: Schedule) -> dict[str, Any]:
    until = schedule.paused_until
    return {
        "key": schedule.key,
        "reason": schedule.pause_reason,
        "until": None if until is None else _written(until),
        "note": schedule.note,
        "consecutive_failures": schedule.consecutive_failures,
    }


def _written(at: int) -> str:
    """An instant as clients read it."""
    return (EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
