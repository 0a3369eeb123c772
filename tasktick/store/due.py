"""What the loader reads, and what it parks. Due means `wake_at`; `due_at` keeps the order."""

from tasktick.model.task import Due, TaskState, Timer
from tasktick.store import tasks
from tasktick.store.protocol import Transaction

BEGINNING = -(2**62)


async def between(tx: Transaction, after: int, after_id: str, until: int, limit: int) -> list[Due]:
    """Waiting tasks beyond (after, after_id) and up to `until`, in order of (wake_at, id)."""
    return await tx.rows("due_between", Due, after=after, after_id=after_id, until=until, limit=limit)


async def timers(tx: Transaction, after: int, after_id: str, until: int, limit: int) -> list[Timer]:
    """The same, as entries of the wheel."""
    return await tx.rows("timers_between", Timer, after=after, after_id=after_id, until=until, limit=limit)


async def by_ids(tx: Transaction, ids: list[str]) -> list[Due]:
    """Those of these tasks that wait."""
    return await tx.rows("due_by_ids", Due, ids=ids)


async def park(tx: Transaction, wake_at_by_id: dict[str, int]) -> int:
    """Look at these again later: they may not go now, and must not fill the room of others."""
    rows = [{"id": task_id, "wake_at": wake_at} for task_id, wake_at in sorted(wake_at_by_id.items())]
    return await tx.run("task_park", rows=rows)


async def expired(tx: Transaction, now: int, limit: int) -> list[TaskState]:
    """Waiting tasks that should have started by now."""
    ids = await tx.rows("task_expired", str, now=now, limit=limit)
    return await tasks.states(tx, ids) if ids else []
