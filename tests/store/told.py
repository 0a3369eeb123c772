"""Whether what was told of tasks is what happened to them: events follow on one another, and end where the rows are."""

from tasktick.store import counts, events, tasks
from tasktick.store.counts import PURGED
from tasktick.store.events import UNBORN, Item
from tasktick.store.protocol import Transaction


async def items(tx: Transaction) -> list[tuple[str, Item]]:
    """Everything that is told, in order: tenant and item."""
    found: list[tuple[str, Item]] = []
    at = (await events.edges(tx)).oldest
    while rows := await events.page(tx, at):
        assert [row.sequence for row in rows] == list(range(at, at + len(rows))), "rows follow on one another"
        found += [(tenant, item) for row in rows for tenant in row.tenants for item in row.of(tenant)]
        at = rows[-1].sequence + 1
    return found


async def faults(tx: Transaction) -> list[str]:
    """What does not add up. Of tasks whose beginning is no longer told, the rest must."""
    wrong: list[str] = []
    told: dict[str, int] = {}
    is_whole = (await events.edges(tx)).oldest == 1
    for _, item in await items(tx):
        before = told.get(item.id, UNBORN if is_whole else item.before)
        if item.before != before:
            wrong.append(f"{item.id} is told to have been {item.before}, and was {before}")
        told[item.id] = item.after
    ids = sorted(one for one in told if "_" not in one)  # of other things, the ids are as clients know them
    there = {row.id: int(row.state) for row in await tasks.states(tx, ids)}
    wrong += [
        f"{task_id} is told to be {told[task_id]}, and is {state}"
        for task_id, state in there.items()
        if told[task_id] != state
    ]
    wrong += [f"{one} is told to be removed, and is there" for one in there if told[one] == PURGED]
    if is_whole and len(there) != sum(row.tasks for row in await counts.actual(tx)):
        wrong.append("there are tasks that nothing is told of")
    return wrong
