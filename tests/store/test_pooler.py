"""Behind pgbouncer, which hands out the server's connections by the transaction: nothing is left to a session."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasktick.errors import StoreBroken, StoreError
from tasktick.model.state import State
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Lane
from tests import pooler, postgres
from tests.store.drivers import opened
from tests.store.world import World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
    pytest.mark.skipif(pooler.program() is None, reason="there is no pgbouncer here: apt install pgbouncer"),
]
NEWEST = max(postgres.installed(), default="none")
CALLERS = 12
ROUNDS = 15


@pytest.fixture
def port() -> Iterator[int]:
    with pooler.pooled(postgres.cluster(NEWEST)) as port:
        yield port


@pytest.fixture
async def address(port: int) -> PostgresAddress:
    url = await postgres.cluster(NEWEST).new_database()
    return PostgresAddress(pooler.through(url, port), "tests", keep_statements=False)


async def test_all_lanes_and_readers_work_at_once(address: PostgresAddress, tmp_path: Path) -> None:
    async with opened(address, tmp_path) as database:
        world = World(database)
        await world.start()

        async def run(number: int) -> None:
            for round_ in range(ROUNDS):
                claimed = await world.claimed(key=f"{number}-{round_}")
                assert await world.finish(claimed) is State.SUCCEEDED
                assert (await world.state(claimed.id)).state is State.SUCCEEDED
                await database.write(lambda tx: tx.run("nodes_forget", before=0), Lane.UPKEEP)

        await asyncio.gather(*(run(number) for number in range(CALLERS)))
        await world.check_counts()


async def test_stores_are_opened_beside_those_that_work(address: PostgresAddress, tmp_path: Path) -> None:
    """What a connection is asked before it is used is asked in one transaction, too."""
    async with opened(address, tmp_path / "one") as database:
        world = World(database)
        await world.start()
        stop = asyncio.Event()

        async def work() -> None:
            while not stop.is_set():
                await world.finish(await world.claimed())

        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(work())
            for number in range(ROUNDS):
                async with opened(address, tmp_path / str(number)) as other:
                    await World(other).counted()
            stop.set()


async def test_statements_that_a_pooler_loses_are_told_of(port: int, tmp_path: Path) -> None:
    """An old one, or one that is not told to keep them."""
    url = await postgres.cluster(NEWEST).new_database()
    address = PostgresAddress(pooler.through(url, port), "tests")

    async def work() -> None:
        async with opened(address, tmp_path) as database:
            world = World(database)
            await world.start()
            await asyncio.gather(*(world.claimed() for _ in range(50)))

    with pytest.raises((StoreBroken, StoreError), match="prepared_statements = false"):
        await work()
