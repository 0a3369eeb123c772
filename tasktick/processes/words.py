"""What supervisor and processes say to each other: a line of JSON each, over a pair of sockets.

The end of the line is a word too: the supervisor's says that the process is gone, the process's that it is on its own.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec

from tasktick.settings import Config

LINE_BYTES_MAX = 8 * 1_048_576
# What the other has not taken yet. Beyond it, it does not read: what is said now is lost.
UNREAD_BYTES_MAX = 16 * 1_048_576


class Begin(msgspec.Struct, frozen=True, tag=True):
    """To the process, first: who it is, and what it was handed down, by descriptor."""

    config: Config
    name: str
    door: int
    gossip: tuple[int, int]
    lock: int
    is_first: bool
    """No other process of this supervisor lives: whoever had the folder before is dead. It greets, too."""


class Reload(msgspec.Struct, frozen=True, tag=True):
    """To the process: these are the settings now."""

    config: Config


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To the process: stop in order; so do all others."""


class Hurry(msgspec.Struct, frozen=True, tag=True):
    """To the process: no more grace."""


class Look(msgspec.Struct, frozen=True, tag=True):
    """To the process: another is dead, and the store says so. Its partitions are free."""


class Tell(msgspec.Struct, frozen=True, tag=True):
    """To the process: what are your metrics? Asked under this number."""

    number: int


class Pages(msgspec.Struct, frozen=True, tag=True):
    """To the process: what `Ask` asked for."""

    number: int
    page: str


class Born(msgspec.Struct, frozen=True, tag=True):
    """From the process: an incarnation that it is from now on, before the store hears of it."""

    incarnation: str


class Doing(msgspec.Struct, frozen=True, tag=True):
    """From the process: what it does now."""

    text: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the process: it serves."""


class Beat(msgspec.Struct, frozen=True, tag=True):
    """From the process: its event loop turns."""


class Told(msgspec.Struct, frozen=True, tag=True):
    """From the process: the metrics that it was asked for."""

    number: int
    page: str


class Ask(msgspec.Struct, frozen=True, tag=True):
    """From the process: what are the metrics of all?"""

    number: int


ToProcess = Begin | Reload | Stop | Hurry | Look | Tell | Pages
FromProcess = Born | Doing | Ready | Beat | Told | Ask
Heard = TypeVar("Heard")


class Line(Generic[Heard]):
    """One end of the pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: type[Heard]) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = msgspec.json.Decoder(heard)

    @classmethod
    async def open(cls, end: socket.socket, heard: type[Heard]) -> "Line[Heard]":
        """Speak over this socket, and hear words of this kind."""
        end.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=end, limit=LINE_BYTES_MAX)
        return cls(reader, writer, heard)

    def say(self, word: ToProcess | FromProcess) -> None:
        """Say it. It may be lost, if the other is gone or does not listen."""
        if not self._writer.is_closing() and self._writer.transport.get_write_buffer_size() < UNREAD_BYTES_MAX:
            self._writer.write(msgspec.json.encode(word) + b"\n")

    async def hear(self) -> Heard | None:
        """The next word; None if there is nobody any more."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        return self._decoder.decode(line) if line.endswith(b"\n") else None

    async def words(self) -> AsyncIterator[Heard]:
        """Every word, until there is nobody any more."""
        while (word := await self.hear()) is not None:
            yield word

    def close(self) -> None:
        """Say and hear nothing more."""
        self._writer.close()
