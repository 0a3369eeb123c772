"""One process of several: what its supervisor hands down to it and tells it, and what it says back.

To the daemon it is the host. When the line ends, the supervisor is gone, and the process stops in order.
"""

import asyncio
import socket
from itertools import count
from pathlib import Path

from tasktick import logs
from tasktick.clock import Clock
from tasktick.errors import TaskTickError
from tasktick.processes.host import Hooks
from tasktick.processes.pages import merged
from tasktick.processes.sockets import adopt
from tasktick.processes.words import (
    Ask,
    Beat,
    Begin,
    Born,
    Doing,
    Hurry,
    Line,
    Look,
    Pages,
    Ready,
    Reload,
    Stop,
    Tell,
    Told,
    ToProcess,
)
from tasktick.settings import Config

log = logs.get("processes")

BEAT_MS = 1_000.0
# Longer than the supervisor waits for those that do not answer.
PAGES_TIMEOUT_MS = 2_000


def _nothing() -> None:
    return


class Orphaned(TaskTickError):
    """The supervisor has gone before it said what to do."""


class Child:
    """The process's side."""

    beat_ms = BEAT_MS

    def __init__(self, line: "Line[ToProcess]", begin: Begin, clock: Clock) -> None:
        self._line = line
        self._begin = begin
        self._clock = clock
        self._hooks = Hooks(_nothing, _nothing, _nothing, _nothing, bytes)
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._numbers = count()
        self._all_stop = False
        self.config = begin.config
        self.name = begin.name
        self.folder_lock: int | None = begin.lock
        exchanges, datagrams = begin.gossip
        self.gossip: tuple[socket.socket, socket.socket] | None = (adopt(exchanges), adopt(datagrams))
        self.is_first = begin.is_first

    @classmethod
    async def meet(cls, descriptor: int, clock: Clock) -> "Child":
        """Hear from the supervisor, over the line at this descriptor."""
        line: Line[ToProcess] = await Line.open(adopt(descriptor), ToProcess)  # type: ignore[arg-type] # a union
        begin = await line.hear()
        if not isinstance(begin, Begin):
            raise Orphaned("The supervisor has ended.")
        return cls(line, begin, clock)

    async def listen(self) -> None:
        """Do as told, until the line ends."""
        async for word in self._line.words():
            self._heard(word)
        log.warning("supervisor_gone", advice="this process stops; start TaskTick again")
        self._all_stop = False
        self._hooks.stop()

    def _heard(self, word: ToProcess) -> None:
        hooks = self._hooks
        match word:
            case Pages(number, page):
                asked = self._asked.pop(number, None)
                if asked is not None and not asked.done():
                    asked.set_result(page)
            case Reload(config):
                self.config = config
                hooks.reload()
            case Stop():
                self._all_stop = True
                hooks.stop()
            case Hurry():
                hooks.hurry()
            case Look():
                hooks.look()
            case Tell(number):
                self._line.say(Told(number, hooks.page().decode()))
            case Begin():
                log.error("supervisor_repeats_itself")

    def attach(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def reread(self) -> Config:
        """The settings as the supervisor read them last."""
        return self.config

    # ----------------------------------------------------------------------------------- what is said

    def status(self, text: str) -> None:
        self._line.say(Doing(text))

    def ready(self, status: str) -> None:
        self._line.say(Doing(status))
        self._line.say(Ready())

    def reloading(self) -> None:
        self._line.say(Doing("reading its settings"))

    def stopping(self, status: str) -> None:
        self._line.say(Doing(status))

    def alive(self) -> None:
        self._line.say(Beat())

    def born(self, incarnation: str) -> None:
        self._line.say(Born(incarnation))

    # ----------------------------------------------------------------------------------- what is shared

    def door(self, config: Config) -> socket.socket:
        """The one that all share; the settings have named it to the supervisor."""
        del config
        return adopt(self._begin.door)

    def serves(self, url: str, data: Path) -> None:
        """The address of all is the supervisor's to leave."""

    def serves_no_more(self, data: Path) -> None:
        """Others may serve on."""

    @property
    def others_serve(self) -> bool:
        """Those that are not told to stop as well."""
        return not self._all_stop

    async def metrics(self) -> bytes:
        """Those of all processes, by node; if the supervisor does not say, our own."""
        number = next(self._numbers)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._line.say(Ask(number))
        try:
            async with asyncio.timeout(PAGES_TIMEOUT_MS / 1_000):
                page = await answer
                return page.encode()
        except TimeoutError:
            return merged({self.name: self._hooks.page().decode()}).encode()
        finally:
            self._asked.pop(number, None)
