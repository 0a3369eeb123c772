"""Which store a setting names, and how it is opened: the one place that chooses between databases."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from tasktick.clock import StoreClock
from tasktick.service import Spawner
from tasktick.settings import StoreConfig
from tasktick.store.database import SqliteDatabase, open_sqlite, sqlite_path
from tasktick.store.postgres_database import PostgresDatabase, application_name, open_postgres
from tasktick.store.postgres_links import PostgresAddress, check_url

POSTGRES_STARTS = ("postgresql://", "postgres://")
Place = Path | PostgresAddress
OpenStore = SqliteDatabase | PostgresDatabase


def place_of(config: StoreConfig) -> Place:
    """Where the store is: a file, or a database on a server."""
    if config.url is not None and config.url.startswith(POSTGRES_STARTS):
        check_url(config.url)
        return PostgresAddress(config.url, application_name(), config.prepared_statements)
    return sqlite_path(config.url, Path(config.data))


async def open_store(
    config: StoreConfig,
    *,
    spawn: Spawner,
    crash: Callable[[BaseException], None],
    clock: StoreClock,
    random: Random,
    ttl_ms: int,
    folder_lock: int | None = None,
) -> OpenStore:
    """Open the store that the settings name. `folder_lock` is its folder's, where somebody else has taken it."""
    place = place_of(config)
    if isinstance(place, Path):
        return await open_sqlite(place, spawn, crash)
    data = Path(config.data)
    return await open_postgres(
        place, data, spawn=spawn, clock=clock, random=random, ttl_ms=ttl_ms, folder_lock=folder_lock
    )
