"""`world`: a store with a node on it, on every driver. After each test the counts agree with the rows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tasktick.store.protocol import Database
from tests.store.drivers import DRIVERS, Driver
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
