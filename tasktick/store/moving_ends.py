"""What a move asks of either end of it, be it a file or a database on a server."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tasktick.errors import StoreError
from tasktick.store.migrate import Applied, Migration, pending
from tasktick.store.moving_tables import PARTITION, Row, Table
from tasktick.store.whereabouts import Whereabouts

# What is read, compared and written at once: the memory of a move is a few times this.
ROWS_MAX = 5_000
BYTES_MAX = 8_000_000
FOREIGN_TOLD_MAX = 3


class Chunk(msgspec.Struct, frozen=True):
    """The next rows of a table, all of them up to this key; None is the end of the table."""

    rows: list[Row]
    upto: Row | None


class Change(msgspec.Struct, frozen=True):
    """Rows that a range is to hold, and how far that brings the run."""

    after: Row | None
    chunk: Chunk
    replace: bool
    run: str
    progress: str


class End(Protocol):
    """A store, as one end of a move. Ranges are (after, upto]; None is the end of the table on that side."""

    @property
    def shown(self) -> str:
        """The place, without its secrets."""
        ...

    @property
    def patience_ms(self) -> int:
        """How long a node that has just been killed may still seem to live."""
        ...

    async def look(self) -> None:
        """Open it to be read, while it may be served."""
        ...

    async def hold(self) -> None:
        """Open it to be written, up to date; raises `StoreLocked` while it is in use."""
        ...

    async def whereabouts(self) -> Whereabouts: ...

    async def is_empty(self) -> bool:
        """Whether nobody has ever served it."""
        ...

    async def columns(self, table: Table) -> Sequence[str]:
        """What is carried of a table, its keys first."""
        ...

    async def count(self, table: Table) -> int: ...

    async def chunk(self, table: Table, after: Row | None) -> Chunk: ...

    async def between(self, table: Table, after: Row | None, upto: Row | None, limit: int) -> list[Row]: ...

    async def put(self, table: Table, change: Change) -> None:
        """Make the range hold these rows, and note how far the run is, in one transaction."""
        ...

    async def begin(self, place: str, store_id: str, run: str, *, clear: bool) -> None:
        """Be filled from there: nobody else writes from now on."""
        ...

    async def go_on(self, store_id: str, run: str) -> None:
        """Be filled by another run."""
        ...

    async def move_away(self, place: str, store_id: str, now: int) -> None:
        """Have moved: nobody writes from now on. Raises `StoreLocked` if it is in use."""
        ...

    async def come_back(self) -> None:
        """Not have moved."""
        ...

    async def open_up(self, run: str) -> None:
        """Be whole: it may be served from now on."""
        ...

    async def close(self) -> None: ...


def carried(table: Table, there: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that are carried of those that are there, the keys first, else by name."""
    left_out = {*table.added, *((PARTITION,) if table.of else ())}
    names = set(table.only or there) - left_out
    return (*table.keys, *sorted(names - set(table.keys)))


def require_unused(foreign: Sequence[str], shown: str, *, may_make: bool) -> None:
    """Raise unless a store may be made where there is none."""
    if not may_make:
        raise StoreError(f"There is no TaskTick store at {shown}.")
    if foreign:
        raise StoreError(
            f"{shown} is not empty: it holds {', '.join(foreign[:FOREIGN_TOLD_MAX])}, which is none of ours. Name "
            "an empty database, an empty schema (search_path=NAME in the URL) or a file that is not there."
        )


def require_current(ours: Sequence[Migration], theirs: Sequence[Applied], shown: str) -> None:
    """Raise unless a store that is being served is at this program's version."""
    if not theirs:
        raise StoreError(f"There is no TaskTick store at {shown}.")
    if pending(list(ours), list(theirs)):
        raise StoreError(
            f"The store {shown} is at version {theirs[-1].version}, and this program at {ours[-1].version}. Restart "
            "its daemon with this version of TaskTick first, or stop it and move without --online."
        )
