"""Attempts in the store: append-only; the running one is read off its task's row."""

from tasktick.model.attempt import AttemptRow
from tasktick.store.protocol import Transaction, only


async def of_task(tx: Transaction, task_id: str, after: int = 0, limit: int = 1_000) -> list[AttemptRow]:
    """The attempts of a task that have ended, in order."""
    return await tx.rows("attempts_of", AttemptRow, task_id=task_id, after=after, limit=limit)


async def last(tx: Transaction, ids: list[str], *, bodies: bool = True) -> dict[str, AttemptRow]:
    """The last attempt that ended, of each task that has one; the answers' bodies only if they are wanted."""
    return {row.task_id: row for row in await tx.rows("attempts_last", AttemptRow, ids=ids, bodies=bodies)}


async def count(tx: Transaction, task_id: str) -> int:
    """How many attempts of a task have ended."""
    return only(await tx.rows("attempts_count", int, task_id=task_id)) or 0


async def of_tasks(tx: Transaction, ids: list[str]) -> list[AttemptRow]:
    """The attempts of these tasks that have ended, in order."""
    return await tx.rows("attempts_of_tasks", AttemptRow, ids=ids)
