"""A request without a task: how it begins, that its end is told once, and how it is cut. Over every sender."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tasktick.dispatch.attempt import Sender
from tasktick.dispatch.outcome import Outcome
from tasktick.dispatch.sender import SpawningSender
from tests.fakes.receivers import Receiver, honest, silent
from tests.fakes.sending import monotonic_ms, request, sending, until

LARGE_BYTES = 400_000


@pytest.fixture(params=["as it is", "spawned"], autouse=True)
def way(request: pytest.FixtureRequest, each_sender: str) -> str:
    """Every sender as it is, and as one that can only be waited for."""
    del each_sender
    return str(request.param)


@asynccontextmanager
async def beginning(way: str) -> AsyncIterator[Sender]:
    def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=name)

    async with sending() as sender:
        yield SpawningSender(sender, spawn) if way == "spawned" else sender


class Told:
    """What came of one call."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.once = asyncio.Event()

    def __call__(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.once.set()

    @property
    def codes(self) -> list[str | None]:
        return [outcome.error_code for outcome in self.outcomes]


async def test_the_end_is_told_once(way: str) -> None:
    async with Receiver(honest) as receiver, beginning(way) as sender:
        for _ in range(3):
            told = Told()
            sender.begin(request(receiver.url), told)
            assert told.outcomes == []
            await told.once.wait()
            assert sender.in_flight == 0
        await asyncio.sleep(0)
        assert [outcome.status for outcome in told.outcomes] == [200]
        assert (receiver.connections, len(receiver.hits)) == (1, 3)


@pytest.mark.parametrize(
    ("url", "start_within_ms", "code"),
    [
        ("http://127.0.0.1:1/", -1, "too_late"),
        ("::", 1_000, "bad_target"),
        ("http://10.0.0.1/", 1_000, "forbidden_address"),
    ],
)
async def test_a_refusal_comes_after_the_beginning(way: str, url: str, start_within_ms: float, code: str) -> None:
    async with beginning(way) as sender:
        told = Told()
        sender.begin(request(url, start_within_ms=start_within_ms), told)
        assert told.outcomes == []
        await told.once.wait()
    assert told.codes == [code]
    assert not told.outcomes[0].byte_left


async def test_one_ends_as_the_other_begins(way: str) -> None:
    """`done` may begin the next call, on the very connection."""
    async with Receiver(honest) as receiver, beginning(way) as sender:
        left = 20
        ended = asyncio.Event()

        def done(outcome: Outcome) -> None:
            nonlocal left
            assert outcome.status == 200
            left -= 1
            if left:
                sender.begin(request(receiver.url), done)
            else:
                ended.set()

        sender.begin(request(receiver.url), done)
        await ended.wait()
        assert len(receiver.hits) == 20


async def test_who_is_cut_is_told_nothing(way: str) -> None:
    async with Receiver(silent) as receiver, beginning(way) as sender:
        told = Told()
        calls = [sender.begin(request(receiver.url), told) for _ in range(3)]
        await until(lambda: len(receiver.hits) == 3)
        for call in calls:
            call.cut()
            call.cut()
        await until(lambda: sender.in_flight == 0)
        assert sender.sweep(monotonic_ms() * 2) == 0
        assert told.outcomes == []


async def test_who_is_cut_before_it_left_sends_nothing(way: str) -> None:
    async with Receiver(honest) as receiver, beginning(way) as sender:
        told = Told()
        for url in (receiver.url, "ftp://x/"):
            sender.begin(request(url), told).cut()
        await until(lambda: sender.in_flight == 0)
        await sender.send(request(receiver.url))
        assert (len(receiver.hits), told.outcomes) == (1, [])


async def test_a_cut_that_comes_late_cuts_nobody_else(way: str) -> None:
    async with Receiver(honest) as receiver, beginning(way) as sender:
        first, second = Told(), Told()
        call = sender.begin(request(receiver.url), first)
        await first.once.wait()
        sender.begin(request(receiver.url), second)
        call.cut()
        await second.once.wait()
        assert (second.codes, receiver.connections) == ([None], 1)


@pytest.mark.parametrize("way", ["as it is"])
async def test_nothing_arrives_after_a_cut(way: str) -> None:
    """Neither what the kernel holds, nor what it has yet to be given. What can only be awaited cannot promise that."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        loop = asyncio.get_running_loop()
        async with beginning(way) as sender:
            call = sender.begin(request(url, body=b"x" * LARGE_BYTES), Told())
            connection, _ = await loop.sock_accept(listener)
            with connection:
                arrived = await loop.sock_recv(connection, 1_000)
                call.cut()
                await until(lambda: sender.in_flight == 0)
                await asyncio.sleep(0)  # the loop closes it in its next turn
                with pytest.raises(ConnectionResetError):  # noqa: PT012 # what comes before the reset is of interest
                    while part := await loop.sock_recv(connection, LARGE_BYTES):
                        arrived += part
        assert 0 < len(arrived) < LARGE_BYTES


async def test_a_deadline_ends_it(way: str) -> None:
    async with Receiver(silent) as receiver, beginning(way) as sender:
        told = Told()
        sender.begin(request(receiver.url), told)
        await until(lambda: bool(receiver.hits))
        assert sender.sweep(monotonic_ms() + 60_000) == 1
        await told.once.wait()
    assert told.codes == ["timeout"]
    assert told.outcomes[0].byte_left


async def test_a_cancelled_send_is_cut(way: str) -> None:
    async with Receiver(silent) as receiver, beginning(way) as sender:
        send = asyncio.create_task(sender.send(request(receiver.url)))
        await until(lambda: bool(receiver.hits))
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        assert sender.in_flight == 0
