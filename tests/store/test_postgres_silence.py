"""A PostgreSQL that takes connections and never answers, or is away for long: everything ends by a limit of its own,
and goes on when it is back, without a stampede. Each test hangs, or counts too many, without the limit it names."""

import asyncio
import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tasktick.errors import ConfigError, StoreUnavailable
from tasktick.model.state import State
from tasktick.store import leases, postgres_database, postgres_links, postgres_writer, tasks
from tasktick.store.leases import Start
from tasktick.store.postgres import BEGIN_WRITE, PostgresTransaction
from tasktick.store.postgres_database import API_READERS, PostgresDatabase
from tasktick.store.postgres_links import AT_ONCE_MAX, REST_MOST_MS, PostgresAddress
from tasktick.store.protocol import Lane, Transaction
from tasktick.store.tasks import Create
from tests import postgres
from tests.fakes.postgres_proxy import PostgresProxy, postgres_proxy
from tests.store.drivers import opened
from tests.store.world import NODE, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]
NEWEST = max(postgres.installed(), default="none")
SHORT_MS = 400
PATIENCE_MS = 1_000
DEADLINE_S = 20
TTL_MS = 1_500
LIMITS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "client_connection_check_interval",
)


@pytest.fixture
async def url() -> str:
    return await postgres.cluster(NEWEST).new_database()


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[PostgresProxy]:
    socket = Path(url.rpartition("host=")[2]) / ".s.PGSQL.5432"
    async with postgres_proxy(socket) as proxy:
        yield proxy


@pytest.fixture
async def database(
    url: str, proxy: PostgresProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """A store that reaches its server through the proxy, with limits that a test can wait for."""
    monkeypatch.setattr(postgres_links, "CONNECT_TIMEOUT_MS", SHORT_MS)
    monkeypatch.setattr(postgres_links, "COMMAND_TIMEOUT_MS", SHORT_MS)
    monkeypatch.setitem(postgres_writer.PATIENCE_MS, Lane.CREATE, PATIENCE_MS)
    name = url.partition("@/")[2].partition("?")[0]
    address = PostgresAddress(f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}", "tests")
    async with asyncio.timeout(60), opened(address, tmp_path, ttl_ms=TTL_MS) as database:
        yield database


@pytest.fixture
async def world(database: PostgresDatabase) -> AsyncIterator[World]:
    world = World(database)
    await world.start()
    yield world
    await world.check_counts()


async def test_a_server_that_never_answers_is_given_up_and_what_waits_goes_on(
    proxy: PostgresProxy, world: World
) -> None:
    claimed = await world.claimed()
    end = await world.answered(claimed)
    proxy.swallow()
    ending = asyncio.ensure_future(world.end(end))
    with pytest.raises(StoreUnavailable):  # the connections that there are, then new ones
        await world.counted()
    with pytest.raises(StoreUnavailable):
        await world.create_all([Create(world.task())])
    assert not ending.done()
    proxy.heal()
    async with asyncio.timeout(DEADLINE_S):
        [ended] = await ending
    assert ended.state is State.SUCCEEDED
    assert len(await world.attempts(claimed.id)) == 1


async def test_a_renewal_that_is_swallowed_ends_within_a_third_of_the_term(
    proxy: PostgresProxy, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_links, "COMMAND_TIMEOUT_MS", 60_000)
    start = Start("one", NODE, TTL_MS, home=database.home)
    await database.write(lambda tx: leases.start_node(tx, start, 0))

    async def renew() -> bool:
        return await database.term.write(lambda tx: leases.renew(tx, "one", 0, TTL_MS, 0))

    assert await renew()
    proxy.swallow()
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailable):
        await renew()
    assert asyncio.get_running_loop().time() - began < TTL_MS / 1_000
    proxy.heal()
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                assert await renew()
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                break


async def test_what_a_silent_client_holds_is_given_free_by_the_server(
    url: str, proxy: PostgresProxy, world: World
) -> None:
    """Its connection is open, and nobody is there: `idle_in_transaction_session_timeout`."""
    task_id = await world.create()
    held, go_on = asyncio.Event(), asyncio.Event()

    async def operation(tx: Transaction) -> None:
        await tx.rows("task_change_stale", int, rows=[{"id": task_id, "version": 0, "from_state": 0}])
        held.set()
        await go_on.wait()
        await tasks.states(tx, [task_id])

    holding = asyncio.ensure_future(world.database.write(operation, Lane.FIRE))
    await held.wait()
    connection = await asyncpg.connect(url)
    try:
        lock = "SELECT 1 FROM tasks FOR NO KEY UPDATE NOWAIT"
        with pytest.raises(asyncpg.LockNotAvailableError):
            await connection.execute(lock)
        proxy.swallow()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    await connection.execute(lock)
                except asyncpg.LockNotAvailableError:
                    await asyncio.sleep(0.05)
                else:
                    break
    finally:
        await connection.close()
    proxy.heal()
    go_on.set()
    async with asyncio.timeout(DEADLINE_S):
        await holding  # done again, on another connection


