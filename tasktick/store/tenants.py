"""Tenants: their limits, and the quota on unfinished tasks, which is checked where tasks become unfinished.

A tenant without a row has no limits. The quota is read in the transaction that makes the tasks, off the counts
that the same transactions keep, so that no two of them fill the same room. Fires of schedules count, and are never
refused: a nominal time is not to be lost to a full queue, and a schedule has one fire ahead.
"""

from collections.abc import Iterable

from tasktick.errors import Refused
from tasktick.model.task import DEFAULT_TENANT
from tasktick.store.protocol import Transaction, only
from tasktick.store.rows import Room, TenantRow

QUOTA_RETRY_MS = 10_000


class Rooms:
    """How many more unfinished tasks each tenant may have, in this transaction."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        found = list(rooms)
        self._quotas = {room.tenant: room.max_pending for room in found}
        self._left = {room.tenant: room.max_pending - room.pending for room in found}

    def __bool__(self) -> bool:
        """Whether any of them has a bound."""
        return bool(self._quotas)

    def left(self, tenant: str) -> int | None:
        """How many more a tenant may have; None is any number."""
        left = self._left.get(tenant)
        return None if left is None else max(0, left)

    def take(self, tenant: str) -> Refused | None:
        """Take room for one task, or say why there is none."""
        left = self._left.get(tenant)
        if left is None:
            return None
        if left > 0:
            self._left[tenant] = left - 1
            return None
        detail = f"The tenant's quota of unfinished tasks ({self._quotas[tenant]}) is used up. Wait until some end."
        return Refused("quota_exceeded", detail, retry_after_ms=QUOTA_RETRY_MS)


async def rooms(tx: Transaction, tenants: Iterable[str]) -> Rooms:
    """The room of these tenants. Most have no quota: then nothing of them is counted, nor held for others."""
    limited = await tx.rows("tenants_limited", str, tenants=sorted(set(tenants)))
    return await rooms_of_limited(tx, limited) if limited else Rooms([])


async def rooms_of_limited(tx: Transaction, tenants: Iterable[str]) -> Rooms:
    """The same, where it is known that some of them have a quota."""
    return Rooms(await tx.rows("tenants_room", Room, tenants=sorted(set(tenants))))


async def page(tx: Transaction, beyond: str | None, limit: int) -> list[TenantRow]:
    """Tenants by name."""
    return await tx.rows("tenants_read", TenantRow, name=None, beyond=beyond, limit=limit, always=DEFAULT_TENANT)


async def find(tx: Transaction, name: str) -> TenantRow | None:
    """One tenant, if it is known by anything."""
    return only(
        await tx.rows("tenants_read", TenantRow, name=name, beyond=None, limit=1, always=DEFAULT_TENANT),
    )


async def create_rate(tx: Transaction, name: str) -> str | None:
    """How many tasks a tenant may make in which time, as it was written; None is any."""
    return only(await tx.rows("tenant_create_rate", str, name=name))


async def put(tx: Transaction, name: str, *, max_pending: int | None, create_rate: str | None, now: int) -> None:
    """Set the limits of a tenant; what is not given is not limited."""
    await tx.run("tenant_put", name=name, max_pending=max_pending, create_rate=create_rate, now=now)


async def delete(tx: Transaction, name: str) -> int:
    """Forget the limits of a tenant; 0 if it had none."""
    return await tx.run("tenant_delete", name=name)
