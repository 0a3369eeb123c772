"""The connections of the wire: how many there are, which is used again, who waits, and what the connector knows."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

from tasktick.dispatch.connector import GuardedConnector
from tasktick.dispatch.outcome import Request
from tasktick.dispatch.sender import SenderLimits
from tasktick.dispatch.tls import client_context
from tasktick.dispatch.wire_sender import WireSender
from tests.fakes.authority import Authority
from tests.fakes.receivers import Receiver, answering, honest, respond, silent
from tests.fakes.sending import LOOPBACK, NOTHING_ALLOWED, FakeResolver, monotonic_ms, request, until

LARGE_BYTES = 8 << 20


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.moved_ms = 0.0

    def now_ms(self) -> float:
        return monotonic_ms() + self.moved_ms


@asynccontextmanager
async def started(
    clock: Clock | None = None, authority: Authority | None = None, **limits: int
) -> AsyncIterator[WireSender]:
    tls = client_context(str(authority.file)) if authority is not None else None
    now_ms = clock.now_ms if clock is not None else monotonic_ms
    sender = WireSender(LOOPBACK, now_ms, SenderLimits(**limits), FakeResolver(), tls)
    await sender.start()
    try:
        yield sender
    finally:
        await sender.close()


def acquired(sender: WireSender) -> int:
    """What the connector counts."""
    assert sender._connector is not None
    return len(sender._connector._acquired)


def counted(sender: WireSender) -> tuple[int, int]:
    """What is open, by our count and by the connector's."""
    return sender._wires._count, acquired(sender)


async def many(sender: WireSender, url: str, count: int) -> None:
    outcomes = await asyncio.gather(*(sender.send(request(url)) for _ in range(count)))
    assert {outcome.status for outcome in outcomes} == {200}


async def test_the_connector_counts_what_is_open_as_long_as_it_is() -> None:
    async with Receiver(honest) as receiver, started() as sender:
        await many(sender, receiver.url, 3)
        assert counted(sender) == (3, 3)
        await many(sender, receiver.url, 2)
        assert (counted(sender), receiver.connections) == ((3, 3), 3)
        sender.obey(NOTHING_ALLOWED)
        assert counted(sender) == (0, 0)
        connector = sender._connector
        assert connector is not None
        assert not connector._conns, "the connector keeps none for itself"


async def test_more_calls_than_connections_wait_for_their_turn() -> None:
    async with Receiver(honest) as receiver, started(connections_max=3) as sender:
        await many(sender, receiver.url, 40)
        assert (receiver.connections, len(receiver.hits), counted(sender)) == (3, 40, (3, 3))


async def test_who_waits_for_room_is_served_when_one_fails_or_is_cut() -> None:
    async with Receiver(silent) as stuck, Receiver(honest) as receiver, started(connections_max=1) as sender:
        call = sender.begin(request(stuck.url), lambda outcome: None)
        waiting = asyncio.create_task(sender.send(request("http://127.0.0.1:1/")))
        served = asyncio.create_task(sender.send(request(receiver.url)))
        await until(lambda: bool(stuck.hits) and sender.in_flight == 3)
        call.cut()
        assert (await waiting).error_code == "connect_failed"
        assert (await served).status == 200
        assert counted(sender) == (1, 1)


async def test_who_waits_for_room_waits_no_longer_than_its_deadline() -> None:
    async with Receiver(silent) as stuck, started(connections_max=1) as sender:
        first = asyncio.create_task(sender.send(request(stuck.url)))
        second = asyncio.create_task(sender.send(request(stuck.url, timeout_ms=1_000)))
        await until(lambda: bool(stuck.hits) and sender.in_flight == 2)
        assert sender.sweep(monotonic_ms() + 1_500) == 1
        outcome = await second
        assert (outcome.error_code, outcome.byte_left) == ("connect_timeout", False)
        first.cancel()
        await asyncio.wait({first})
        assert sender.in_flight == 0


async def test_an_idle_connection_makes_room_for_another_receiver() -> None:
    async with Receiver(honest) as one, Receiver(honest) as other, started(connections_max=2) as sender:
        await many(sender, one.url, 2)
        await many(sender, other.url, 2)
        assert (one.connections, other.connections, counted(sender)) == (2, 2, (2, 2))