async def test_every_transaction_has_its_limits(database: PostgresDatabase) -> None:
    async def limits(tx: Any) -> list[str]:
        return [await tx._raw.fetchval("SELECT current_setting($1)", name) for name in LIMITS]

    wanted = ["5s", "2s", "2s", "1s"]
    assert await database.read(limits) == wanted
    assert await database.near.read(limits) == wanted
    assert [await database.write(limits, lane) for lane in Lane] == [wanted] * 3
    short = await database.term.write(limits)
    assert short == ["500ms", "500ms", "2s", "1s"]


async def test_who_finds_no_connection_to_read_on_is_told(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_links, "READER_WAIT_MS", SHORT_MS)
    go_on, all_read = asyncio.Event(), asyncio.Event()
    reads = 0

    async def long(tx: Transaction) -> None:
        nonlocal reads
        del tx
        reads += 1
        if reads == API_READERS:
            all_read.set()
        await go_on.wait()

    reading = [asyncio.ensure_future(database.read(long)) for _ in range(API_READERS)]
    await all_read.wait()
    with pytest.raises(StoreUnavailable, match="no connection to read on became free"):
        await database.read(leases.read)
    assert await database.near.read(leases.read)
    go_on.set()
    await asyncio.gather(*reading)


async def test_nobody_stampedes_a_server_that_is_away_and_comes_back(proxy: PostgresProxy, world: World) -> None:
    """Away for five seconds, with many who want it: few tries, further and further apart, no two of one rhythm."""
    away_s = 5.0
    claims = [await world.claimed() for _ in range(4)]
    ends = [await world.answered(one) for one in claims]
    proxy.refuse()
    proxy.attempts.clear()
    proxy.greeting_most = 0
    loop = asyncio.get_running_loop()
    began = loop.time()
    stop = asyncio.Event()

    async def ask() -> None:
        while not stop.is_set():
            try:
                await world.counted()
            except StoreUnavailable:
                await asyncio.sleep(0.01)

    asking = [asyncio.ensure_future(ask()) for _ in range(20)]
    ending = [asyncio.ensure_future(world.end(one)) for one in ends]
    await asyncio.wait(ending, timeout=away_s)
    tries = len(proxy.attempts)
    proxy.heal()
    back = loop.time()
    async with asyncio.timeout(DEADLINE_S):
        ended = await asyncio.gather(*ending)
    took = loop.time() - back
    stop.set()
    await asyncio.gather(*asking)
    assert {one.state for [one] in ended} == {State.SUCCEEDED}
    assert tries <= 25, f"{tries} tries in {away_s} s"
    assert proxy.greeting_most <= AT_ONCE_MAX
    assert took < 2 * REST_MOST_MS / 1_000 + 2
    gaps = [after - before for before, after in pairwise(one for one in proxy.attempts if one - began < away_s)]
    assert max(gaps) > REST_MOST_MS / 4_000, "they are further and further apart"


async def test_the_kernel_ends_a_connection_to_a_server_that_is_gone(world: World, database: PostgresDatabase) -> None:
    """Whether it is in use or idle, and within the term."""
    await world.create()
    await database.near.read(lambda tx: leases.read(tx))
    made = [link._raw._transport.get_extra_info("socket") for link in database.near._links if link.is_open]  # type: ignore[union-attr]
    assert made
    for one in made:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == max(TTL_MS * 2 // 3, 1_000)
        idle, between, times = (
            one.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert (idle, between, times) == (1, 1, 3)  # a second is the least there is


@pytest.mark.parametrize("drops", [*LIMITS, "ISOLATION LEVEL READ COMMITTED"])
async def test_a_pooler_that_drops_what_a_transaction_asks_for_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drops: str
) -> None:
    said = [one for one in BEGIN_WRITE.split("; ") if f"SET LOCAL {drops} " not in one]
    begin = "; ".join(said).replace(f" {drops}", "")
    assert begin != BEGIN_WRITE
    monkeypatch.setattr(postgres_database, "BEGIN_WRITE", begin)
    place = f"{url}&default_transaction_isolation=serializable"
    with pytest.raises(ConfigError, match="does not take effect there"):
        async with opened(PostgresAddress(place, "tests"), tmp_path):
            pass


async def test_whatever_a_server_says_by_default_its_transactions_are_ours(url: str, tmp_path: Path) -> None:
    place = f"{url}&default_transaction_isolation=serializable&statement_timeout=0"
    async with opened(PostgresAddress(place, "tests"), tmp_path):
        pass


async def test_a_connection_that_is_given_up_before_it_was_of_use_is_closed(
    url: str, proxy: PostgresProxy, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewals are given up soon. Each would leave a connection on the server, until that takes no more."""
    asked = asyncio.Event()

    async def never(*_: object, **__: object) -> list[object]:
        asked.set()
        await asyncio.Event().wait()
        return []

    gate = database.term._link._gate
    with monkeypatch.context() as patched:
        patched.setattr(PostgresTransaction, "rows", never)
        connecting = asyncio.ensure_future(gate.connect())
        await asked.wait()
        before = await connections(url)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
    async with asyncio.timeout(DEADLINE_S):
        while await connections(url) >= before:  # noqa: ASYNC110 - a server does not tell who has left it
            await asyncio.sleep(0.01)


async def connections(url: str) -> int:
    """How many the server has from a store."""
    watcher = await asyncpg.connect(url)
    try:
        found = await watcher.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tests'"
        )
        return int(found)
    finally:
        await watcher.close()
