"""PostgreSQL servers of the harness: in a namespace or on loopback, alone or as the standby of another.

They are tests' clusters (`tests.postgres`) that TCP reaches too, and that die with the harness. What the harness itself
asks of them goes by the socket in their folder, which no cut reaches.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import asyncpg

from tests import postgres
from tests.chaos.network import ALL_ADDRESSES, WITH_US, Host
from tests.ports import free_port

PORT = 5_432
# As durable against the death of processes as a real one; no disk is cut here.
SETTINGS = (
    "max_connections=200",
    "shared_buffers=32MB",
    "wal_keep_size=256MB",
    "fsync=on",
    "wal_sync_method=fdatasync",
)
PROMOTED_WITHIN_S = 30


def version() -> str | None:
    """The version that suites run on: the oldest there is; None if there is none."""
    return min(postgres.installed(), key=int, default=None)


def trouble() -> str | None:
    """Why no server can be started here; None if one can."""
    if version() is None:
        return "there is no PostgreSQL here (Debian: postgresql; pip: the group dev)"
    if shutil.which(WITH_US[0]) is None:
        return f"there is no {WITH_US[0]} here (Debian: util-linux)"
    return None


class Server(postgres.Cluster):
    """A server that TCP reaches."""

    def __init__(
        self,
        settings: tuple[str, ...] = (),
        *,
        host: Host | None = None,
        upstream: "Server | None" = None,
        port: int | None = None,
    ) -> None:
        found = version()
        assert found is not None, trouble()
        self.place = ("127.0.0.1", port or free_port()) if host is None else (host.address, PORT)
        self._host = host
        self._upstream = upstream
        address, port = self.place
        super().__init__(found, (*SETTINGS, *settings, f"listen_addresses={address}", f"port={port}"))

    def _make_data(self) -> None:
        if self._upstream is None:
            super()._make_data()
            with (self._data / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {ALL_ADDRESSES} trust\n")
        else:
            source = ("-h", str(self._upstream._folder), "-p", str(self._upstream.place[1]), "-U", "postgres")
            self._tool("pg_basebackup", *source, "-D", str(self._data), "-X", "stream", "-c", "fast", "-R")

    def _begin(self, command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        def begin() -> subprocess.Popen[bytes]:
            return postgres.Cluster._begin(self, [*WITH_US, *command], log)

        return begin() if self._host is None else self._host.namespace.run(begin)

    def url(self, database: str) -> str:
        return f"{super().url(database)}&port={self.place[1]}"

    def far_url(self, url: str) -> str:
        """How a client reaches by TCP what the harness reaches by this URL."""
        address, port = self.place
        return f"postgresql://postgres@{address}:{port}/{url.partition('@/')[2].partition('?')[0]}"

    async def ask(self, statement: str, *arguments: Any) -> Any:
        """One value from the database that is always there."""
        connection = await asyncpg.connect(self.url("postgres"), statement_cache_size=0)
        try:
            return await connection.fetchval(statement, *arguments)
        finally:
            await connection.close()

    async def run_there(self, statements: str) -> None:
        """Run statements one by one, outside of a transaction."""
        connection = await asyncpg.connect(self.url("postgres"), statement_cache_size=0)
        try:
            for statement in statements.split(";"):
                await connection.execute(statement)
        finally:
            await connection.close()

    async def promote(self) -> None:
        """Make a standby a primary."""
        assert await self.ask("SELECT pg_promote(true, $1)", PROMOTED_WITHIN_S), "it was not promoted in time"

    def kill(self) -> None:
        """End it and all of its processes, as a machine does that loses its power."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait(postgres.START_DEADLINE_S)

    def freeze(self) -> None:
        """Hold it and all of its processes."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        for pid in reversed(self._pids()):
            os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        """Its own, which it started them all, and theirs."""
        assert self._process is not None
        own = self._process.pid
        return [own, *map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())]
