"""The short way and the turns of the event loop: a client may be quicker than the loop that has just answered it."""

import asyncio
from typing import Any

import pytest

from tasktick.api.express import ExpressHandler
from tests.api.served import WAIT_S, Served
from tests.api.test_express import Taken, create, get, last, statuses

REQUESTS = 5


@pytest.fixture
async def taken(served: Served, monkeypatch: pytest.MonkeyPatch) -> Taken:
    """With a key and a tenant that are known."""
    await served.create()
    return Taken(served, monkeypatch)


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
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
            assert head[9:12] == status
            (length,) = [line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
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
        writer.write(create(served))
        writer.transport.abort()
    assert (await served.ask("GET", "/healthz")).status == 200
