"""A sender as the dispatcher would run it: started, swept, closed; and resolvers that say what they are told."""

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import NEVER_MS, Request
from tasktick.dispatch.sender import SenderLimits
from tasktick.dispatch.senders import SENDERS, AnySender

LOOPBACK = AddressPolicy.of(["127.0.0.0/8", "::1/128"])
NOTHING_ALLOWED = AddressPolicy()
SWEEP_S = 0.005
TIMEOUT_MS = 5_000


def monotonic_ms() -> float:
    return time.monotonic() * 1_000


class FakeResolver(AbstractResolver):
    """Knows these names; any other one leads to `otherwise`, or is unknown."""

    def __init__(self, known: Mapping[str, Sequence[str]] | None = None, otherwise: Sequence[str] = ()) -> None:
        self.known = dict(known or {})
        self.otherwise = otherwise
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.known.get(host, self.otherwise)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        return


# Which of them `sending` uses; `each_sender` runs a suite over all.
CHOSEN = "session"


@pytest.fixture(params=list(SENDERS))
def each_sender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run what asks for this over every way of sending."""
    monkeypatch.setattr(sys.modules[__name__], "CHOSEN", request.param)
    return str(request.param)


def new_sender(
    policy: AddressPolicy = LOOPBACK,
    monotonic: Callable[[], float] | None = None,
    limits: SenderLimits | None = None,
    resolver: AbstractResolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> AnySender:
    """A sender of the kind whose turn it is, not started."""
    return SENDERS[CHOSEN](policy, monotonic or monotonic_ms, limits, resolver, tls)


@asynccontextmanager
async def sending(
    policy: AddressPolicy = LOOPBACK,
    resolver: AbstractResolver | None = None,
    tls: ssl.SSLContext | None = None,
    **limits: int,
) -> AsyncIterator[AnySender]:
    """A started sender whose deadlines are kept."""
    sender = new_sender(policy, None, SenderLimits(**limits), resolver or FakeResolver(), tls)
    await sender.start()
    sweeper = asyncio.create_task(_sweep(sender))
    try:
        yield sender
    finally:
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)
        await sender.close()
        await asyncio.sleep(0)


async def _sweep(sender: AnySender) -> None:
    while True:
        sender.sweep(monotonic_ms())
        await asyncio.sleep(SWEEP_S)


def request(
    url: str,
    method: str = "POST",
    body: bytes = b"{}",
    timeout_ms: float = TIMEOUT_MS,
    start_within_ms: float = NEVER_MS,
) -> Request:
    """A request whose time counts from now."""
    now_ms = monotonic_ms()
    return Request(
        method=method,
        url=url,
        headers=[("Accept-Encoding", "identity"), ("Accept", "*/*"), ("User-Agent", "TaskTick/test")],
        body=body,
        deadline_ms=now_ms + timeout_ms,
        start_by_ms=now_ms + start_within_ms,
    )


async def until(condition: Callable[[], bool], timeout_s: float = 5) -> None:
    """Wait for something that can be seen but does not say when it happens."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 # a list that grows has no event
            await asyncio.sleep(0.001)
