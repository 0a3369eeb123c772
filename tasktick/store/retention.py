"""What is old enough to go, removed in small batches so that nobody waits behind it."""

from tasktick.store import checkins, events, names, schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.rows import Finished


async def remove_finished(tx: Transaction, before: int, limit: int) -> int:
    """Remove some tasks that finished before this, with all that hangs on them; how many."""
    rows = await tx.rows("finished_before", Finished, before=before, limit=limit)
    if rows:
        await tasks.delete(tx, [(row.id, row.tenant, row.state) for row in rows])
    return len(rows)


async def remove_names(tx: Transaction, now: int, limit: int) -> int:
    """Remove some idempotency keys whose window has closed; how many."""
    return await names.purge(tx, now, limit)


async def remove_events(tx: Transaction, before: int, events_max: int, limit: int) -> bool:
    """Remove some events that are older than this, or more than so many; whether there are more of them."""
    return await events.purge(tx, before, events_max, limit)


async def remove_ledger(tx: Transaction, before: int, limit: int) -> int:
    """Remove some of the ledger, as old and without tasks, what schedules sent once, and pings."""
    return max(await schedules.purge(tx, before, limit), await checkins.purge(tx, before, limit))
