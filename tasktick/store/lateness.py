"""Fires that have not begun within their `sla`: told once, while they are late, by whoever sees it first.

When a fire is late is written with it, anew when it is taken up again, and taken away in the transaction that tells it:
by the sweeper while it waits, whatever it waits for, or by the claim that comes too late. One that runs by a backfill,
or by hand after all, is late from when it was asked for.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tasktick.model.ids import wire
from tasktick.model.state import State
from tasktick.model.task import Claimed
from tasktick.store.events import Told
from tasktick.store.protocol import Transaction

LATE = "schedule.late"


class LateFire(msgspec.Struct, frozen=True, array_like=True):
    """A fire that should have begun."""

    id: str
    tenant: str
    schedule_id: str
    state: int
    run_at: int
    due_at: int
    late_at: int
    sla_ms: int
    queue: str
    host: str


async def find(tx: Transaction, now: int, limit: int, partitions: list[str] | None = None) -> list[str]:
    """Fires of these partitions (all, if None) that are late, and of which nobody knows."""
    if partitions == []:
        return []
    return await tx.rows("fires_late", str, now=now, limit=limit, partitions=partitions)


async def ask(tx: Transaction, ids: Sequence[str]) -> None:
    """These have ended, and are taken up again: they are late from when they were asked for."""
    if ids:
        await tx.run("fires_asked", ids=sorted(ids))


async def tell(tx: Transaction, ids: list[str], now: int, held_by: Mapping[str, str | None]) -> int:
    """Tell of these that they are late, if they are still; how many. One that was put off is late later."""
    found = await tx.rows("fires_late_held", LateFire, ids=ids, now=now)
    if not found:
        return 0
    late = [one for one in found if one.due_at + one.sla_ms <= now]
    later = [one for one in found if one.due_at + one.sla_ms > now]
    rows = [[one.id, None] for one in late] + [[one.id, one.due_at + one.sla_ms] for one in later]
    await tx.run("fires_told", rows=sorted(rows, key=lambda row: str(row[0])))
    told = Told(now)
    for one in late:
        told.add(
            one.tenant,
            LATE,
            wire("sch", one.schedule_id),
            task=wire("tsk", one.id),
            nominal_at=one.run_at,
            due_at=one.due_at,
            sla=one.sla_ms / 1_000,
            state=State(one.state).word,
            held_by=held_by.get(one.id),
            started_at=None,
        )
    await told.write(tx)
    return len(late)


async def tell_claimed(tx: Transaction, claimed: Sequence[Claimed]) -> None:
    """These have just been claimed, some of them too late."""
    late = [one for one in claimed if one.late_at is not None and one.late_at <= one.picked_at and one.attempt == 1]
    if not late:
        return
    await tx.run("fires_told", rows=[[one.id, None] for one in late])
    told = Told(late[0].picked_at)
    for one in late:
        if one.due_at + one.sla_ms <= one.picked_at:
            told.add(
                one.tenant,
                LATE,
                wire("sch", str(one.schedule_id)),
                task=wire("tsk", one.id),
                nominal_at=one.run_at,
                due_at=one.due_at,
                sla=one.sla_ms / 1_000,
                state=State.RUNNING.word,
                held_by=None,
                started_at=one.picked_at,
            )
    await told.write(tx)
