"""The real daemon, as a process on a store of its own."""

import asyncio
import contextlib
import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from bench import processes
from bench.tasks import task
from tasktick.model.state import State
from tasktick.store.connect import raw_connection
from tasktick.store.database import FILE_NAME

READY_SECONDS_MAX = 60
LOOK_SECONDS = 0.005
BATCH_TASKS = 1_000
KEY_FILE = "operator.key"


class Daemon:
    """A process that serves."""

    def __init__(
        self, data: Path, store: str | None = None, *flags: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.port = free_port()
        self._log = (data.parent / f"{data.name}.log").open("ab")
        self.began = time.perf_counter()
        self.process = processes.start(
            "tasktick",
            "serve",
            *("--data", str(data), "--listen", f"127.0.0.1:{self.port}", "--allow-network", "127.0.0.0/8"),
            *(("--store", store) if store is not None else ()),
            *flags,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "TASKTICK_LOG__LEVEL": "warning", **(settings or {})},
        )

    def wait_until_ready(self) -> float:
        """Seconds from the start of the process until it says that it is ready."""
        while time.perf_counter() - self.began < READY_SECONDS_MAX:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/readyz")[0] == 200:
                    return time.perf_counter() - self.began
            time.sleep(LOOK_SECONDS)
        raise RuntimeError(f"the daemon did not become ready; its log is {self._log.name!s}")

    def call(self, method: str, path: str, body: bytes | None = None, tenant: str | None = None) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json"}
        if path.startswith("/v1/"):
            headers["Authorization"] = f"Bearer {self.key}"
        if tenant is not None:
            headers["TaskTick-Tenant"] = tenant
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @property
    def key(self) -> str:
        """The operator's."""
        return (self.data / KEY_FILE).read_text().strip()

    def create(self, url: str, times_ms: Sequence[int], tenant: str | None = None) -> None:
        """Tasks for these instants, by the batch call."""
        for at in range(0, len(times_ms), BATCH_TASKS):
            tasks = [task(url, time_ms, at + n) for n, time_ms in enumerate(times_ms[at : at + BATCH_TASKS])]
            status, answer = self.call("POST", "/v1/tasks/batch", msgspec.json.encode({"tasks": tasks}), tenant)
            if status != 200 or b'"error":{' in answer:
                raise RuntimeError(f"the daemon refused a batch: {status} {answer[:500]!r}")

    def scheduled(self) -> int:
        """How many tasks wait for their time, as the daemon says."""
        status, answer = self.call("GET", "/v1/stats")
        if status != 200:
            raise RuntimeError(f"the daemon gave no stats: {status} {answer[:500]!r}")
        return int(msgspec.json.decode(answer)["tasks"]["scheduled"])

    @property
    def cpu_seconds(self) -> float:
        """What it has cost so far, to the nanosecond; its threads last as long as it does."""
        return sum(processes.thread_seconds(self.process.pid))

    @property
    def resident_mb(self) -> float:
        """What it holds in memory."""
        return processes.resident_mb(self.process.pid)

    @property
    def resident_most_mb(self) -> float:
        """The most that it ever held in memory."""
        return processes.resident_mb(self.process.pid, "VmHWM:")

    def stop(self) -> None:
        """End it; it must do so in order."""
        code = processes.end(self.process)
        self._log.close()
        if code != 0:
            raise RuntimeError(f"the daemon ended with code {code}; its log is {self._log.name!s}")


class Ledger:
    """The store's file, read beside the daemon: what is recorded is what is committed there."""

    def __init__(self, data: Path) -> None:
        self._raw: Any = raw_connection(data / FILE_NAME, read_only=True)

    def succeeded(self) -> int:
        """Tasks recorded as succeeded, from the counts kept with each commit."""
        row = self._raw.execute(
            "SELECT coalesce(sum(tasks), 0) FROM settled_counts WHERE state = ?", (int(State.SUCCEEDED),)
        ).fetchone()
        return int(row[0])

    def running(self) -> int:
        """Tasks that are under way, by the index of those: few, where the counts are of many tenants."""
        row = self._raw.execute(f"SELECT count(*) FROM tasks WHERE state = {int(State.RUNNING)}").fetchone()
        return int(row[0])

    def rows(self) -> tuple[int, int]:
        """Succeeded tasks and succeeded attempts, counted over the tables."""
        tasks = self._raw.execute("SELECT count(*) FROM tasks WHERE state = ?", (int(State.SUCCEEDED),)).fetchone()
        attempts = self._raw.execute("SELECT count(*) FROM attempts WHERE state = 'succeeded'").fetchone()
        return int(tasks[0]), int(attempts[0])

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()


class ServerLedger:
    """The same of a store in a PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(asyncpg.connect(url))

    def _number(self, statement: str, *arguments: int) -> int:
        return int(self._loop.run_until_complete(self._connection.fetchval(statement, *arguments)))

    def succeeded(self) -> int:
        """Tasks recorded as succeeded, from the counts kept with each commit."""
        return self._number("SELECT coalesce(sum(tasks), 0) FROM settled_counts WHERE state = $1", int(State.SUCCEEDED))

    def running(self) -> int:
        """Tasks that are under way, by the index of those: few, where the counts are of many tenants."""
        return self._number(f"SELECT count(*) FROM tasks WHERE state = {int(State.RUNNING)}")

    def rows(self) -> tuple[int, int]:
        """Succeeded tasks and succeeded attempts, counted over the tables."""
        tasks = self._number("SELECT count(*) FROM tasks WHERE state = $1", int(State.SUCCEEDED))
        return tasks, self._number("SELECT count(*) FROM attempts WHERE state = 'succeeded'")

    def close(self) -> None:
        """Let go of the server."""
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


@contextmanager
def running(data: Path, store: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """A daemon that is ready, and is stopped afterwards."""
    daemon = Daemon(data, store, settings=settings)
    try:
        daemon.wait_until_ready()
        yield daemon
    except BaseException:
        processes.end(daemon.process)
        raise
    daemon.stop()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
