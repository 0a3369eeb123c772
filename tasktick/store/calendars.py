"""Calendars in the store, by tenant and name, with who heeds them."""

from collections.abc import Iterable

import msgspec

from tasktick.model.calendar import Calendar, Content
from tasktick.store.protocol import Transaction, only

USERS_TOLD_MAX = 10
# Of a tenant. A look at schedules reads those that they name.
CALENDARS_MAX = 1_000


async def contents(tx: Transaction, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Content]:
    """What stands in calendars, by tenant and name; those that are not there are left out."""
    rows = [list(one) for one in sorted(named)]
    found = await tx.rows("calendars_read", Calendar, rows=rows)
    return {(one.tenant, one.name): one.content for one in found}


async def find(tx: Transaction, tenant: str, name: str) -> Calendar | None:
    """One calendar, if it is there."""
    return only(await tx.rows("calendars_read", Calendar, rows=[[tenant, name]]))


async def lock(tx: Transaction, tenant: str, names: Iterable[str]) -> list[str]:
    """Which of these are there; they stay until this transaction ends."""
    return await tx.rows("calendars_lock", str, tenant=tenant, names=sorted(set(names)))


async def count(tx: Transaction, tenant: str) -> int:
    """How many a tenant has."""
    return only(await tx.rows("calendars_count", int, tenant=tenant)) or 0


async def page(tx: Transaction, tenant: str, beyond: str | None, limit: int) -> list[Calendar]:
    """Calendars by name."""
    return await tx.rows("calendars_page", Calendar, tenant=tenant, beyond=beyond or "", limit=limit)


async def put(tx: Transaction, calendar: Calendar) -> None:
    """Write a calendar, new or not."""
    await tx.run(
        "calendar_put",
        tenant=calendar.tenant,
        name=calendar.name,
        version=calendar.version,
        created_at=calendar.created_at,
        updated_at=calendar.updated_at,
        content=msgspec.json.encode(calendar.content).decode(),
    )


async def delete(tx: Transaction, tenant: str, name: str) -> int:
    """Remove a calendar; 0 if it was not there."""
    return await tx.run("calendar_delete", tenant=tenant, name=name)


async def users(tx: Transaction, tenant: str, name: str) -> list[str]:
    """Some schedules that heed it, by id."""
    return await tx.rows("calendar_users", str, tenant=tenant, name=name, limit=USERS_TOLD_MAX + 1)
