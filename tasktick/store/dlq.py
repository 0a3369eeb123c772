"""Dead letters: what gave up, until somebody replays or archives it. Their ids are `dlq_…`."""

from typing import Any

import msgspec

from tasktick.store.listing import edge
from tasktick.store.protocol import Transaction
from tasktick.store.rows import DeadLetter


class DeadLetterFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client may filter dead letters by; None does not filter."""

    unresolved: bool | None = True
    class_: str | None = msgspec.field(default=None, name="class")
    reason: str | None = None
    queue: str | None = None
    type: str | None = None
    name: str | None = None
    tag_name: str | None = None
    tag_value: str | None = None
    schedule_id: str | None = None
    workflow_id: str | None = None
    sla_met: bool | None = None
    text: str | None = None
    run_after: int | None = None
    run_before: int | None = None
    created_after: int | None = None
    created_before: int | None = None


async def page(
    tx: Transaction,
    tenant: str,
    by: DeadLetterFilter,
    *,
    beyond: str | None,
    limit: int,
    oldest_first: bool = False,
) -> list[DeadLetter]:
    """Dead letters of a tenant that match, beyond the last one of the page before."""
    query = "dead_letters_oldest_first" if oldest_first else "dead_letters_newest_first"
    return await tx.rows(
        query,
        DeadLetter,
        tenant=tenant,
        beyond=edge(beyond, oldest_first),
        limit=limit,
        **_columns(by),
    )


async def matching(tx: Transaction, tenant: str, by: DeadLetterFilter, ids: list[str]) -> list[DeadLetter]:
    """Those of these dead letters that match as the rows are now, newest first."""
    return await tx.rows("dead_letters_matching", DeadLetter, tenant=tenant, ids=ids, **_columns(by))


def _columns(by: DeadLetterFilter) -> dict[str, Any]:
    columns = {name: getattr(by, name) for name in DeadLetterFilter.__struct_fields__ if name != "class_"}
    return {**columns, "class": by.class_}


async def by_ids(tx: Transaction, tenant: str, ids: list[str]) -> list[DeadLetter]:
    """These dead letters, if they are this tenant's."""
    return await tx.rows("dead_letters_by_ids", DeadLetter, tenant=tenant, ids=ids)


async def resolve(tx: Transaction, ids: list[str], resolution: str, now: int) -> int:
    """Mark dead letters as dealt with (`replayed`, `archived`); how many were not yet."""
    return await tx.run("dead_letter_resolve", ids=ids, resolution=resolution, now=now)


async def resolve_tasks(tx: Transaction, task_ids: list[str], resolution: str, now: int) -> int:
    """The same, by the tasks they are about: a task that is run again has no open dead letter."""
    return await tx.run("dead_letter_resolve_task", ids=task_ids, resolution=resolution, now=now)


async def delete(tx: Transaction, ids: list[str]) -> int:
    """Remove dead letters alone: of a task that is dead there must stay one, so that one goes with its task."""
    return await tx.run("dead_letter_delete", ids=ids)


async def of_tasks(tx: Transaction, task_ids: list[str]) -> list[DeadLetter]:
    """The dead letters of these tasks."""
    return await tx.rows("dead_letters_of_tasks", DeadLetter, ids=task_ids)
