"""The connections that wait for another request, and the room that there is for more.

Idle ones are kept by where they lead, the one used last on top: it is the least likely to have been given up by the
other side, and those below grow old and are closed. All there are, idle or not, are at most `connections_max`: one
that nobody uses makes room for one that somebody needs.
"""

import asyncio
from collections.abc import Callable

from tasktick.dispatch.request_bytes import Key
from tasktick.dispatch.wire import Wire


class Wires:
    """What is open."""

    def __init__(self, connections_max: int, keepalive_ms: int, monotonic: Callable[[], float]) -> None:
        self._max = connections_max
        self._keepalive_ms = keepalive_ms
        self._monotonic = monotonic
        self._idle: dict[Key, list[Wire]] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Open, or being opened.
        self._count = 0

    def take(self, key: Key, now_ms: float) -> Wire | None:
        """An idle one that leads there."""
        stack = self._idle.get(key)
        while stack:
            wire = stack.pop()
            if wire.transport is None:  # lost since
                continue
            if now_ms - wire.idle_since_ms <= self._keepalive_ms:
                return wire
            self.drop(wire)
        return None

    def keep(self, wire: Wire, now_ms: float) -> None:
        """It has served a request and may serve another."""
        wire.idle_since_ms = now_ms
        stack = self._idle.get(wire.key)
        if stack is None:
            self._idle[wire.key] = [wire]
        else:
            stack.append(wire)
        if self._timer is None:
            self._look_after(self._keepalive_ms)

    def drop(self, wire: Wire) -> None:
        """End it, if it has not been ended before."""
        connection, wire.connection = wire.connection, None
        if connection is not None:
            connection.close()
            self._count -= 1

    def has_room(self) -> bool:
        """Whether there is room for one more, maybe at the cost of an idle one."""
        return self._count < self._max or any(self._idle.values())

    def make_room(self) -> bool:
        """Room for one more, which is counted from now on; false if there is none."""
        while self._count >= self._max:
            oldest = next((stack.pop(0) for stack in self._idle.values() if stack), None)
            if oldest is None:
                return False
            self.drop(oldest)
        self._count += 1
        return True

    def give_room_back(self) -> None:
        """It was not opened after all."""
        self._count -= 1

    def close_idle(self) -> None:
        """End whatever nobody uses."""
        idle, self._idle = self._idle, {}
        for stack in idle.values():
            for wire in stack:
                self.drop(wire)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_after(self, ms: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(ms / 1_000, self._close_old)

    def _close_old(self) -> None:
        """End what has been idle for too long; look again when the next one will have been."""
        self._timer = None
        now_ms = self._monotonic()
        oldest_ms = now_ms
        for key, stack in list(self._idle.items()):
            old = 0
            while old < len(stack) and now_ms - stack[old].idle_since_ms >= self._keepalive_ms:
                self.drop(stack[old])
                old += 1
            del stack[:old]
            if stack:
                oldest_ms = min(oldest_ms, stack[0].idle_since_ms)
            else:
                del self._idle[key]
        if self._idle:
            self._look_after(max(1.0, self._keepalive_ms - (now_ms - oldest_ms)))
