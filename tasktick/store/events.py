"""What happened, in the order of commits: one row for each batch, never changed, removed from its old end alone.

A row is written in the transaction of what it tells of. On SQLite one connection writes, so rows become readable in
the order of their sequence: whoever has read up to one has seen all before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tasktick.store.protocol import Transaction, only

# A page of rows: what is read and sent before anybody looks at the rest.
PAGE_ROWS_MAX = 200
PAGE_CHARS_MAX = 65_536
# Events that are removed at once; a row may have hundreds of them.
PURGED_AT_ONCE = 5_000
UNBORN = 0


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task's change of state: `before` is 0 where it was made by this, `after` is -1 where it was removed.

    What is told of other things has a type, and an id as clients know it.
    """

    id: str
    before: int
    after: int
    at: int
    attempt: int | None = None
    type: str | None = None
    data: dict[str, Any] | None = None


_ITEMS = msgspec.json.Decoder(list[Item])


class EventRow(msgspec.Struct, frozen=True, array_like=True):
    """A batch. What is another tenant's is not even decoded."""

    sequence: int
    tenants: dict[str, msgspec.Raw]

    def of(self, tenant: str) -> list[Item]:
        """What happened to this tenant's, in order."""
        raw = self.tenants.get(tenant)
        return [] if raw is None else _ITEMS.decode(raw)


class Edges(msgspec.Struct, frozen=True, array_like=True):
    """The rows that are kept."""

    oldest: int
    newest: int


class Told:
    """Events of other things than tasks' states, gathered and written once. Times among the data end in `_at`."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._items: dict[str, list[Item]] = {}

    def add(self, tenant: str, kind: str, name: str, at: int | None = None, /, **data: Any) -> None:
        """This happened to the thing that clients know by this name."""
        item = Item(name, UNBORN, UNBORN, self._at if at is None else at, None, kind, data)
        self._items.setdefault(tenant, []).append(item)

    async def write(self, tx: Transaction, at: int | None = None) -> None:
        """Tell it, with what else this transaction does."""
        await record(tx, self._items, self._at if at is None else at)


async def record(tx: Transaction, items: Mapping[str, Sequence[Any]], at: int) -> None:
    """Tell what this transaction has done, by tenant; `items` are written as `Item` reads them."""
    count = sum(map(len, items.values()))
    if count:
        await tx.run("events_add", at=at, events=count, items=items)


async def edges(tx: Transaction) -> Edges:
    """The first and the last row that is there; before the first ever, an empty range."""
    return only(await tx.rows("events_edges", Edges)) or Edges(1, 0)


async def page(tx: Transaction, sequence: int) -> list[EventRow]:
    """Rows from this one on, as many as are read at once; none if there are none yet."""
    return await tx.rows("events_from", EventRow, sequence=sequence, rows_max=PAGE_ROWS_MAX, chars_max=PAGE_CHARS_MAX)


async def purge(tx: Transaction, before: int, events_max: int, rows_max: int) -> bool:
    """Remove some that are old, or of which there are too many; whether there are more of them."""
    asked = {"before": before, "events_max": events_max, "rows_max": rows_max, "events_at_once": PURGED_AT_ONCE}
    edge = only(await tx.rows("events_old", int, **asked))
    if edge is None:
        return False
    await tx.run("events_remove", sequence=edge)
    return bool(await tx.rows("events_old", int, **asked))
