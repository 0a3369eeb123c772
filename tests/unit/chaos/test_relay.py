"""The address of the harness that can be moved: what it passes on, holds back, and cuts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.chaos.relay import Relay

WITHIN_S = 5.0
QUIET_S = 0.1


@asynccontextmanager
async def saying(what: bytes) -> AsyncIterator[tuple[str, int]]:
    """A server that answers each byte with what it has to say."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1):
                writer.write(what)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


async def ask(relay: Relay) -> bytes:
    """What a new connection hears; nothing, if it is cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    try:
        writer.write(b"?")
        return await asyncio.wait_for(reader.read(8), WITHIN_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_it_leads_to_where_it_points() -> None:
    async with saying(b"one") as one, saying(b"two") as two, Relay(one) as relay:
        assert await ask(relay) == b"one"
        await relay.cut()
        assert await ask(relay) == b""
        relay.point_to(two)
        assert await ask(relay) == b"two"


async def test_what_is_held_back_is_lost_with_the_cut() -> None:
    async with saying(b"one") as one, Relay(one) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"?")
        assert await asyncio.wait_for(reader.read(8), WITHIN_S) == b"one"
        relay.hold_back()
        writer.write(b"?")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(held := asyncio.ensure_future(reader.read(8))), QUIET_S)
        await relay.cut()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(held, WITHIN_S)
        writer.close()
