"""What every way of sending has in common: its numbers, and the two forms of a send built on each other."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from tasktick.dispatch.attempt import AwaitedSender, Call, Done
from tasktick.dispatch.outcome import Outcome, Request
from tasktick.service import Spawner


class SenderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The sender's numbers.

    Idle connections are closed sooner than common servers close theirs (5 s), since a request written
    as the other side closes is one whose fate nobody knows.
    """

    connections_max: int = 1_024
    connect_timeout_ms: int = 5_000
    keepalive_ms: int = 4_000
    dns_cache_ms: int = 10_000


def spawn_here(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
    """A task of the running loop, for a sender that is nobody's service. Whoever holds the call holds the task."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def sent(begin: Callable[[Request, Done], Call], request: Request) -> Outcome:
    """Begin one and wait for its end. Cancelling this cuts it."""
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def done(outcome: Outcome) -> None:
        if not ended.done():  # cancelled, and not yet woken up to cut it
            ended.set_result(outcome)

    call = begin(request, done)
    try:
        return await ended
    finally:
        call.cut()


class SpawnedCall:
    """A send in a task of its own."""

    __slots__ = ("_before_cut", "_is_cut", "_task")

    def __init__(
        self,
        spawn: Spawner,
        send: Callable[[Request], Coroutine[Any, Any, Outcome]],
        request: Request,
        done: Done,
        before_cut: Callable[["asyncio.Task[None]"], None] | None = None,
    ) -> None:
        self._is_cut = False
        self._before_cut = before_cut
        self._task = spawn(self._run(send, request, done), "send")

    async def _run(self, send: Callable[[Request], Coroutine[Any, Any, Outcome]], request: Request, done: Done) -> None:
        outcome = await send(request)
        if not self._is_cut:
            done(outcome)

    def cut(self) -> None:
        """End it at once; nobody is told."""
        self._is_cut = True
        if self._task.done():
            return
        if self._before_cut is not None:
            self._before_cut(self._task)
        self._task.cancel()


class SpawningSender:
    """Makes `begin` of a sender that can only be waited for, with a task for each request."""

    def __init__(self, sender: AwaitedSender, spawn: Spawner) -> None:
        self._sender = sender
        self._spawn = spawn

    @property
    def in_flight(self) -> int:
        """Requests that have begun and not ended."""
        return self._sender.in_flight

    @property
    def connecting(self) -> int:
        """Requests that wait for their connection to be begun: here each begins its own."""
        return 0

    def begin(self, request: Request, done: Done) -> Call:
        """Make one request in a task of its own."""
        return SpawnedCall(self._spawn, self._sender.send, request, done)

    async def send(self, request: Request) -> Outcome:
        """Make one request."""
        return await self._sender.send(request)

    def sweep(self, monotonic_ms: float) -> int:
        """End every request past its deadline; how many that were."""
        return self._sender.sweep(monotonic_ms)
