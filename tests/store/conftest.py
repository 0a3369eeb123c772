"""`world`: a store with a node on it, on every driver. After each test the counts agree with the rows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tasktick.store.protocol import Database
from tests import postgres
from tests.store.drivers import DRIVERS, Driver
from tests.store.moving import fill, served
from tests.store.world import World


def _of(name: str) -> object:
    return pytest.param(name, marks=() if name == "sqlite" else pytest.mark.postgres)


@pytest.fixture(params=[_of(name) for name in sorted(DRIVERS)])
def store_factory(request: pytest.FixtureRequest) -> Driver:
    """How to open a store of this driver in an empty folder."""
    return DRIVERS[request.param]


@pytest.fixture
async def store(store_factory: Driver, tmp_path: Path) -> AsyncIterator[Database]:
    """An open, empty store."""
    async with store_factory(tmp_path) as database:
        yield database


@pytest.fixture
async def world(store: Database) -> AsyncIterator[World]:
    """A node that owns every partition of an empty store."""
    world = World(store)
    await world.start()
    yield world
    await world.check_counts()


@pytest.fixture(params=sorted(postgres.installed()))
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """An empty schema, on each version."""
    async with postgres.cluster(request.param).new_schema() as url:
        yield url


@pytest.fixture
async def newest_server() -> AsyncIterator[str]:
    """An empty schema on the newest server, where the version makes no difference."""
    async with postgres.cluster(max(postgres.installed())).new_schema() as url:
        yield url


@pytest.fixture
async def rich_file(tmp_path: Path) -> Path:
    """A store in a file, with something of everything."""
    path = tmp_path / "rich.db"
    async with served(path, tmp_path) as database:
        await fill(database)
    return path
