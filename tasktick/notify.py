"""What a supervisor is told: systemd's notification protocol, one datagram a word. Without a supervisor, nothing.

The watchdog is fed by a loop like any other: an event loop that hangs feeds nothing, and systemd restarts it.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Protocol

from tasktick import logs
from tasktick.clock import supervisor_us

log = logs.get("notify")

SEND_TIMEOUT_S = 1.0
# Without a watchdog there is nothing to do; a loop rests for so long.
NEVER_MS = 86_400_000.0


class Supervisor:
    """Whoever started us, by `NOTIFY_SOCKET` (a path, or `@` and an abstract name); maybe nobody."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self, status: str) -> None:
        """Up, or done with reloading; `status` is what `systemctl status` shows."""
        self._say(f"READY=1\nSTATUS={_line(status)}")

    def reloading(self) -> None:
        """The settings are read anew; `ready` ends it."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={supervisor_us()}\nSTATUS=reading its settings")

    def stopping(self, status: str) -> None:
        """On the way out, by whoever's wish."""
        self._say(f"STOPPING=1\nSTATUS={_line(status)}")

    def status(self, text: str) -> None:
        """What it does now."""
        self._say(f"STATUS={_line(text)}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._say("WATCHDOG=1")

    def _say(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
                door.settimeout(SEND_TIMEOUT_S)
                door.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("supervisor_unreachable", error=str(error))


def _line(text: str) -> str:
    """One line: a second one would be a word of its own to the supervisor."""
    return " ".join(text.split())


def watchdog_ms(environment: Mapping[str, str]) -> float:
    """How often to feed the watchdog: twice in its time. `NEVER_MS` if it watches nobody, or somebody else.

    A single binary runs as the child of its unpacker, so the watched process may be our parent.
    """
    text = environment.get("WATCHDOG_USEC", "")
    watched = environment.get("WATCHDOG_PID", str(os.getpid()))
    if (
        not text.isascii()
        or not text.isdigit()
        or int(text) == 0
        or watched not in {str(os.getpid()), str(os.getppid())}
    ):
        return NEVER_MS
    return int(text) / 1_000 / 2


class Alive(Protocol):
    """Who is told that the event loop turns."""

    def alive(self) -> None: ...


class Watchdog:
    """The loop that says that the event loop turns."""

    name = "watchdog"

    def __init__(self, supervisor: Alive, every_ms: float) -> None:
        self.wake = asyncio.Event()
        self._supervisor = supervisor
        self._every_ms = every_ms

    async def step(self) -> float:
        """Feed it once."""
        if self._every_ms < NEVER_MS:
            self._supervisor.alive()
        return self._every_ms
