"""New tasks that bring nothing special, as nearly all do: all that is written of some of them, as few statements.

Those that come by the hundred are a `Slice`: what is written of them is put together where they are read, while what
they were read into is at hand. Kept until the commit, by the store's thread on another processor, the dozen objects of
each cost more than all of its rows do.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from tasktick.store.counts import Deltas
from tasktick.store.protocol import Alone, Batch, Lane, Transaction
from tasktick.store.task_rows import SHAPE, NewRow, Row

Bind = Callable[[str, dict[str, Any]], dict[str, Any]]


class Plain:
    """The rows of new tasks, in the order of their ids, as a statement reads them: that for those of one shape, or the
    other."""

    def __init__(self, fresh: Sequence[NewRow]) -> None:
        self.rows = rows = sorted(fresh, key=attrgetter("row"))  # which begins with the id
        shapes = [one.shape for one in rows]
        first = shapes[0]
        self.parameters: dict[str, Any] = {}
        self.alike = shapes.count(first) == len(shapes)
        if self.alike:
            self.shapes = [first]
            self.parameters |= zip(SHAPE, first, strict=True)
            self.parameters["rows"] = [(*one.row, one.payload) for one in rows]
        else:
            places: dict[Row, int] = {}
            self.parameters["rows"] = [
                (*one.row, one.payload, places.setdefault(one.shape, len(places))) for one in rows
            ]
            self.parameters["shapes"] = self.shapes = list(places)

    @property
    def insert(self) -> str:
        """The statement that writes them and no more."""
        return "task_insert_alike" if self.alike else "task_insert"

    @property
    def create(self) -> str:
        """The same with all that follows from it, where that is one statement."""
        return "task_create_alike" if self.alike else "task_create"

    @property
    def tenants(self) -> list[str]:
        """Whose they are."""
        return sorted({shape[0] for shape in self.shapes})

    def deltas(self) -> Deltas:
        """What their births change."""
        deltas = Deltas()
        counted = [(self.shapes[0][:2], self.rows)] if self.alike else groupby(self.rows, lambda one: one.shape[:2])
        for (tenant, state), births in counted:
            deltas.born(tenant, state, [one.row[:2] for one in births])
        return deltas

    def whole(self) -> dict[str, Any]:
        """All that is written of them, unless a tenant of theirs has a quota."""
        return {**self.parameters, **self.deltas().parameters(), "unlimited": self.tenants}


async def insert(tx: Transaction, fresh: Sequence[NewRow], *, unlimited: bool = False) -> bool:
    """Insert these; where they must be `unlimited`, unless a tenant of theirs has a quota. Whether they were."""
    plain = Plain(fresh)
    if await tx.run(plain.insert, unlimited=plain.tenants if unlimited else (), **plain.parameters) < len(fresh):
        return False
    await plain.deltas().write(tx)
    return True


def alone(rows: Sequence[NewRow], results: list[Any]) -> Alone:
    """These as a single statement."""
    plain = Plain(rows)
    return Alone(plain.create, plain.whole(), results, len(rows))


class Slice(msgspec.Struct, frozen=True, gc=False):
    """What is written of some that came together, bound but for what they count as."""

    insert: str
    create: str
    parameters: dict[str, Any]
    counts: list[list[Any]]
    rows: int


def slice_of(rows: Sequence[NewRow], bind: Bind) -> Slice:
    """All of these, bound as this store takes them."""
    plain = Plain(rows)
    whole = plain.whole()
    counts = whole.pop("counts")
    return Slice(plain.insert, plain.create, bind(plain.create, whole), counts, len(rows))


async def _write(tx: Transaction, slices: list[Any]) -> list[Any]:
    """Whether each was: all of it, or, where its tenant has a quota, nothing."""
    are_written = [await tx.run(one.insert, **one.parameters) == one.rows for one in slices]
    written = [one for one, is_one in zip(slices, are_written, strict=True) if is_one]
    if written:
        await tx.run("counts_add", rows=_counts(written))
    for one in written:
        given = one.parameters
        await tx.run("events_add", at=given["at"], events=given["events"], items=given["items"])
    return are_written


def _counts(slices: Sequence[Slice]) -> list[list[Any]]:
    """Of all together, in order of their key, so that writers never wait in a circle."""
    added: defaultdict[tuple[str, int], int] = defaultdict(int)
    for one in slices:
        for tenant, state, tasks in one.counts:
            added[tenant, state] += tasks
    return [[tenant, state, tasks] for (tenant, state), tasks in sorted(added.items())]


def _alone(slices: list[Any]) -> Alone | None:
    if len(slices) > 1:
        return None
    (one,) = slices
    return Alone(one.create, {**one.parameters, "counts": one.counts}, [True], one.rows)


# What is answered of a slice: whether it was written. Where it was not, each of its tasks is to be judged by itself.
CREATE_SLICE = Batch("create_slice", Lane.CREATE, _write, rows_of=attrgetter("rows"), alone=_alone)
