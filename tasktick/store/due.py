"""What the loader reads, and what it parks. Due means `wake_at`; `due_at` keeps the order."""

from typing import Generic, TypeVar

import msgspec

from tasktick.model.task import Due, TaskState, Timer
from tasktick.store import tasks
from tasktick.store.protocol import Transaction, only

BEGINNING = -(2**62)
# Of a partition some more rows are read than its share of a page, and more each time that they are too few: those of
# one may all be due before those of the others.
SHARES = 1.5
EACH_LEAST = 16
EACH_GROWTH = 4


T = TypeVar("T", Due, Timer)


class _Page(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """What was read of some partitions; whether there may be more of them before the end of it."""

    is_cut: bool
    rows: list[T]


async def between(
    tx: Transaction, after: int, after_id: str, until: int, limit: int, partitions: list[str] | None = None
) -> list[Due]:
    """Waiting tasks beyond (after, after_id) and up to `until`, of these partitions (all, if None), in order.

    Fewer than `limit` are all that there are.
    """
    if partitions is None:
        return await tx.rows("due_between", Due, after=after, after_id=after_id, until=until, limit=limit)
    return await _within(tx, "due_in", _Page[Due], (after, after_id), until, limit, partitions)


async def timers(
    tx: Transaction, after: int, after_id: str, until: int, limit: int, partitions: list[str] | None = None
) -> list[Timer]:
    """The same, as entries of the wheel."""
    if partitions is None:
        return await tx.rows("timers_between", Timer, after=after, after_id=after_id, until=until, limit=limit)
    return await _within(tx, "timers_in", _Page[Timer], (after, after_id), until, limit, partitions)


async def _within(
    tx: Transaction,
    query: str,
    page: type[_Page[T]],
    edge: tuple[int, str],
    until: int,
    limit: int,
    partitions: list[str],
) -> list[T]:
    """Read some partitions, from each about its share; from where that was too little, more."""
    found: list[T] = []
    each = max(EACH_LEAST, int(SHARES * limit) // max(len(partitions), 1))
    while partitions and len(found) < limit:
        after, after_id = edge if not found else (found[-1].wake_at, found[-1].id)
        bounds = {"after": after, "after_id": after_id, "until": until, "limit": limit - len(found), "each": each}
        (read,) = await tx.rows(query, page, partitions=partitions, **bounds)
        found += read.rows
        if not read.is_cut:
            break
        each *= EACH_GROWTH
    return found


async def by_ids(tx: Transaction, ids: list[str]) -> list[Due]:
    """Those of these tasks that wait."""
    return await tx.rows("due_by_ids", Due, ids=ids)


async def park(tx: Transaction, wake_at_by_id: dict[str, int]) -> int:
    """Look at these again later: they may not go now, and must not fill the room of others."""
    rows = [{"id": task_id, "wake_at": wake_at} for task_id, wake_at in sorted(wake_at_by_id.items())]
    return await tx.run("task_park", rows=rows)


async def expired(
    tx: Transaction, now: int, limit: int, partitions: list[str] | None = None, since: int = BEGINNING
) -> list[TaskState]:
    """Waiting tasks of these partitions that should have started by now, at a time after `since`."""
    if partitions == []:
        return []
    ids = await tx.rows("task_expired", str, now=now, limit=limit, partitions=partitions, since=since)
    return await tasks.states(tx, ids) if ids else []


async def oldest_undecided(tx: Transaction) -> int | None:
    """Since when a schedule of any partition wants to be looked at; None if there is none."""
    return only(await tx.rows("schedules_oldest_look", int | None))  # type: ignore[arg-type] # a union as a type
