"""What happened, in the order of commits: one row for each batch, never changed, removed from its old end alone.

A row is written in the transaction of what it tells of. On SQLite one connection writes, so rows become readable in
the order of their sequence: whoever has read up to one has seen all before it.

On PostgreSQL many write at once. To number rows in the order of commits, each would have to wait for the commit of the
one before; so they are written to an inbox, where nobody waits, and numbered afterwards, by one at a time (`number`).
Who numbers takes all that is committed, and leaves what is not for the next: so nothing is passed over, however long
a transaction takes, nor does anything wait for one that is still under way, whosever it is. Inside of one take the
order is that in which rows were drawn, just before their commits. So of two changes of one task, or where one began
when the other was known to be done, the later comes later, in one take or in two: it was drawn later, and cannot be
committed alone. Two that were committing at the same moment, and had nothing to do with one another, are told in either
order. Neither the ids of transactions nor a bound below the oldest that runs would do: one that began earlier may have
waited for a row of a later one, which a third that still runs would hold back behind it.

Numbers are given by who wants to read: a node to whose streams somebody listens, when something was committed and else
each second. The upkeep gives them too, each minute and before it purges, so that the inbox stays small where nobody
listens; a node without listeners does nothing for it. It is a short transaction: one row is locked, and who finds it
locked goes on with what is numbered already.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tasktick.model.ids import ID_CHARS
from tasktick.store.protocol import Transaction, only

# A page of rows: what is read and sent before anybody looks at the rest. An event takes 32 characters of it at least: a
# page is no more than half of what may wait for a follower (api/event_feed.py).
PAGE_ROWS_MAX = 200
PAGE_CHARS_MAX = 32_000
# What is given its number in one transaction: batches, and their size on the disk.
NUMBERED_ROWS_MAX = 1_000
NUMBERED_BYTES_MAX = 8_388_608
# Events that are removed at once; a row may have hundreds of them.
PURGED_AT_ONCE = 5_000
UNBORN = 0
# A task's state before and after, when, and in which of its attempts.
Change = tuple[int, int, int, int | None]
_EVER = 2**62


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task's change of state: `before` is 0 where it was made by this, `after` is -1 where it was removed.

    What is told of other things has a type, and an id as clients know it. As it is written, `id` may be those of
    several tasks, one after the other, which changed alike: most of what is told of a batch are ids then, and a
    hundred changes of a few bytes each are not written, packed and read again.
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
        return [] if raw is None else [one for item in _ITEMS.decode(raw) for one in _apart(item)]


def _apart(item: Item) -> list[Item]:
    """What was written of several, one by one."""
    ids = item.id
    if item.type is not None or len(ids) <= ID_CHARS:
        return [item]
    alike = item.before, item.after, item.at, item.attempt
    return [Item(ids[at : at + ID_CHARS], *alike) for at in range(0, len(ids), ID_CHARS)]


class Edges(msgspec.Struct, frozen=True, array_like=True):
    """The rows that are kept."""

    oldest: int
    newest: int


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """Whether there are rows without a number, and, if they are ours to number, the newest of them."""

    newest: int | None
    waiting: bool


class Numbered(msgspec.Struct, frozen=True):
    """What a look at the inbox came to."""

    ours: bool
    """Something was numbered by it."""
    more: bool
    """There is more to number: because there was too much for once, or because another is at it."""


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
        await add(tx, items, at, count)


async def add(tx: Transaction, items: Mapping[str, Sequence[Any]], at: int, count: int) -> None:
    """The same of so many, some of which may be written as one."""
    await tx.run("events_add", at=at, events=count, items=items)


async def number(tx: Transaction, *, fresh: bool = False) -> Numbered:
    """Number some of what has no number yet, unless another is at it.

    `fresh` says that this transaction has done nothing before. Then it looks only where there may be something, and
    not at what has gone through: that is quick even where somebody's old snapshot keeps all of that from being
    cleared away. Without it everything is looked at.
    """
    beyond = _EVER if fresh else 0
    (turn,) = await tx.rows("events_turn", Turn, beyond=beyond)
    if turn.newest is None:
        return Numbered(ours=False, more=turn.waiting)
    bounds = {"rows_max": NUMBERED_ROWS_MAX, "bytes_max": NUMBERED_BYTES_MAX}
    newest = turn.newest if fresh else 0
    return Numbered(True, *await tx.rows("events_number", bool, beyond=beyond, newest=newest, **bounds))


async def edges(tx: Transaction) -> Edges:
    """The first and the last row that is there; before the first ever, an empty range."""
    return only(await tx.rows("events_edges", Edges)) or Edges(1, 0)


async def page(tx: Transaction, sequence: int) -> list[EventRow]:
    """Rows from this one on, as many as are read at once; none if there are none yet."""
    return await tx.rows("events_from", EventRow, sequence=sequence, rows_max=PAGE_ROWS_MAX, chars_max=PAGE_CHARS_MAX)


async def purge(tx: Transaction, before: int, events_max: int, rows_max: int) -> bool:
    """Number what has no number, then remove some that are old, or of which there are too many; whether there is more
    to do."""
    numbered = await number(tx)
    asked = {"before": before, "events_max": events_max, "rows_max": rows_max, "events_at_once": PURGED_AT_ONCE}
    edge = only(await tx.rows("events_old", int, **asked))
    if edge is None:
        return numbered.more
    await tx.run("events_remove", sequence=edge)
    return bool(await tx.rows("events_old", int, **asked)) or numbered.more
