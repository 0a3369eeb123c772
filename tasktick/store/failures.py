"""Fires that give up one after the other: counted on their schedule, which pauses itself after so many of them.

Only fires of the ledger count, in the order of their ends: `dead` adds one, `succeeded` begins anew. What expired, was
cancelled, skipped or missed says nothing about the receiver and leaves the count as it is; so does a trigger. The
schedule's row is locked by whoever ends an attempt of it, so the count is exact however many end at once.
"""

from collections.abc import Sequence

import msgspec

from tasktick.model import pause_note
from tasktick.model.schedule import Recorder
from tasktick.model.state import State
from tasktick.store import schedules
from tasktick.store.protocol import Transaction


class FireEnd(msgspec.Struct, frozen=True):
    """An attempt that was the last of a schedule's task."""

    schedule_id: str
    task_id: str
    nominal_at: int
    state: State


async def count(tx: Transaction, ended: Sequence[FireEnd]) -> list[str]:
    """Count these ends, in their order; the schedules that have had enough of it."""
    succeeded: dict[str, FireEnd] = {}
    dead: dict[str, list[FireEnd]] = {}
    for one in ended:
        if one.state is State.SUCCEEDED:
            succeeded[one.schedule_id] = one
            dead.pop(one.schedule_id, None)
        elif one.state is State.DEAD:
            dead.setdefault(one.schedule_id, []).append(one)
    if succeeded:
        await tx.run("failures_over", rows=[_row(succeeded[name]) for name in sorted(succeeded)])
    if not dead:
        return []
    await tx.run("failures_add", rows=[_row(one) for name in sorted(dead) for one in dead[name]])
    return await tx.rows("failures_enough", str, ids=sorted(dead))


async def failing(tx: Transaction, ids: Sequence[str]) -> dict[str, int]:
    """Which of these schedules have failed since they succeeded, and how often in a row."""
    return dict(await tx.rows("failures_read", tuple[str, int], ids=ids))


def _row(one: FireEnd) -> list[str | int]:
    return [one.schedule_id, one.task_id, one.nominal_at]


async def pause(tx: Transaction, ids: Sequence[str], by: Recorder) -> None:
    """These schedules stand still until somebody has looked after them."""
    await schedules.pause_each(tx, ids, by, "failures", lambda one: pause_note.of_failures(one.consecutive_failures))