async def test_the_one_used_last_is_used_next() -> None:
    async with Receiver(honest) as receiver, started() as sender:
        await many(sender, receiver.url, 4)
        last = sender._wires._idle[("http", "127.0.0.1", receiver.port)][-1]
        for _ in range(3):
            await many(sender, receiver.url, 1)
            assert sender._wires._idle[last.key][-1] is last


async def test_what_is_idle_for_too_long_is_not_used_again() -> None:
    clock = Clock()
    async with Receiver(honest) as receiver, started(clock, keepalive_ms=60_000) as sender:
        await many(sender, receiver.url, 3)
        clock.moved_ms += 60_001
        await many(sender, receiver.url, 1)
        assert (receiver.connections, counted(sender)) == (4, (1, 1))


async def test_what_is_idle_for_too_long_is_closed_by_itself() -> None:
    async with Receiver(honest) as receiver, started(keepalive_ms=20) as sender:
        await many(sender, receiver.url, 3)
        await until(lambda: counted(sender) == (0, 0))
        assert (sender._wires._idle, sender._wires._timer) == ({}, None)


async def test_a_receiver_that_hangs_up_costs_nothing_later() -> None:
    async with Receiver(answering(respond(), then_close=True)) as receiver, started() as sender:
        await many(sender, receiver.url, 2)
        await until(lambda: counted(sender) == (0, 0))
        await many(sender, receiver.url, 1)
        assert receiver.connections == 3


async def test_a_connection_with_more_to_send_is_not_used_again() -> None:
    """The answer came before the request had left: what is behind it would come too late, or be taken for it."""

    async def early(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        await receiver.write(writer, respond())
        await writer.wait_closed()

    async with Receiver(early) as receiver, started() as sender:
        for _ in range(2):
            assert (await sender.send(request(receiver.url, body=b"x" * LARGE_BYTES))).status == 200
        assert receiver.connections == 2


class _Stopping(Sequence[tuple[str, str]]):
    """Headers at which the process is stopped for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __len__(self) -> int:
        return 1

    def __getitem__(self, at: Any) -> Any:
        self._clock.moved_ms += 60_000
        return [("x-one", "1")][at]


async def test_the_clock_is_looked_at_when_the_bytes_are_made() -> None:
    """A process may be stopped for longer than its claim lasts, and go on where it was."""
    clock = Clock()
    async with Receiver(honest) as receiver, started(clock) as sender:
        await many(sender, receiver.url, 1)
        headers = _Stopping(clock)
        late = Request("POST", receiver.url, headers, b"{}", clock.now_ms() + 5_000, clock.now_ms() + 2_000)
        outcome = await sender.send(late)
        assert (outcome.error_code, outcome.byte_left, len(receiver.hits)) == ("too_late", False, 1)


async def test_tls_connections_are_kept_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with Receiver(honest, tls=authority.context()) as receiver, started(authority=authority) as sender:
        for _ in range(3):
            await many(sender, receiver.url, 2)
        assert (receiver.connections, counted(sender)) == (2, (2, 2))


async def test_closing_waits_for_the_connections() -> None:
    async with Receiver(honest) as receiver, Receiver(silent) as stuck, started() as sender:
        await many(sender, receiver.url, 2)
        send = asyncio.create_task(sender.send(request(stuck.url)))
        await until(lambda: bool(stuck.hits))
        connector = sender._connector
        assert connector is not None
        wires = [*connector._acquired]
        await sender.close()
        assert connector.closed
        assert all(wire.transport is None for wire in wires)
        assert (await send).error_code == "reset"


async def test_the_start_fails_if_the_connector_makes_its_protocols_in_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    init = aiohttp.TCPConnector.__init__

    def otherwise(self: aiohttp.TCPConnector, **options: object) -> None:
        init(self, **options)  # type: ignore[arg-type]
        self._factory = partial(asyncio.Protocol)  # type: ignore[arg-type,assignment]

    monkeypatch.setattr(aiohttp.TCPConnector, "__init__", otherwise)
    with pytest.raises(AssertionError, match="protocols that are not known"):
        await WireSender(LOOPBACK, monotonic_ms, resolver=FakeResolver()).start()


async def test_the_connector_still_makes_its_protocols_by_a_factory() -> None:
    connector = GuardedConnector(LOOPBACK, FakeResolver(), lambda: None)  # type: ignore[arg-type,return-value]
    await connector.close()
    plain = aiohttp.TCPConnector()
    assert plain._factory.func is ResponseHandler
    await plain.close()
