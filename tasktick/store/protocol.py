"""What the rest of TaskTick asks of a database, whichever it is."""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Protocol, TypeVar

import msgspec

from tasktick.errors import StoreError

T = TypeVar("T")


class Aborted(StoreError):
    """The transaction is undone because of others that were quicker: the same again is right.

    Who finds that out by itself raises it; a store that has one writer never does.
    """


class Transaction(Protocol):
    """Named statements inside one transaction.

    A list or tuple given as a parameter travels as one JSON array. What comes back is decoded into
    `kind`, one value a row.
    """

    async def rows(self, query: str, kind: type[T], /, **parameters: Any) -> list[T]:
        """Run a query that reads."""
        ...

    async def run(self, query: str, /, **parameters: Any) -> int:
        """Run a statement that writes; how many rows it changed."""
        ...

    async def whole(self, query: str, count: int, /, **parameters: Any) -> bool:
        """Run a statement that is to change so many rows: it changes all of them, or nothing. Whether it did.

        It is the first of its transaction: where it changes nothing, it may undo what was done before, and it holds no
        lock any more.
        """
        ...


Operation = Callable[[Transaction], Awaitable[T]]


class Lane(IntEnum):
    """Who goes first when several wait for the writer."""

    FIRE = 0
    CREATE = 1
    UPKEEP = 2


class Alone(msgspec.Struct, frozen=True):
    """Items of a batch as one statement, which writes all of them or none."""

    query: str
    parameters: dict[str, Any]
    results: list[Any]
    rows: int
    """How many it writes, as it answers where it is not one of a file."""
    read: Callable[[Any], list[Any]] | None = None
    """What it answers, as the results, where these are not known before."""


class Batch(msgspec.Struct, frozen=True):
    """An operation over items: those of callers that wait together run as one, and fail one by one."""

    name: str
    lane: Lane
    operation: Callable[[Transaction, list[Any]], Awaitable[list[Any]]]
    rows_max: int = 500
    rows_of: Callable[[Any], int] | None = None
    """How many rows an item is, if not one."""
    alone: Callable[[list[Any]], Alone | None] | None = None
    """The same as a single statement, as far as these items can be: for a server that is to be asked once and not three
    times, and for a file whose thread is to need the interpreter once. Where it wrote none of them, the operation is
    what tells why."""
    is_prompt: bool = False
    """It is large by itself, and waited for: it does not wait for others to come along."""


class Reader(Protocol):
    """Who reads committed rows."""

    async def read(self, operation: Operation[T]) -> T: ...


class Writer(Protocol):
    """Who writes: returns after the commit."""

    async def write(self, operation: Operation[T], lane: Lane = Lane.CREATE) -> T: ...

    async def write_batch(self, batch: Batch, items: list[Any]) -> list[Any]: ...


class Database(Reader, Writer, Protocol):
    """Both; `near` reads what is due, and what that is sent with, never behind a client's listing."""

    @property
    def shared(self) -> bool:
        """Whether other nodes may write to it too, so that partitions are owned for a time only."""
        ...

    @property
    def near(self) -> Reader: ...

    async def tidy(self, now: int, before: int) -> bool:
        """Do a piece of the upkeep that only this kind of database needs; what ended before may go. Whether there
        is more of it."""
        ...

    async def number_events(self) -> bool:
        """Number what has been told by now, where that is not done as it is written; whether there is more."""
        ...

    @property
    def term(self) -> Writer:
        """Writes what a node's term depends on: nothing stands before it, and it gives up soon."""
        ...

    @property
    def home(self) -> str:
        """What this process alone has the lock of: who had it before is dead."""
        ...


class ServingDatabase(Database, Protocol):
    """A database whose clients need not wait in a task each."""

    @property
    def slice_rows(self) -> int:
        """How many tasks that come together are best written at once."""
        ...

    def begin(self, batch: Batch, item: Any, told: Callable[[Any], None]) -> None:
        """Write one item of a batch; its result, or the error, is told when it is committed, never from within."""
        ...

    def bind(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """These parameters of a statement as they travel: put together now, and not in a transaction.

        They are given to this statement, or to another that has parameters of the same names.
        """
        ...


def only(rows: list[T]) -> T | None:
    """The row of a query that has at most one."""
    return rows[0] if rows else None
