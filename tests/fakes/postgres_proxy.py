"""A way to a PostgreSQL that can be closed, or swallow what is sent: it takes connections and never answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

CHUNK = 65_536


class PostgresProxy:
    """Forwards to the server's socket. A connection that was made while it swallowed stays dead for ever."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._open: list[asyncio.Event] = []
        self.port = 0
        self.swallows = False
        self.refuses = False
        self.attempts: list[float] = []
        """When somebody connected, whatever came of it, by the loop's clock."""
        self._greeting = 0
        self.greeting_most = 0
        """How many were at most between their connection and the server's first word."""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._taken, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def swallow(self) -> None:
        """From now on nothing goes through, on any connection; those that there are never speak again."""
        self.swallows = True
        for flows in self._open:
            flows.clear()
        self._open.clear()

    def heal(self) -> None:
        """New connections go through."""
        self.swallows = self.refuses = False

    def refuse(self) -> None:
        """Cut everything; who connects is cut at once."""
        self.refuses = True
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts.append(asyncio.get_running_loop().time())
        if self.refuses:
            writer.close()
            return
        self._writers.append(writer)
        if self.swallows:
            return
        self._greeting += 1
        self.greeting_most = max(self.greeting_most, self._greeting)
        flows = asyncio.Event()
        flows.set()
        self._open.append(flows)
        their_reader, their_writer = await asyncio.open_unix_connection(self._socket)
        self._writers.append(their_writer)
        for source, target, greets in ((reader, their_writer, False), (their_reader, writer, True)):
            task = asyncio.create_task(self._pass_on(source, target, flows, greets=greets))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, flows: asyncio.Event, *, greets: bool
    ) -> None:
        try:
            while data := await source.read(CHUNK):
                await flows.wait()
                if greets:
                    self._greeting -= 1
                    greets = False
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            if greets:
                self._greeting -= 1
            if flows.is_set():
                target.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in self._writers:
            writer.close()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def postgres_proxy(socket: Path) -> AsyncIterator[PostgresProxy]:
    """One that is open."""
    proxy = PostgresProxy(socket)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
