"""Reads server-sent events as browsers do (the WHATWG's rules), over a connection of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

WAIT_S = 10.0


class Heard(msgspec.Struct, frozen=True):
    """An event."""

    type: str
    id: str
    data: Any


class Stream:
    """An open stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.last_id = ""
        self.comments = 0
        self.retry_ms: int | None = None

    async def next(self) -> Heard | None:
        """The event that comes next; None when the stream has ended."""
        async with asyncio.timeout(WAIT_S):
            return await self._next()

    async def _next(self) -> Heard | None:
        kind = ""
        data: list[str] = []
        while line := await self._line():
            if line == "\n":
                if data:
                    return Heard(kind or "message", self.last_id, json.loads("\n".join(data)))
                kind = ""
                continue
            name, _, value = line.rstrip("\n").partition(":")
            value = value.removeprefix(" ")
            match name:
                case "":
                    self.comments += 1
                case "event":
                    kind = value
                case "data":
                    data.append(value)
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry_ms = int(value)
        return None

    async def _line(self) -> str:
        return (await self.response.content.readline()).decode()

    async def several(self, count: int) -> list[Heard]:
        """So many of them."""
        found = [await self.next() for _ in range(count)]
        assert None not in found, "the stream has ended"
        return [one for one in found if one is not None]

    async def until(self, *, id_is: str | None = None, comments: int = 0) -> None:
        """Read on until the place or the number of comments is this; no event may come meanwhile."""
        async with asyncio.timeout(WAIT_S):
            while (id_is is not None and self.last_id != id_is) or self.comments < comments:
                line = await self._line()
                assert not line.startswith("data"), line
                assert line, "the stream has ended"
                name, _, value = line.rstrip("\n").partition(":")
                self.comments += name == "" and line != "\n"
                self.last_id = value.removeprefix(" ") if name == "id" else self.last_id


@asynccontextmanager
async def listening(
    session: aiohttp.ClientSession, url: str, key: str, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    """Open a stream and wait for its head."""
    fields = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream", **(headers or {})}
    timeout = aiohttp.ClientTimeout(total=None)
    async with session.get(url, headers=fields, timeout=timeout) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Stream(response)
