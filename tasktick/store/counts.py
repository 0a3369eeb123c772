"""Counts by tenant and state, kept as deltas: never counted over the table."""

from collections import Counter

from tasktick.model.state import State
from tasktick.store.protocol import Transaction
from tasktick.store.rows import Count

PURGED = -1


class Deltas:
    """What a transaction changes, added up and written once."""

    def __init__(self) -> None:
        self._by_key: Counter[tuple[str, int]] = Counter()

    def born(self, tenant: str, state: State) -> None:
        self._by_key[tenant, int(state)] += 1

    def moved(self, tenant: str, before: int, after: int) -> None:
        self._by_key[tenant, before] -= 1
        self._by_key[tenant, after] += 1

    async def write(self, tx: Transaction) -> None:
        """Add them to the table; rows in order of their key, so that writers never wait in a circle."""
        rows = [[tenant, state, n] for (tenant, state), n in sorted(self._by_key.items()) if n]
        if rows:
            await tx.run("counts_add", rows=rows)


async def read(tx: Transaction, tenant: str | None) -> list[Count]:
    """The counts of a tenant, or of all."""
    return await tx.rows("counts_read", Count, tenant=tenant)


async def actual(tx: Transaction) -> list[Count]:
    """What the tables hold: slow, for checks."""
    return await tx.rows("counts_actual", Count)
