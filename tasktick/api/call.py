"""A request as its handler sees it, and what the handler answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from tasktick.access.keys import Principal
from tasktick.api.in_flight import InFlight
from tasktick.api.kept import Kept
from tasktick.api.knocks import Knocks
from tasktick.api.ports import Ports
from tasktick.api.rates import Allowance, RateRefused, Rates
from tasktick.store.protocol import Batch

JSON = "application/json"


class Call(msgspec.Struct, gc=False):
    """One request, its key checked and its body read. `headers` knows a name in any case.

    `told` are the headers that its answer gets, whatever that becomes: what is left of a rate is said with a
    conflict too.
    """

    ports: Ports
    method: str
    path: str
    principal: Principal
    request_id: str
    headers: Mapping[str, str]
    body: bytes
    now: int
    in_flight: InFlight
    rates: Rates
    kept: Kept
    parameters: Mapping[str, str] = {}
    query: Mapping[str, list[str]] = {}
    told: dict[str, str] = msgspec.field(default_factory=dict)
    doubt_ms: int = 0
    """By how much it may have been later than `now`."""
    knocks: Knocks = msgspec.field(default_factory=Knocks)
    remote: str = ""
    """The address that it came from."""
    sent_as: str = ""
    """The method that was sent; HEAD is handled as GET."""
    body_bytes: int = 0
    """How much was sent as its body, where not all of it is kept."""

    @property
    def latest(self) -> int:
        """What the time was at most when the request was read."""
        return self.now + self.doubt_ms

    @property
    def tenant(self) -> str:
        """Whose things this is about."""
        return self.principal.tenant

    async def take(self, wanted: int) -> Allowance:
        """How many of so many tasks may be made now, which the answer tells too."""
        allowance = await self.rates.take(self.tenant, wanted)
        if allowance.headers:
            self.told.update(allowance.headers)
        return allowance

    async def take_one(self) -> None:
        """Let one task through, or refuse it."""
        if self.rates.is_unlimited(self.tenant):
            return
        allowance = await self.take(1)
        if not allowance.granted:
            raise RateRefused(allowance)


class Reply(msgspec.Struct, gc=False):
    """An answer, encoded."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    media_type: str = JSON


class Streamed(msgspec.Struct, gc=False):
    """An answer that goes on until its client leaves: parts as they come, the empty ones only to look around.

    It is closed by whoever sends it, whether it began or not.
    """

    parts: AsyncGenerator[bytes, None]
    close: Callable[[], None]
    headers: Mapping[str, str]
    media_type: str


class Single(msgspec.Struct, gc=False):
    """One row or thing to write, with those of others, and the answer that its outcome makes."""

    batch: Batch
    item: Any
    reply: Callable[[Any], Reply]


Handler = Callable[[Call], Awaitable[Reply | Streamed]]

_ENCODER = msgspec.json.Encoder()


def encode(document: Any) -> bytes:
    """A document as JSON."""
    return _ENCODER.encode(document)


def answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer with a JSON document."""
    return Reply(status, _ENCODER.encode(document), headers or {})


def etag(version: int) -> str:
    """The version of a thing as HTTP says it."""
    return f'"{version}"'
