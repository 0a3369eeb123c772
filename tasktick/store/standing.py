"""Where schedules stand once plans are written.

Nearly every plan says that a fire ran, and makes the next: then the same few columns move. They are written by a
statement of their own, which costs half of what all of them do.
"""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from tasktick.model.schedule import Plan, Schedule
from tasktick.store.protocol import Transaction

# In the order in which `schedule_step` reads them.
MOVING = (
    *("id", "cursor_at", "cursor_local_ms", "next_id", "next_at", "next_local_ms", "next_due_at", "next_collapsed"),
    *("look_at", "last_id", "last_fire_at", "fired"),
)
SELDOM = (
    *("version", "updated_at", "note", "paused", "paused_until", "tzdata", "buffered_id", "holder_id", "skipped"),
    *("missed", "pause_reason", "skips"),
)
# In the order in which `schedule_stand` reads them; and whether failures are counted anew.
STANDING = (*MOVING, *SELDOM)

_moving, _seldom = attrgetter(*MOVING), attrgetter(*SELDOM)
_by_id = attrgetter("before.id")


async def write(tx: Transaction, plans: Sequence[Plan]) -> None:
    """Where these plans leave their schedules."""
    replaced = _replaced(plans)
    steps: list[tuple[Any, ...]] = []
    others: list[tuple[Any, ...]] = []
    for plan in sorted(plans, key=_by_id):
        after = _counted(plan.after, replaced.get(plan.before.id, 0))
        # Ends of fires count failures up without a look at plans, so a plan only says whether to begin anew.
        anew = plan.after.consecutive_failures < plan.before.consecutive_failures
        if anew or _seldom(after) != _seldom(plan.before):
            others.append((*_moving(after), *_seldom(after)[:-1], msgspec.json.encode(after.skips).decode(), anew))
        else:
            steps.append(_moving(after))
    if steps:
        await tx.run("schedule_step", rows=steps)
    if others:
        await tx.run("schedule_stand", rows=others)


def _replaced(plans: Sequence[Plan]) -> Counter[str]:
    """How many fires of each schedule do not run after all, because one of another schedule takes their place.

    What plans say of their own is in their counts; of others it was counted as it was written, and must stay.
    """
    return Counter(
        str(one.after.template_id)
        for plan in plans
        for one in plan.changes
        if one.ends_unbegun and one.after.template_id != plan.before.id
    )


def _counted(schedule: Schedule, replaced: int) -> Schedule:
    if not replaced:
        return schedule
    return msgspec.structs.replace(schedule, fired=schedule.fired - replaced, skipped=schedule.skipped + replaced)
