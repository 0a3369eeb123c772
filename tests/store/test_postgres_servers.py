"""A URL that names several servers: the one that takes writes is found, and a dead one takes no time of the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tasktick.clock import SystemClock
from tasktick.errors import StoreUnavailable
from tasktick.store import postgres_links
from tasktick.store.postgres_links import Gate, PostgresAddress, servers_of
from tests import postgres

ANY = "target_session_attrs=any"
needs_server = pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here")


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://u@one:1/db?a=b", ["postgresql://u@one:1/db?a=b"]),
        ("postgresql:///db?host=/run/x&port=7", ["postgresql:///db?host=/run/x&port=7"]),
        (
            f"postgresql://u:p%40w@one:1,[::1]:2,three/db?{ANY}",
            [f"postgresql://u:p%40w@{host}/db?{ANY}" for host in ("one:1", "[::1]:2", "three")],
        ),
        (
            "postgresql://one,two/db",
            [f"postgresql://{host}/db?target_session_attrs=read-write" for host in ("one", "two")],
        ),
        (
            f"postgresql://u@/db?host=one,two&port=7&{ANY}",
            [f"postgresql://u@/db?{ANY}&host={host}&port=7" for host in ("one", "two")],
        ),
        (
            f"postgresql:///db?host=one,two&port=7,8&{ANY}",
            [f"postgresql:///db?{ANY}&host={host}&port={port}" for host, port in (("one", 7), ("two", 8))],
        ),
    ],
)
def test_each_server_has_a_url(url: str, servers: list[str]) -> None:
    assert servers_of(url) == servers


@asynccontextmanager
async def _hung() -> AsyncIterator[int]:
    """A server that takes connections and says nothing: as from a machine that is gone, nothing comes."""
    over = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()


@pytest.fixture(scope="module")
def server() -> postgres.Cluster:
    return postgres.cluster(min(postgres.installed(), key=int))


def _gate(servers: list[tuple[str, object]]) -> Gate:
    hosts, ports = (",".join(str(one) for one in part) for part in zip(*servers, strict=True))
    address = PostgresAddress(f"postgresql://postgres@/postgres?host={hosts}&port={ports}", "tests")
    return Gate(address, SystemClock(), Random(7))


@needs_server
@pytest.mark.postgres
async def test_a_server_that_says_nothing_takes_no_time_of_the_others(
    server: postgres.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_links, "CONNECT_TIMEOUT_MS", 1_000)
    loop = asyncio.get_running_loop()
    async with _hung() as port:
        gate = _gate([("127.0.0.1", port), (server.url("x").rpartition("=")[2], 5432)])
        await (await gate.connect()).close()
        began = loop.time()
        await (await gate.connect()).close()
        assert loop.time() - began < 0.4, "it goes first to the one that was there"


@needs_server
@pytest.mark.postgres
async def test_a_server_that_takes_no_writes_is_passed_over(server: postgres.Cluster) -> None:
    await server.run("CREATE ROLE standing_by LOGIN; ALTER ROLE standing_by SET default_transaction_read_only = on")
    folder = server.url("x").rpartition("=")[2]
    try:
        gate = Gate(
            PostgresAddress(f"postgresql://standing_by@/postgres?host={folder},{folder}", "t"), SystemClock(), Random(7)
        )
        with pytest.raises(StoreUnavailable, match="read"):
            await gate.connect()
    finally:
        await server.run("DROP ROLE standing_by")
