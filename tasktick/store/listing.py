"""Pages of tasks by filter: keyset on the id, so that a page costs the same wherever it is."""

import msgspec

from tasktick.store.protocol import Transaction


class TaskFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client may filter tasks by; None does not filter.

    `states` are states as clients see them: a `scheduled` or `retrying` one that is due at `now` is `ready`.
    `text` is found whatever the case of its ASCII letters; others must be as they were written.
    """

    states: list[int] | None = None
    now: int = 0
    queue: str | None = None
    type: str | None = None
    name: str | None = None
    tag_name: str | None = None
    tag_value: str | None = None
    schedule_id: str | None = None
    workflow_id: str | None = None
    run_after: int | None = None
    run_before: int | None = None
    created_after: int | None = None
    created_before: int | None = None
    sla_met: bool | None = None
    text: str | None = None


async def ids_page(
    tx: Transaction,
    tenant: str,
    by: TaskFilter,
    *,
    beyond: str | None,
    limit: int,
    oldest_first: bool = False,
) -> list[str]:
    """Ids of a tenant's tasks that match, beyond the last one of the page before."""
    columns = {name: getattr(by, name) for name in TaskFilter.__struct_fields__}
    query = "task_ids_oldest_first" if oldest_first else "task_ids_newest_first"
    return await tx.rows(query, str, tenant=tenant, beyond=edge(beyond, oldest_first), limit=limit, **columns)


async def matching(tx: Transaction, tenant: str, by: TaskFilter, ids: list[str]) -> list[str]:
    """Those of these tasks that match as the rows are now, in the order of a list: newest first."""
    columns = {name: getattr(by, name) for name in TaskFilter.__struct_fields__}
    return await tx.rows("task_ids_matching", str, tenant=tenant, ids=ids, **columns)


def edge(beyond: str | None, oldest_first: bool) -> str:
    """Where a page begins: after the last id of the one before, else before every id there can be."""
    if beyond is not None:
        return beyond
    return "" if oldest_first else "~"
