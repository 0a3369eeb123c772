"""The short way and the turns of the event loop: a client may be quicker than the loop that has just answered it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from tasktick.api.express import ExpressHandler
from tests.api.served import WAIT_S, Served, serving
from tests.api.test_express import Taken, create, get, head, last, statuses

REQUESTS = 5
SHORT_MS = 60
PIECE_BYTES = 20_000


@pytest.fixture
async def taken(served: Served, monkeypatch: pytest.MonkeyPatch) -> Taken:
    """With a key and a tenant that are known."""
    await served.create()
    return Taken(served, monkeypatch)


def _heard_when_made(monkeypatch: pytest.MonkeyPatch, *pieces: bytes) -> None:
    """These come with each connection, before aiohttp's loop for it has begun."""
    made = ExpressHandler.connection_made

    def made_and_heard(connection: ExpressHandler, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        for piece in pieces:
            connection.data_received(piece)

    monkeypatch.setattr(ExpressHandler, "connection_made", made_and_heard)


async def test_who_is_quicker_than_a_turn_goes_the_short_way(
    served: Served, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all that follow would go the long way, each as quick as the one before."""
    finish = ExpressHandler.finish_response
    next_ones = [create(served)] * REQUESTS

    async def finish_and_hear(connection: ExpressHandler, *given: Any) -> Any:
        finished = await finish(connection, *given)
        if next_ones:  # it is read before the loop of this connection comes round
            asyncio.get_running_loop().call_soon(connection.data_received, next_ones.pop())
        return finished

    monkeypatch.setattr(ExpressHandler, "finish_response", finish_and_hear)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    for at in range(REQUESTS):
        writer.write(get(served))
        for status in (b"404", b"201"):
            top = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
            assert top[9:12] == status
            (length,) = [line[16:] for line in top.split(b"\r\n") if line.startswith(b"Content-Length: ")]
            await asyncio.wait_for(reader.readexactly(int(length)), WAIT_S)
        assert taken.count == at + 1
    writer.close()


async def test_what_comes_before_the_turn_is_over_is_taken_in_its_order(served: Served, taken: Taken) -> None:
    """In pieces, at once after the connection was made, when aiohttp's loop has not begun."""
    one = create(served)
    came = await served.wire(one[:10], one[10:50], one[50:] + create(served), last(served))

    assert statuses(came) == [201, 201, 404]


async def test_who_leaves_before_the_turn_is_over_leaves_nothing_behind(served: Served, taken: Taken) -> None:
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(get(served))
        writer.transport.abort()
    assert (await served.ask("GET", "/healthz")).status == 200


async def test_the_first_request_has_a_head_that_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon it came: its connection may be idle then, and is none whose head is awaited."""
    async with serving(tmp_path, header_timeout_ms=SHORT_MS, idle_timeout_ms=60_000) as served:
        _heard_when_made(monkeypatch, get(served))
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S))[9:12] == b"404"
        late = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(3 * SHORT_MS / 1_000, late.set_result, None)
        await late
        writer.write(last(served))
        assert b"HTTP/1.1 404" in await asyncio.wait_for(reader.read(-1), WAIT_S)
        writer.close()


async def test_no_more_is_held_than_comes_at_once(
    served: Served, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes behind it in the same turn is taken as it comes, and so is what was held."""
    sizes: list[int] = []
    receive = RequestHandler.data_received

    def noted(connection: RequestHandler, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(RequestHandler, "data_received", noted)
    _heard_when_made(monkeypatch, head(served, 10 * PIECE_BYTES), *[b"x" * PIECE_BYTES] * 10)
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    assert (await served.ask("GET", "/healthz", headers={"Connection": "close"})).status in (200, 400, 413)
    writer.transport.abort()
    assert max(sizes) == PIECE_BYTES
