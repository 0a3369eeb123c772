"""What the command line does to a store: look into it, be it served or not; bring it up to date, while it is not."""

import asyncio
from pathlib import Path

from tasktick.errors import ConfigError, StoreError
from tasktick.store import check, migrate, postgres_check
from tasktick.store.connect import DatabaseError, raw_connection
from tasktick.store.database import advice_on, flag_of, lock_file, may_write, require_file
from tasktick.store.opening import Place
from tasktick.store.sqlite import READER_PRAGMAS, WRITER_PRAGMAS


def checked(place: Place, *, full: bool) -> check.Report:
    """Whether it holds what it must."""
    if isinstance(place, Path):
        return check.check(place, full=full)
    if full:
        raise ConfigError("--full compares the indexes of a SQLite file; a PostgreSQL has pg_amcheck for its own.")
    return asyncio.run(postgres_check.check(place))


def steps(place: Place, *, only_check: bool) -> list[migrate.Migration]:
    """The steps that were applied, or would be."""
    if not isinstance(place, Path):
        return asyncio.run(postgres_check.steps(place, only_check=only_check))
    try:
        return _file_steps(place, only_check=only_check)
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
