"""The sender that writes requests itself: one piece of bytes to a connection, one answer from it.

Where a connection is idle, `begin` makes the bytes, looks at the clock and writes; there is no task, no future and no
timer for a request. Where there is none, a task dials one through aiohttp's connector: a few of these a turn of the
loop, since each costs more than the request, and those with a connection are not to wait for all that have none.
`sweep`, called by the dispatcher's loop, ends whatever is past its deadline.

Guarded here: one call writes one request, once; nothing is written past the time to start; no redirects, no proxies,
no cookies, no decompression, at most `BODY_BYTES_MAX` of an answer's body kept.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast

from aiohttp import ClientRequest, ClientTimeout
from aiohttp.abc import AbstractResolver

from tasktick.dispatch import answer_reader
from tasktick.dispatch.answer import kept_of_raw, outcome
from tasktick.dispatch.attempt import Done
from tasktick.dispatch.connector import GuardedConnector, SystemResolver
from tasktick.dispatch.failure import failure_of, refused_target
from tasktick.dispatch.guard import AddressPolicy
from tasktick.dispatch.outcome import (
    BAD_TARGET,
    CONNECT_TIMEOUT,
    INTERNAL,
    NEVER_MS,
    RESET,
    TIMEOUT,
    TOO_LATE,
    Failure,
    Outcome,
    Request,
)
from tasktick.dispatch.request_bytes import BadTarget, request_bytes, target_of
from tasktick.dispatch.sender import SenderLimits, sent, spawn_here
from tasktick.dispatch.tls import system_context
from tasktick.dispatch.wire import Pending, Wire, WireCall
from tasktick.dispatch.wires import Wires
from tasktick.service import Spawner

# Connections that a turn of the loop begins to make: some half a millisecond.
DIALS_PER_TURN = 4


class WireSender:
    """Sends requests. Made outside the loop, started and closed inside it."""

    def __init__(
        self,
        policy: AddressPolicy,
        monotonic: Callable[[], float],
        limits: SenderLimits | None = None,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        spawn: Spawner = spawn_here,
    ) -> None:
        self._policy = policy
        self._monotonic = monotonic
        self._limits = limits or SenderLimits()
        self._resolver = resolver
        self._tls = tls
        self._spawn = spawn
        self._connector: GuardedConnector | None = None
        self._timeout = ClientTimeout(total=None, sock_connect=self._limits.connect_timeout_ms / 1_000)
        self._wires = Wires(self._limits.connections_max, self._limits.keepalive_ms, monotonic)
        self._calls: set[WireCall] = set()
        self._waiting: deque[WireCall] = deque()
        # There is room for their connections, which are made in turn.
        self._to_dial: deque[WireCall] = deque()
        self._will_dial = False
        self._is_serving = False
        self._sweep_after_ms = NEVER_MS

    @property
    def in_flight(self) -> int:
        """Requests that have begun and not ended."""
        return len(self._calls)

    @property
    def connecting(self) -> int:
        """Requests that wait for their connection to be begun."""
        return len(self._to_dial)

    async def start(self) -> None:
        """Open the pool, and make sure that what it stands on is as we know it."""
        answer_reader.check()
        limits = self._limits
        self._resolver = self._resolver or SystemResolver()
        self._connector = GuardedConnector(
            self._policy,
            self._resolver,
            lambda: Wire(self),
            limit=limits.connections_max,
            ssl=self._tls or system_context(),
            ttl_dns_cache=limits.dns_cache_ms // 1_000,
        )

    def obey(self, policy: AddressPolicy) -> None:
        """Call by this policy from now on."""
        self._policy = policy
        self._wires.close_idle()
        if self._connector is not None:
            self._connector.obey(policy)

    async def close(self) -> None:
        """Close every connection. Whoever still sends is cut off."""
        connector, self._connector = self._connector, None
        self._wires.close_idle()
        self._waiting.clear()
        self._to_dial.clear()
        pending = [call.pending for call in self._calls if call.pending is not None]
        dials = [one.dial for one in pending if one.dial is not None]
        for call in list(self._calls):
            self._end(call, RESET if call.wire is not None else INTERNAL)
        await asyncio.gather(*dials, return_exceptions=True)
        if connector is not None:
            await connector.close()
        if self._resolver is not None:
            await self._resolver.close()

    def sweep(self, monotonic_ms: float) -> int:
        """End every call past its deadline; how many that were."""
        if monotonic_ms < self._sweep_after_ms:
            return 0
        over = []
        next_ms = NEVER_MS
        for call in self._calls:
            limit_ms = call.limit_ms
            if limit_ms <= monotonic_ms:
                over.append(call)
            elif limit_ms < next_ms:
                next_ms = limit_ms
        self._sweep_after_ms = next_ms
        for call in over:
            self._end(call, TIMEOUT if call.wire is not None else _unconnected(call))
        return len(over)

    async def send(self, request: Request) -> Outcome:
        """Make one request. Raises nothing but CancelledError, and that only if we are cancelled."""
        return await sent(self.begin, request)

    def begin(self, request: Request, done: Done) -> WireCall:
        """Start one request; on an idle connection it is written now. `done` is told later, by the loop."""
        call = WireCall(self, request, done)
        self._calls.add(call)
        try:
            target = target_of(request.method, request.url)
            data = request_bytes(target, request)
        except ValueError as error:
            return self._refuse(call, self._monotonic(), self._fault_of(request.url, error))
        call.started_ms = now_ms = self._monotonic()
        if now_ms > request.start_by_ms:
            return self._refuse(call, now_ms, TOO_LATE)
        wire = self._wires.take(target.key, now_ms)
        if wire is not None:
            call.limit_ms = limit_ms = request.deadline_ms
            call.wire = wire
            wire.ask(call, data, target.has_body)
        elif self._connector is not None:
            call.limit_ms = limit_ms = min(request.deadline_ms, request.start_by_ms)
            call.pending = Pending(target, data)
            self._connect(call, call.pending)
        else:
            return self._refuse(call, now_ms, INTERNAL)
        if limit_ms < self._sweep_after_ms:
            self._sweep_after_ms = limit_ms
        return call

    def cut(self, call: WireCall) -> None:
        """End it at once; nobody is told."""
        if call not in self._calls:
            return
        self._calls.discard(call)
        wire, pending = call.wire, call.pending
        if wire is not None:
            wire.call = None
            wire.cut_off()
            self._drop(wire)
        elif pending is not None and pending.dial is not None:
            pending.dial.cancel()

    # What a wire tells.

    def ended(self, wire: Wire, call: WireCall) -> None:
        """The call has its answer, or will have none."""
        self._calls.discard(call)
        reader = wire.reader
        now_ms = self._monotonic()
        ended = _outcome(call, reader.anomaly, now_ms)
        try:
            if reader.may_stay and not wire.has_unsent:
                self._keep(wire, now_ms)
            else:
                if reader.anomaly is not None or reader.truncated or wire.has_unsent:
                    wire.abort()
                self._drop(wire)
        finally:  # whatever becomes of the connection, who waits for this call is told
            call.done(ended)

    def lost(self, wire: Wire) -> None:
        """It is of no more use."""
        wire.abort()
        self._drop(wire)

    # How calls come to a wire that is not there yet.

    def _connect(self, call: WireCall, pending: Pending) -> None:
        """Dial when it is its turn, or wait until there is room for that."""
        if not self._wires.make_room():
            self._waiting.append(call)
            return
        pending.is_queued = True
        self._to_dial.append(call)
        self._dial_soon()

    def _dial_soon(self) -> None:
        if self._to_dial and not self._will_dial:
            self._will_dial = True
            asyncio.get_running_loop().call_soon(self._dial_some)

    def _dial_some(self) -> None:
        """Begin to make a few connections; whoever finds one that has become idle meanwhile takes that."""
        self._will_dial = False
        begun = 0
        while self._to_dial and begun < DIALS_PER_TURN:
            call = self._to_dial.popleft()
            pending = call.pending
            if pending is None or call not in self._calls:  # it has ended meanwhile
                self._wires.give_room_back()
                continue
            now_ms = self._monotonic()
            if now_ms > call.request.start_by_ms:  # nobody has swept it yet
                self._wires.give_room_back()
                self._end(call, TOO_LATE)
                continue
            pending.is_queued = False
            wire = self._wires.take(pending.target.key, now_ms)
            if wire is not None:
                self._wires.give_room_back()
                self._start(call, pending, wire)
                continue
            begun += 1
            pending.dial = dial = self._spawn(self._dial(call, pending), "dial")
            dial.add_done_callback(self._dialled)
        self._dial_soon()
        if self._waiting:
            self._serve_waiting()

    async def _dial(self, call: WireCall, pending: Pending) -> None:
        assert self._connector is not None
        try:
            asked = ClientRequest("GET", pending.target.url, loop=asyncio.get_running_loop())
            connection = await self._connector.connect(asked, [], self._timeout)
        except Exception as error:  # noqa: BLE001 # whatever it is, the attempt has ended, and its row says how
            pending.dial = None
            self._wires.give_room_back()
            self._end(call, self._fault_of(call.request.url, error))
            return
        wire = cast(Wire, connection.protocol)
        wire.join(connection, pending.target.key)
        self._start(call, pending, wire)

    def _dialled(self, dial: "asyncio.Task[None]") -> None:
        if dial.cancelled():
            self._wires.give_room_back()
        self._serve_waiting()

    def _start(self, call: WireCall, pending: Pending, wire: Wire) -> None:
        """There is a connection for one that had to wait, maybe for too long."""
        call.pending = None
        now_ms = self._monotonic()
        if call not in self._calls:
            self._keep(wire, now_ms)
        elif now_ms > call.request.start_by_ms:
            self._keep(wire, now_ms)
            self._end(call, CONNECT_TIMEOUT)
        else:
            call.limit_ms = call.request.deadline_ms
            call.wire = wire
            wire.ask(call, pending.data, pending.target.has_body)

    def _serve_waiting(self) -> None:
        """Something has ended; who has waited longest is next."""
        if self._is_serving:  # whom this is told of is looked at there
            return
        self._is_serving = True
        try:
            self._serve()
        finally:
            self._is_serving = False

    def _serve(self) -> None:
        waiting = self._waiting
        while waiting:
            call = waiting[0]
            pending = call.pending
            if pending is None or call not in self._calls:  # it has ended meanwhile
                waiting.popleft()
                continue
            wire = self._wires.take(pending.target.key, self._monotonic())
            if wire is not None:
                waiting.popleft()
                self._start(call, pending, wire)
            elif self._wires.has_room():
                waiting.popleft()
                self._connect(call, pending)
            else:
                return

    # How they come to their end.

    def _refuse(self, call: WireCall, now_ms: float, failure: Failure) -> WireCall:
        """Nothing of it leaves; whoever began it is told when that has returned."""
        call.started_ms, call.limit_ms = now_ms, NEVER_MS
        asyncio.get_running_loop().call_soon(self._end, call, failure)
        return call

    def _end(self, call: WireCall, failure: Failure) -> None:
        """End a call before it has its answer, if it has not ended before."""
        if call not in self._calls:
            return
        if call.wire is not None:
            call.wire.reader.give_up()
        ended = _outcome(call, failure, self._monotonic())
        self.cut(call)
        call.done(ended)

    def _keep(self, wire: Wire, now_ms: float) -> None:
        if wire.judged_by is self._policy and wire.transport is not None:
            self._wires.keep(wire, now_ms)
        else:
            self._wires.drop(wire)
        if self._waiting:
            self._serve_waiting()

    def _drop(self, wire: Wire) -> None:
        self._wires.drop(wire)
        if self._waiting:
            self._serve_waiting()

    def _fault_of(self, url: str, error: Exception) -> Failure:
        if isinstance(error, TimeoutError):
            return CONNECT_TIMEOUT
        failure = BAD_TARGET if isinstance(error, BadTarget) else failure_of(error)
        return refused_target(url, self._policy, failure)


def _unconnected(call: WireCall) -> Failure:
    """Whose connection was begun has asked the receiver; whose turn has not come is late by us alone."""
    return TOO_LATE if call.pending is not None and call.pending.is_queued else CONNECT_TIMEOUT


def _outcome(call: WireCall, failure: Failure | None, now_ms: float) -> Outcome:
    wire = call.wire
    if wire is None:
        return outcome(failure, call.started_ms, now_ms)
    reader = wire.reader
    if reader.status is None:
        return outcome(failure, call.started_ms, now_ms, byte_left=True)
    return outcome(
        None,
        call.started_ms,
        now_ms,
        status=reader.status,
        headers=kept_of_raw(reader.headers),
        body=reader.body,
        truncated=reader.truncated,
        byte_left=True,
    )
