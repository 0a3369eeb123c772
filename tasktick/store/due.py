"""What the loader reads, and what it parks. Due means `wake_at`; `due_at` keeps the order."""

from tasktick.model.task import Due, TaskState, Timer
from tasktick.store import tasks
from tasktick.store.protocol import Transaction

BEGINNING = -(2**62)


async def between(
    tx: Transaction, after: int, after_id: str, until: int, limit: int, partitions: list[str] | None = None
) -> list[Due]:
    """Waiting tasks beyond (after, after_id) and up to `until`, of these partitions (all, if None), in order."""
    return await tx.rows(
        "due_between", Due, after=after, after_id=after_id, until=until, limit=limit, partitions=partitions
    )


async def timers(
    tx: Transaction, after: int, after_id: str, until: int, limit: int, partitions: list[str] | None = None
) -> list[Timer]:
    """The same, as entries of the wheel."""
    return await tx.rows(
        "timers_between", Timer, after=after, after_id=after_id, until=until, limit=limit, partitions=partitions
    )


async def by_ids(tx: Transaction, ids: list[str]) -> list[Due]:
    """Those of these tasks that wait."""
    return await tx.rows("due_by_ids", Due, ids=ids)


async def park(tx: Transaction, wake_at_by_id: dict[str, int]) -> int:
    """Look at these again later: they may not go now, and must not fill the room of others."""
    rows = [{"id": task_id, "wake_at": wake_at} for task_id, wake_at in sorted(wake_at_by_id.items())]
    return await tx.run("task_park", rows=rows)


async def expired(tx: Transaction, now: int, limit: int, partitions: list[str] | None = None) -> list[TaskState]:
    """Waiting tasks of these partitions that should have started by now."""
    ids = await tx.rows("task_expired", str, now=now, limit=limit, partitions=partitions)
    return await tasks.states(tx, ids) if ids else []
