"""The archive command's work on either store: day after day, the oldest first, written and then perhaps dropped."""

import os
from collections.abc import Callable, Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tasktick.errors import StoreError
from tasktick.store.archive import (
    DAY_MS,
    PAGE_ROWS,
    File,
    Folder,
    Line,
    Page,
    day_start,
    day_text,
    drop_unchanged,
    hot_page,
)
from tasktick.store.connect import PostgresConnection, RawConnection
from tasktick.store.postgres import BEGIN_CHECK, CommitUnknown
from tasktick.store.postgres import read_with as read_on_server
from tasktick.store.postgres import write_with as write_on_server
from tasktick.store.postgres_history import days_of, drop_day, drop_leftovers, history_page, sum_of_day
from tasktick.store.protocol import Aborted, Operation, Transaction
from tasktick.store.sqlite import read_with, step, write_with

T = TypeVar("T")
TRIES = 5


class Access(Protocol):
    """A store under the command's hands."""

    pages: list[Page]

    async def read(self, operation: Operation[T]) -> T: ...

    async def write(self, operation: Operation[T]) -> T: ...

    async def days(self, before: int) -> list[int]: ...

    async def history_sum(self, tx: Transaction, from_at: int) -> str: ...

    async def drop_history(self, from_at: int, file: File) -> bool: ...

    async def clear(self) -> None: ...


class FileAccess:
    """A SQLite file; to drop, its daemon must have stopped."""

    def __init__(self, raw: RawConnection) -> None:
        self._raw = raw
        self.pages: list[Page] = [hot_page]

    async def read(self, operation: Operation[T]) -> T:
        """Run it in one snapshot."""
        return read_with(self._raw, operation)

    async def write(self, operation: Operation[T]) -> T:
        """Run it and commit it."""
        return write_with(self._raw, lambda tx: step(operation(tx)))

    async def days(self, before: int) -> list[int]:
        """The days before this one on which something ended."""
        return await self.read(lambda tx: tx.rows("archive_days", int, before=before))

    async def history_sum(self, tx: Transaction, from_at: int) -> str:
        """There is none."""
        del tx, from_at
        return ""

    async def drop_history(self, from_at: int, file: File) -> bool:
        """There is none."""
        del from_at, file
        return True

    async def clear(self) -> None:
        """Nothing is left over."""


class ServerAccess:
    """A PostgreSQL, whether nodes run on it or not."""

    def __init__(self, raw: PostgresConnection) -> None:
        self._raw = raw
        self._mark = 0
        self.pages: list[Page] = [hot_page, history_page]

    async def read(self, operation: Operation[T]) -> T:
        """Run it in one snapshot."""
        return await read_on_server(self._raw, operation, BEGIN_CHECK)

    async def write(self, operation: Operation[T]) -> T:
        """Run it and commit it, again if others were in the way."""
        for tries_left in range(TRIES - 1, -1, -1):
            self._mark += 1
            try:
                return await write_on_server(self._raw, operation, f"archive-{os.getpid()}", self._mark)
            except Aborted:
                if not tries_left:
                    raise
            except CommitUnknown as error:
                raise StoreError(f"{error} Run the command again: it goes on where it stood.") from error
        raise AssertionError("the last try returns or raises")

    async def days(self, before: int) -> list[int]:
        """The days before this one on which something ended, and those of history."""

        async def operation(tx: Transaction) -> list[int]:
            hot = await tx.rows("archive_days", int, before=before)
            return sorted({*hot, *await days_of(tx, before)})

        return await self.read(operation)

    async def history_sum(self, tx: Transaction, from_at: int) -> str:
        """What tells one day of history from another that has as many tasks."""
        return await sum_of_day(tx, from_at)

    async def drop_history(self, from_at: int, file: File) -> bool:
        """Let a day of history go, if it holds what was written."""

        async def is_other(tx: Transaction) -> bool:
            is_there = from_at in await days_of(tx, from_at + DAY_MS)
            return is_there and await sum_of_day(tx, from_at) != file.history_sum

        # Read without a lock, since that may take a while; what has come or gone since is told by the number.
        return not await self.read(is_other) and await self.write(lambda tx: drop_day(tx, from_at, file.in_history))

    async def clear(self) -> None:
        """Drop the tables of the days that are gone."""
        await drop_leftovers(self._raw)


class Done(msgspec.Struct, frozen=True):
    """A day that was dealt with."""

    day: str
    name: str
    file: File
    was_there: bool


async def archive(
    access: Access, folder: Folder, before: date, *, drop: bool, told: Callable[[Done], None]
) -> list[Done]:
    """Write out what ended before a day, and drop it if that is wanted; what was done, day by day."""
    done = []
    with folder.held():
        for from_at in await access.days(day_start(before)):
            one = await _day(access, folder, from_at, drop=drop)
            if one is not None:
                told(one)
                done.append(one)
        if drop:
            await access.clear()
    return done


async def _day(access: Access, folder: Folder, from_at: int, *, drop: bool) -> Done | None:
    for _ in range(TRIES):
        name = folder.open_file(day_text(from_at))
        file = folder.manifest.files.get(name)
        was_there = file is not None
        if file is None:
            file = await _written(access, folder, name, from_at)
        done = Done(file.day, name, file, was_there) if file.tasks else None
        if not drop:
            return done
        if done is not None:
            folder.verify(name)
        if await access.drop_history(from_at, file):
            await _drop_rest(access, folder, name, file)
            return done
        if done is not None:  # something has come or gone since: what is there now gets a file of its own
            file.superseded = True
            folder.keep(name, file)
    raise StoreError(f"{day_text(from_at)} changes all the time: nothing of it was dropped. Try again later.")


async def _written(access: Access, folder: Folder, name: str, from_at: int) -> File:
    async def operation(tx: Transaction) -> File:
        file = await folder.write(tx, name, from_at, access.pages)
        file.history_sum = await access.history_sum(tx, from_at)
        return file

    file = await access.read(operation)
    if file.tasks:
        folder.keep(name, file)
    else:
        (folder.path / name).unlink()
    return file


async def _drop_rest(access: Access, folder: Folder, name: str, file: File) -> None:
    """What was not in history goes by its rows."""
    if not file.tasks:
        return
    lines = (line for line in folder.lines(name) if not line.in_history)
    for batch in _batches(lines):
        await access.write(lambda tx, batch=batch: drop_unchanged(tx, batch))  # type: ignore[misc] # bound
    file.dropped = True
    folder.keep(name, file)


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(lines, PAGE_ROWS)):
        yield batch


def folder_of(path: Path, store: str) -> Folder:
    """The folder, which may hold an archive of this store already."""
    return Folder(path, store)
