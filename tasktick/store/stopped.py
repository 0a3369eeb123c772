"""What the command line does to a store: look into it, be it served or not; bring it up to date, while it is not."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import TypeVar

import msgspec

from tasktick.errors import ConfigError, StoreError
from tasktick.store import archiving, check, migrate, migrate_back, postgres_check
from tasktick.store.connect import DatabaseError, raw_connection
from tasktick.store.database import advice_on, flag_of, lock_file, may_write, require_file
from tasktick.store.opening import Place
from tasktick.store.sqlite import READER_PRAGMAS, WRITER_PRAGMAS

T = TypeVar("T")


def checked(place: Place, *, full: bool) -> check.Report:
    """Whether it holds what it must."""
    if isinstance(place, Path):
        return check.check(place, full=full)
    if full:
        raise ConfigError("--full compares the indexes of a SQLite file; a PostgreSQL has pg_amcheck for its own.")
    return asyncio.run(postgres_check.check(place))


class Turn(msgspec.Struct, frozen=True):
    """Migrations that were applied, or undone."""

    undone: bool
    steps: list[migrate.Migration]


def turn(place: Place, to: int, *, lose_data: bool) -> Turn:
    """Bring a store to a version, up or down."""
    if isinstance(place, Path):
        return _asked_of_file(place, lambda: _file_turn(place, to, lose_data=lose_data))
    migrate_back.check_version(migrate.available("postgres"), to)
    if asyncio.run(postgres_check.version(place)) <= to:
        return Turn(undone=False, steps=asyncio.run(postgres_check.steps(place, only_check=False, to=to)))
    return Turn(undone=True, steps=asyncio.run(postgres_check.back(place, to, lose_data=lose_data)))


def _file_turn(path: Path, to: int, *, lose_data: bool) -> Turn:
    require_file(path)
    migrate_back.check_version(migrate.available(), to)
    with lock_file(path):
        raw = raw_connection(path, WRITER_PRAGMAS)
        try:
            if max((one.version for one in migrate.applied(raw)), default=0) <= to:
                return Turn(undone=False, steps=migrate.migrate(raw, to))
            return Turn(undone=True, steps=migrate_back.migrate_back(raw, to, lose_data=lose_data))
        finally:
            raw.close()


def steps(place: Place, *, only_check: bool) -> list[migrate.Migration]:
    """The steps that were applied, or would be."""
    if not isinstance(place, Path):
        return asyncio.run(postgres_check.steps(place, only_check=only_check))
    return _asked_of_file(place, lambda: _file_steps(place, only_check=only_check))


def archived(
    place: Place, before: date, out: Path, *, drop: bool, told: Callable[[archiving.Done], None]
) -> list[archiving.Done]:
    """Write out what ended before a day; what is dropped from a file needs its daemon to have stopped."""
    if isinstance(place, Path):
        return _asked_of_file(place, lambda: _file_archived(place, before, out, drop=drop, told=told))
    return asyncio.run(postgres_check.archived(place, before, out, drop=drop, told=told))


def _file_archived(
    path: Path, before: date, out: Path, *, drop: bool, told: Callable[[archiving.Done], None]
) -> list[archiving.Done]:
    require_file(path)
    folder = archiving.folder_of(out, str(path.resolve()))
    with lock_file(path) if drop else nullcontext():
        raw = raw_connection(path, WRITER_PRAGMAS if drop else READER_PRAGMAS, read_only=not drop)
        try:
            if migrate.pending(migrate.available(), migrate.applied(raw)):
                raise StoreError("This store is of an older version. Run `tasktick migrate` first.")
            access = archiving.FileAccess(raw)
            return asyncio.run(archiving.archive(access, folder, before, drop=drop, told=told))
        finally:
            raw.close()


def _asked_of_file(place: Path, work: Callable[[], T]) -> T:
    """Do it; what goes wrong with the file, in words that help."""
    try:
        return work()
    except OSError as error:
        raise StoreError(f"The store {place} cannot be read: {error.strerror}.{advice_on(error)}") from error
    except DatabaseError as error:
        advice = f"Run `tasktick store check {flag_of(place)}`."
        if not may_write(place.parent):
            advice = "Run this as the daemon's user."
        raise StoreError(f"The store {place} cannot be migrated: {error}. {advice}") from error


def _file_steps(path: Path, *, only_check: bool) -> list[migrate.Migration]:
    require_file(path)
    if only_check:
        raw = raw_connection(path, READER_PRAGMAS, read_only=True)
        try:
            return migrate.pending(migrate.available(), migrate.applied(raw))
        finally:
            raw.close()
    with lock_file(path):
        raw = raw_connection(path, WRITER_PRAGMAS)
        try:
            return migrate.migrate(raw)
        finally:
            raw.close()
