"""Two PostgreSQL servers, one of them the standby of the other, and the addresses by which they are reached.

The harness is what keeps them available: it fences the primary off, promotes the standby, moves the address, and makes
a new standby in the place of the server that was lost. Each server has a door, which can be shut, in front of its port;
besides there is one address that always leads to the primary.
"""

import asyncio
import signal
from types import TracebackType
from typing import Literal, Self

from tests.chaos.relay import Relay
from tests.chaos.ring_store import SERVER_SETTINGS
from tests.chaos.servers import Server

Replication = Literal["synchronous", "asynchronous"]
Manner = Literal["killed", "stopped", "frozen", "alive"]
MANNERS: tuple[Manner, ...] = ("killed", "stopped", "frozen", "alive")
CAUGHT_UP_WITHIN_S = 20.0
POLL_S = 0.02
STATE = """
SELECT count(*) FROM pg_stat_replication
WHERE state = 'streaming' AND replay_lsn IS NOT NULL AND sync_state = ANY ($1)
"""
SYNC_STATES = {"synchronous": ["sync", "quorum"], "asynchronous": ["async"]}
WAIT_FOR_STANDBY = (
    "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; ALTER SYSTEM SET synchronous_commit = '{level}'; "
    "SELECT pg_reload_conf()"
)


class Pair:
    """A primary and its standby."""

    def __init__(self, replication: Replication, level: str = "on") -> None:
        self.replication = replication
        self._level = level
        self.primary = Server(SERVER_SETTINGS)
        self._standby: Server | None = None
        self._old: list[Server] = []
        self._stream = Relay()
        self._doors: dict[int, Relay] = {}
        self._address = Relay()

    async def __aenter__(self) -> Self:
        for relay in (self._stream, self._address):
            await relay.__aenter__()
        try:
            self._address.point_to(self.primary.place)
            await self._open_door(self.primary)
            await self.attach()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for relay in (self._address, self._stream, *self._doors.values()):
            await relay.__aexit__(kind, error, trace)
        for server in (self._standby, self.primary, *self._old):
            if server is not None:
                server.remove()

    async def _open_door(self, server: Server) -> None:
        port = server.place[1]
        if port not in self._doors:
            self._doors[port] = await Relay().__aenter__()
        self._doors[port].point_to(server.place)

    def moved_url(self, database: str) -> str:
        """By the one address that is moved."""
        return f"postgresql://postgres@127.0.0.1:{self._address.port}/{database}"

    def many_url(self, database: str) -> str:
        """By both doors, of which one leads to the primary."""
        doors = ",".join(f"127.0.0.1:{door.port}" for door in self._doors.values())
        return f"postgresql://postgres@{doors}/{database}"

    async def attach(self, port: int | None = None) -> None:
        """Make a standby, in the place of who had this port, and wait until it follows."""
        self._stream.point_to(self.primary.place)
        link = f"primary_conninfo=host=127.0.0.1 port={self._stream.port} user=postgres application_name=standby"
        settings = (*SERVER_SETTINGS, link, "hot_standby=on")
        primary = self.primary
        self._standby = await asyncio.to_thread(lambda: Server(settings, upstream=primary, port=port))
        await self._open_door(self._standby)
        if self.replication == "synchronous":
            await self.primary.run_there(WAIT_FOR_STANDBY.format(level=self._level))
        give_up = asyncio.get_running_loop().time() + CAUGHT_UP_WITHIN_S
        while not await self.primary.ask(STATE, SYNC_STATES[self.replication]):
            assert asyncio.get_running_loop().time() < give_up, "the standby does not follow"
            await asyncio.sleep(POLL_S)

    def hold_back(self) -> None:
        """Let nothing of what is committed from now on reach the standby."""
        self._stream.hold_back()

    async def fail_over(self, manner: Manner) -> Server:
        """End the primary in this way, or only shut it off; the standby takes its place. Who it was."""
        lost, heir = self.primary, self._standby
        assert heir is not None
        if manner == "killed":
            lost.kill()
        elif manner == "frozen":
            lost.freeze()
        await self._fence(lost)
        if manner == "stopped":
            await asyncio.to_thread(lost.stop, signal.SIGQUIT)
        await heir.promote()
        self.primary, self._standby = heir, None
        self._address.point_to(heir.place)
        self._old.append(lost)
        if manner == "frozen":
            lost.thaw()
        return lost

    async def _fence(self, server: Server) -> None:
        """Nobody reaches it any more, and nothing of it gets out."""
        await asyncio.gather(self._address.cut(), self._stream.cut(), self._doors[server.place[1]].cut())

    async def replace(self, lost: Server) -> None:
        """A new standby in the place of the server that was lost."""
        self._old.remove(lost)
        await asyncio.to_thread(lost.remove)
        await self.attach(lost.place[1])
