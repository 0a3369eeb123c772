"""Who has started a daemon, and what it was given: `alone`, by a person or systemd, or as one process of several."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from tasktick.notify import Supervisor, watchdog_ms
from tasktick.processes.sockets import bind
from tasktick.settings import Config

ADDRESS_FILE = "address"


class Hooks(msgspec.Struct, frozen=True):
    """What a daemon does when it is told to. None of it waits."""

    stop: Callable[[], None]
    hurry: Callable[[], None]
    reload: Callable[[], None]
    look: Callable[[], None]
    page: Callable[[], bytes]


class Host(Protocol):
    """What a daemon knows of where it runs."""

    beat_ms: float
    """How often to say `alive`."""
    folder_lock: int | None
    """The lock of the data folder, where somebody else has taken it."""
    gossip: tuple[socket.socket, socket.socket] | None
    """Where to gossip, where somebody else has bound it."""
    is_first: bool
    """Whether nobody else has the folder: who had it before is dead."""

    def status(self, text: str) -> None:
        """What it does now."""
        ...

    def ready(self, status: str) -> None:
        """Up, or done with reloading."""
        ...

    def reloading(self) -> None:
        """The settings are read anew."""
        ...

    def stopping(self, status: str) -> None:
        """On the way out."""
        ...

    def alive(self) -> None:
        """The event loop turns."""
        ...

    async def listen(self) -> None:
        """Do as the host tells, as long as it lives."""
        ...

    def attach(self, hooks: Hooks) -> None:
        """From now on, this is how to tell the daemon something."""
        ...

    def door(self, config: Config) -> socket.socket:
        """The socket that clients reach."""
        ...

    def born(self, incarnation: str) -> None:
        """This is who will claim."""
        ...

    def serves(self, url: str, data: Path) -> None:
        """Clients are served there."""
        ...

    def serves_no_more(self, data: Path) -> None:
        """They are not, any more."""
        ...

    async def metrics(self) -> bytes:
        """The page that Prometheus reads."""
        ...

    @property
    def others_serve(self) -> bool:
        """Whether clients that are turned away find somebody else at the same address."""
        ...


class Alone(Supervisor):
    """One process with nobody beside it. It tells systemd, if that has started it."""

    folder_lock: int | None = None
    gossip: tuple[socket.socket, socket.socket] | None = None
    is_first = True
    others_serve = False

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__(environment)
        self.beat_ms = watchdog_ms(environment)
        self._page: Callable[[], bytes] = bytes

    async def listen(self) -> None:
        """It tells by signals alone."""

    def attach(self, hooks: Hooks) -> None:
        self._page = hooks.page

    def door(self, config: Config) -> socket.socket:
        return bind(config)

    def born(self, incarnation: str) -> None:
        """Nobody waits for this process to write of it."""

    def serves(self, url: str, data: Path) -> None:
        leave_address(url, data)

    def serves_no_more(self, data: Path) -> None:
        forget_address(data)

    async def metrics(self) -> bytes:
        return self._page()


def leave_address(url: str, data: Path) -> None:
    """Leave the address where `tasktick ctl` looks."""
    draft = data / f"{ADDRESS_FILE}.new"  # whole or not at all: whoever finds it reads it at once
    draft.write_text(f"{url}\n")
    draft.replace(data / ADDRESS_FILE)


def forget_address(data: Path) -> None:
    """Nobody serves there any more."""
    (data / ADDRESS_FILE).unlink(missing_ok=True)
