"""What the loader reads, and what it parks. Due means `wake_at`; `due_at` keeps the order."""

from typing import Generic, TypeVar

import msgspec

from tasktick.model.ids import ID_CHARS
from tasktick.model.task import Due, TaskState, Timers
from tasktick.store import tasks
from tasktick.store.protocol import Transaction, only

BEGINNING = -(2**62)
# A slot of the index of what waits: `wake_at >> 10`, 1,024 ms.
SLOT_BITS = 10
# A node that owns some partitions reads over so many entries a statement at most: 50 ms of a server, where it has to
# look at the rows since nothing has vacuumed them yet.
ENTRIES_MAX = 50_000

T = TypeVar("T", list[Due], Timers)


class Stretch(msgspec.Struct, frozen=True):
    """What wants to be looked at from one instant on and up to another, both included, as far as it was not read yet.

    It is read by slots of 1,024 ms, and within a slot by id, as it stands in its index.
    """

    since: int
    until: int
    last: tuple[int, str] | None = None
    """The row at which the page before ended: its time, its id."""

    def beyond(self, page: list[Due] | Timers) -> "Stretch":
        """What is left of it after a page."""
        timers = page if isinstance(page, Timers) else Timers([page[-1].wake_at], page[-1].id)
        return Stretch(self.since, self.until, (timers.times[-1], timers.hexes[-ID_CHARS:]))

    @property
    def bounds(self) -> dict[str, int | str]:
        """As the statements ask for it."""
        after, after_id = self.last or (self.since, "")
        return {"since": self.since, "until": self.until, "after": after, "after_id": after_id}


def slot_begins(at: int) -> int:
    """When the slot of an instant begins: what is due before that was read before it."""
    return at >> SLOT_BITS << SLOT_BITS


class _Page(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """What was read of some partitions, and where to read on if that is not all of it."""

    beyond: tuple[int, str] | None
    rows: T


async def between(tx: Transaction, stretch: Stretch, limit: int, partitions: list[str] | None = None) -> list[Due]:
    """Waiting tasks of a stretch and of these partitions (all, if None). Fewer than `limit` are all that there are."""
    if partitions is None:
        return await tx.rows("due_between", Due, limit=limit, partitions=None, **stretch.bounds)
    return await _within(tx, "due_in", _Page[list[Due]], [], stretch, limit, partitions)


async def timers(tx: Transaction, stretch: Stretch, limit: int, partitions: list[str] | None = None) -> Timers:
    """The same, as times and ids alone."""
    if partitions is None:
        found = await tx.rows("timers_between", Timers, limit=limit, partitions=None, **stretch.bounds)
        return only(found) or Timers()
    return await _within(tx, "timers_in", _Page[Timers], Timers(), stretch, limit, partitions)


async def _within(
    tx: Transaction, query: str, page: type[_Page[T]], found: T, stretch: Stretch, limit: int, partitions: list[str]
) -> T:
    """Read on over what others own, however much that is, so many entries a statement."""
    left: Stretch | None = stretch
    while partitions and left is not None and len(found) < limit:
        asked = {"limit": limit - len(found), "entries": ENTRIES_MAX, **left.bounds}
        (read,) = await tx.rows(query, page, partitions=partitions, **asked)
        found = found + read.rows
        left = None if read.beyond is None else Stretch(stretch.since, stretch.until, read.beyond)
    return found


async def by_ids(tx: Transaction, ids: list[str]) -> list[Due]:
    """Those of these tasks that wait."""
    return await tx.rows("due_by_ids", Due, ids=ids)


async def park(tx: Transaction, wake_at_by_id: dict[str, int]) -> int:
    """Look at these again later: they may not go now, and must not fill the room of others."""
    rows = [{"id": task_id, "wake_at": wake_at} for task_id, wake_at in sorted(wake_at_by_id.items())]
    return await tx.run("task_park", rows=rows)


async def expired(
    tx: Transaction, now: int, limit: int, partitions: list[str] | None = None, since: int = BEGINNING
) -> list[TaskState]:
    """Waiting tasks of these partitions that should have started by now, at a time after `since`."""
    if partitions == []:
        return []
    ids = await tx.rows("task_expired", str, now=now, limit=limit, partitions=partitions, since=since)
    return await tasks.states(tx, ids) if ids else []


async def oldest_undecided(tx: Transaction) -> int | None:
    """Since when a schedule of any partition wants to be looked at; None if there is none."""
    return only(await tx.rows("schedules_oldest_look", int | None))  # type: ignore[arg-type] # a union as a type
