"""What a supervisor writes of a process that it has waited for."""

from pathlib import Path
from random import Random

import pytest

from tasktick.clock import SystemClock
from tasktick.service import Services
from tasktick.settings import StoreConfig
from tasktick.store import leases
from tasktick.store.deaths import Deaths
from tasktick.store.leases import Start
from tasktick.store.postgres_links import PostgresAddress
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]


@pytest.mark.parametrize("version", sorted(postgres.installed()))
async def test_what_it_had_is_free_at_once(version: str, tmp_path: Path) -> None:
    services = Services(SystemClock())
    async with postgres.cluster(version).new_schema() as url, opened(PostgresAddress(url, "tests"), tmp_path) as store:
        world = World(store)
        first = Start("one", "a-1", 10_000, home=store.home)
        second = Start("two", "a-2", 10_000, home=store.home, proves_home=False)
        await store.write(lambda tx: leases.start_node(tx, first, world.now))
        await store.write(lambda tx: leases.start_node(tx, second, world.now))
        world.incarnation, world.epochs = "one", await store.write(lambda tx: leases.acquire(tx, "one", world.now))
        running = await world.claimed()
        assert await store.write(lambda tx: leases.acquire(tx, "two", world.now)) == {}
        assert await world.rescue(running) is None

        deaths = Deaths(StoreConfig(url=url), spawn=services.spawn, clock=SystemClock(), random=Random(1))
        await deaths.record("one")
        await deaths.record("one")
        await deaths.close()

        assert len(await store.write(lambda tx: leases.acquire(tx, "two", world.now))) == 256
        assert await world.rescue(running) is not None
    await services.stop()
