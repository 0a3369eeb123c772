"""Listens, and ends in order: `stop` takes no more, lets what is handled end within its grace, closes the rest."""

import asyncio
import socket

from tasktick.api.app import Api
from tasktick.api.express import assert_aiohttp_is_known
from tasktick.api.limits import LimitedServer, assert_c_parser
from tasktick.api.ports import Ports

BACKLOG = 1_024
STOP_GRACE_MS = 5_000


class ApiServer:
    """Listens, and answers."""

    def __init__(self, ports: Ports) -> None:
        assert_c_parser()
        assert_aiohttp_is_known()
        api = Api(ports)
        self._protocols = LimitedServer(api.handle, api, ports.config.server, api.new_request_id)
        self._listening: list[asyncio.Server] = []

    async def start(self, *doors: socket.socket) -> None:
        """Listen on sockets that are bound already."""
        loop = asyncio.get_running_loop()
        for door in doors:
            self._listening.append(await loop.create_server(self._protocols, sock=door, backlog=BACKLOG))

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens."""
        names = [one.getsockname() for server in self._listening for one in server.sockets]
        return [(str(name[0]), int(name[1])) for name in names]

    @property
    def open_connections(self) -> int:
        """How many clients are connected."""
        return self._protocols.open_connections

    def turn_away(self) -> None:
        """Listen no more; who is connected is answered and let go, and finds somebody else at the address."""
        for server in self._listening:
            server.close()
        self._protocols.pre_shutdown()

    async def stop(self, grace_ms: int = STOP_GRACE_MS) -> None:
        """Listen no more, let what is being handled end, close the rest."""
        for server in self._listening:
            server.close()
        self._protocols.pre_shutdown()
        await self._protocols.shutdown(grace_ms / 1_000)
        for server in self._listening:
            await server.wait_closed()
        self._listening.clear()
