"""An address that can be moved: connections to it are passed on to whatever it points to, held back, or cut."""

import asyncio
import contextlib
import socket
from types import TracebackType

CHUNK_BYTES = 65_536
LINGER_NOT = b"\x01\x00\x00\x00\x00\x00\x00\x00"
Place = tuple[str, int]


class Relay:
    """Listens on loopback, and passes on."""

    def __init__(self, target: Place | None = None) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.port = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    def hold_back(self) -> None:
        """Pass nothing on until it points somewhere anew; a cut loses what is held."""
        self._open.clear()

    async def cut(self) -> None:
        """Reset every connection, and refuse others until it points somewhere."""
        self._target = None
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)

    def point_to(self, target: Place) -> None:
        """From now on, new connections go there."""
        self._target = target
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        ends = [writer]
        try:
            if self._target is not None:
                far_reader, far_writer = await asyncio.open_connection(*self._target)
                ends.append(far_writer)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, far_writer))
                    both.create_task(self._pass_on(far_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass  # one of the two ends is gone, or it was cut
        finally:
            self._serving.discard(task)
            for end in ends:
                connection = end.get_extra_info("socket")
                if connection is not None:  # it is gone otherwise
                    with contextlib.suppress(OSError):
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._open.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError("the other end has closed")
