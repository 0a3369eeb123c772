"""The databases of a round: each new and empty, with its defaults, and asked from outside what is in it."""

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import asyncpg

from bench import processes
from bench.peers.catalogue import Database
from bench.peers.install import redis_server
from tests.postgres import installed, own_cluster

START_SECONDS_MAX = 30
LOOK_SECONDS = 0.02
ANSWER_SECONDS_MAX = 30
# The oldest that is here is what distributions bring.
POSTGRES_VERSION = min(installed(), key=int)
Watch = Callable[[int], None]


class Server(Protocol):
    """A database."""

    address: str

    @property
    def pid(self) -> int:
        """Its first process."""

    def number(self, question: str) -> int:
        """The answer to a question of its own language that is one number."""


class Postgres:
    """A database on a cluster with its defaults."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self.pid = pid
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection | None = None

    def number(self, question: str) -> int:
        """Of a query."""
        if self._connection is None:
            self._connection = self._loop.run_until_complete(asyncpg.connect(self.address))
        answer = self._connection.fetchval(question, timeout=ANSWER_SECONDS_MAX)
        return int(self._loop.run_until_complete(answer))

    def close(self) -> None:
        """Let go of it."""
        if self._connection is not None:
            self._loop.run_until_complete(self._connection.close())
        self._loop.close()


class Redis:
    """On a socket in a folder, append-only, synced every second."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "redis.sock")
        program, environment = redis_server()
        options = ("--port 0", f"--unixsocket {self.address}", "--appendonly yes", "--appendfsync everysec")
        words = [word for option in (*options, f"--dir {folder}", "--save ''") for word in option.split()]
        self._process = subprocess.Popen(
            [program, *(word.strip("'") for word in words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        self.pid = self._process.pid
        until = time.monotonic() + START_SECONDS_MAX
        while not Path(self.address).is_socket():
            if self._process.poll() is not None or time.monotonic() > until:
                processes.end(self._process)
                raise RuntimeError("redis-server did not start")
            time.sleep(LOOK_SECONDS)

    def number(self, question: str) -> int:
        """Of a command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS_MAX)
            connection.connect(self.address)
            connection.sendall(f"{question}\r\n".encode())
            return number_in(connection.makefile("rb").readline())

    def close(self) -> None:
        """End it."""
        processes.end(self._process)


def number_in(answer: bytes) -> int:
    """A number as Redis says it."""
    if not answer.startswith(b":"):
        raise ValueError(f"Redis answered {answer[:200]!r}, not a number")
    return int(answer[1:])


@contextmanager
def serving(database: Database, watch: Watch) -> Iterator[Server]:
    """A server for one measurement."""
    if database == "Redis":
        folder = tempfile.mkdtemp(prefix="tasktick-redis-")
        try:
            redis = Redis(Path(folder))
            watch(redis.pid)
            try:
                yield redis
            finally:
                redis.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    with own_cluster(POSTGRES_VERSION) as cluster:
        pid = int((cluster.log.parent / "data" / "postmaster.pid").read_text().split()[0])
        watch(pid)
        postgres = Postgres(asyncio.run(cluster.new_database()), pid)
        try:
            yield postgres
        finally:
            postgres.close()
