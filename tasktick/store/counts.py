"""What a transaction changes, told once: counts by tenant and state as deltas, and an event for each change.

Counts are never counted over the table, but for what runs. A change of state is one count, of how many went from
one to the other: half as many rows to write as one fewer there and one more here, and beside ten thousand tenants
these are most of what a commit writes. For the same reason what runs is counted where it was claimed from: a claim
writes no count, and an end one. The view `state_counts` adds them up, and sees what runs by its rows, which are no
more than are under way.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from tasktick.model.state import State
from tasktick.store import events
from tasktick.store.events import UNBORN, Change
from tasktick.store.protocol import Transaction
from tasktick.store.rows import Count

PURGED = -1
# What tells a move from a state: the one before, so many times, and the one after.
MOVE = 256
RUNNING = int(State.RUNNING)


class Deltas:
    """Changes of tasks, added up and written once: every one of them goes through here."""

    def __init__(self) -> None:
        self._by_key: defaultdict[tuple[str, int], int] = defaultdict(int)
        # By tenant, in order; what follows on one another and is alike is told once.
        self._told: defaultdict[str, list[tuple[Change, list[str]]]] = defaultdict(list)
        self._events = 0
        self._at = 0

    def born(self, tenant: str, state: State, births: Sequence[tuple[str, int]]) -> None:
        """These were made: their ids and when."""
        number = int(state)
        self._by_key[tenant, number] += len(births)
        for at, alike in groupby(births, itemgetter(1)):
            self._tell(tenant, (UNBORN, number, at, 0), [task_id for task_id, _ in alike])

    def moved(
        self,
        tenant: str,
        before: int,
        after: int,
        task_id: str,
        at: int,
        attempt: int | None,
        claimed_from: int | None = None,
    ) -> None:
        """A task has another state; `PURGED`, if it was removed. Of one that ran, where it was claimed from."""
        counted = before if claimed_from is None else claimed_from
        if after == PURGED:
            self.forgotten(tenant, counted)
        elif after not in (RUNNING, counted):
            self._by_key[tenant, MOVE * counted + after] += 1
        self._tell(tenant, (before, after, at, attempt), [task_id])

    def _tell(self, tenant: str, change: Change, ids: list[str]) -> None:
        told = self._told[tenant]
        if told and told[-1][0] == change:
            told[-1][1].extend(ids)
        else:
            told.append((change, ids))
        self._events += len(ids)
        self._at = change[2]

    def forgotten(self, tenant: str, state: int, tasks: int = 1) -> None:
        """Tasks that ended long ago were removed, which is nobody's news."""
        self._by_key[tenant, state] -= tasks
        self._by_key[tenant, PURGED] += tasks

    async def write(self, tx: Transaction) -> None:
        """Add them to the tables; rows in order of their key, so that writers never wait in a circle.

        What is written is forgotten: where other changes follow that are told by themselves, this is called before.
        """
        rows = self._rows()
        if rows:
            await tx.run("counts_add", rows=rows)
        if self._events:
            await events.add(tx, self._items(), self._at, self._events)
        self._by_key.clear()
        self._told.clear()
        self._events = 0

    def parameters(self) -> dict[str, Any]:
        """What is to be written, for a statement that does so by itself."""
        return {"counts": self._rows(), "at": self._at, "events": self._events, "items": self._items()}

    def _items(self) -> dict[str, list[tuple[Any, ...]]]:
        return {tenant: [("".join(ids), *change) for change, ids in told] for tenant, told in self._told.items()}

    def _rows(self) -> list[list[Any]]:
        return [[tenant, state, n] for (tenant, state), n in sorted(self._by_key.items()) if n]


async def read(tx: Transaction, tenant: str | None) -> list[Count]:
    """The counts of a tenant, or of all."""
    return await tx.rows("counts_read", Count, tenant=tenant)


async def actual(tx: Transaction) -> list[Count]:
    """What the tables hold: slow, for checks."""
    return await tx.rows("counts_actual", Count)
