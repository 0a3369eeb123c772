"""Reading a request's body from a connection that has ended."""

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from tasktick.api.limits import BodyMax, read_body
from tasktick.errors import Refused


async def test_a_client_that_went_away_before_its_body_was_read_is_refused() -> None:
    loop = asyncio.get_running_loop()
    stream = StreamReader(BaseProtocol(loop), 1_024, loop=loop)
    stream.set_exception(ConnectionResetError("Connection lost"))
    stream.feed_eof()
    request = make_mocked_request("POST", "/v1/tasks", {"Content-Length": "9"}, payload=stream)
    with pytest.raises(Refused, match="connection ended"):
        await read_body(request, BodyMax(1_024, "server.body_max_bytes"), 1_000)
