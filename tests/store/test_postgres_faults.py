"""A PostgreSQL that goes away: what was acknowledged is there, once, and what waits goes on when it is back."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasktick.errors import StoreUnavailable
from tasktick.model.state import State
from tasktick.store import postgres_links, tasks
from tasktick.store.connect import PostgresConnection, connect_postgres
from tasktick.store.postgres_database import PostgresDatabase
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create
from tests import postgres
from tests.store.drivers import opened
from tests.store.world import World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
KILL_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tests'"


@pytest.fixture(params=sorted(postgres.installed()))
def server(request: pytest.FixtureRequest) -> Iterator[postgres.Cluster]:
    """A cluster of its own, which syncs."""
    with postgres.own_cluster(request.param) as server:
        yield server


@pytest.fixture
async def world(server: postgres.Cluster, tmp_path: Path) -> AsyncIterator[World]:
    async with opened(PostgresAddress(await server.new_database(), "tests"), tmp_path) as database:
        world = World(database)
        await world.start()
        yield world
        await world.check_counts()


class Acknowledged:
    """Callers that create, until told to stop; what they were told is there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = False
        self._grown = asyncio.Condition()
        self.ids: list[str] = []
        self.refused = 0

    async def create(self) -> None:
        while not self._stopping:
            task = self._world.task()
            try:
                [outcome] = await self._world.create_all([Create(task)])
                assert outcome is None
                self.ids.append(task.state.id)
                async with self._grown:
                    self._grown.notify_all()
            except StoreUnavailable:
                self.refused += 1
                await asyncio.sleep(0.02)

    async def more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.ids) + count
        async with asyncio.timeout(30), self._grown:
            await self._grown.wait_for(lambda: len(self.ids) >= wanted)

    async def during(self, harm: Callable[[], Any], rounds: int, callers: int = 8) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self.create())
            for _ in range(rounds):
                await self.more(20)
                await harm()
            await self.more(20)
            self._stopping = True
        found = await self._world.database.read(lambda tx: tasks.states(tx, self.ids))
        assert [one.id for one in found] == sorted(self.ids)


@pytest.mark.slow
async def test_backends_are_killed_while_tasks_are_created(server: postgres.Cluster, world: World) -> None:
    await Acknowledged(world).during(lambda: server.run(KILL_OTHERS), rounds=10)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in order", "as if crashed"])
async def test_the_server_is_restarted_while_tasks_are_created(
    server: postgres.Cluster, world: World, how: signal.Signals
) -> None:
    async def restart() -> None:
        await asyncio.to_thread(server.stop, how)
        with pytest.raises(StoreUnavailable):
            await world.counted()
        await asyncio.to_thread(server.start)

    await Acknowledged(world).during(restart, rounds=2)


@pytest.mark.slow
async def test_an_end_waits_for_the_server(server: postgres.Cluster, world: World) -> None:
    claimed = await world.claimed()
    end = await world.answered(claimed)
    await asyncio.to_thread(server.stop)
    ending = asyncio.ensure_future(world.end(end))
    _, pending = await asyncio.wait({ending}, timeout=0.3)
    assert pending
    await asyncio.to_thread(server.start)
    [ended] = await ending
    assert ended.state is State.SUCCEEDED


class Cut:
    """A connection that loses the answer to its next commits."""

    def __init__(self, raw: PostgresConnection, cuts: list[str]) -> None:
        self._raw = raw
        self._cuts = cuts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    async def execute(self, text: str, *arguments: Any) -> str:
        if text.endswith("COMMIT") and self._cuts:
            match self._cuts.pop(0):
                case "after":
                    await self._raw.execute(text)
                case "before":
                    # The server does not know yet: its transaction is open, and holds its rows.
                    asyncio.get_running_loop().call_later(0.2, self._raw.terminate)
                    self.terminate = lambda: None
                    self.is_closed = lambda: True
            raise ConnectionResetError("cut on purpose")
        return await self._raw.execute(text, *arguments)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to the next commits of connections that are made from now on."""
    planned: list[str] = []
    connect = connect_postgres

    async def cutting(url: str, **options: Any) -> Any:
        return Cut(await connect(url, **options), planned)

    monkeypatch.setattr(postgres_links, "connect_postgres", cutting)
    return planned


@pytest.mark.parametrize("when", [["after"], ["before"], ["before", "after"], ["after", "after"]], ids="-".join)
async def test_a_commit_whose_answer_is_lost_is_found_out(
    cuts: list[str], server: postgres.Cluster, tmp_path: Path, when: list[str]
) -> None:
    async with opened(PostgresAddress(await server.new_database(), "tests"), tmp_path) as database:
        world = World(database)
        await world.start()
        create = world.idempotent(world.task(key="k"), "name")
        cuts += when
        assert await world.create_all([create]) == [None]  # not "seen before"
        cuts += when
        [claimed] = await world.claim(create.task.state.id)
        assert claimed.attempt == 1
        end = await world.answered(claimed)
        cuts += when
        [ended] = await world.end(end)
        assert ended.state is State.SUCCEEDED  # not stale
        assert cuts == []
        await world.check_counts()
        assert await _counted_rows(database) == 1


async def test_who_is_held_in_a_transaction_holds_up_nobody(server: postgres.Cluster, tmp_path: Path) -> None:
    """A node may stop dead anywhere: others must not wait for it to be thrown out."""
    async with opened(PostgresAddress(await server.new_database(), "tests"), tmp_path) as database:
        world = World(database)
        await world.start()
        written, go_on = asyncio.Event(), asyncio.Event()

        async def held(tx: Transaction) -> None:
            await CREATE.operation(tx, [Create(world.task())])
            written.set()
            await go_on.wait()

        holding = asyncio.create_task(database.write(held))
        await written.wait()
        try:
            async with asyncio.timeout(1.0):  # half of what a session may be idle in a transaction
                assert await world.create_all([Create(world.task()), Create(world.task())]) == [None, None]
        finally:
            go_on.set()
            await holding
        await world.check_counts()
        assert await _counted_rows(database) == 3


async def _counted_rows(database: PostgresDatabase) -> int:
    return sum((await World(database).counted()).values())
