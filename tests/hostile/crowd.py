"""A whole daemon among hostile receivers: what it costs those who call honest ones, and itself.

The daemon runs with its own settings and as verbose as it can be. Every hostile receiver has several calls under
way for the whole time, each with a secret in a header; the honest ones get a steady stream beside them.
"""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.chaos.dump import open_read_only, signing_secrets
from tests.chaos.process import ROOT
from tests.fakes.receivers import Behaviour, Receiver, respond
from tests.hostile.host import Place
from tests.ports import free_port

SECRET = "hush-3c1f0d5e7a9b"
HOSTILE_EVERY_S = 4.0
HOSTILE_TIMEOUT_S = 5.0
HONEST_EVERY_S = 0.5
AHEAD_S = 3.0
WARM_S = 5.0
SAMPLE_S = 0.5
READY_WITHIN_S = 30.0
QUIET_WITHIN_S = 90.0
# A second sweep must have taken up what the first could have missed.
PAST_LEASE_MS = 5_000
BATCH = 1_000
RUNNING = 4
FINISHED = 10


class Figures(msgspec.Struct, kw_only=True):
    """What was measured."""

    hostile: int
    honest: int
    expected: int
    lateness_ms: list[int]
    memory_before_bytes: int
    memory_peak_bytes: int
    files_before: int
    files_peak: int
    files_after: int
    past_lease: int
    unfinished: int
    attempts: dict[str, int]
    leaks: list[str]
    exit_code: int | None

    def late_ms(self, share: float) -> int:
        ordered = sorted(self.lateness_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    @property
    def growth_bytes(self) -> int:
        return self.memory_peak_bytes - self.memory_before_bytes

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"{self.hostile} hostile receivers beside {self.honest} honest ones",
            f"honest: {len(self.lateness_ms)} of {self.expected} calls, lateness p50 {self.late_ms(0.5)} ms,"
            f" p99 {self.late_ms(0.99)} ms, worst {self.late_ms(1)} ms",
            f"memory: {self.memory_before_bytes / 1e6:.1f} MB before, grew by at most {self.growth_bytes / 1e6:.1f} MB",
            f"files: {self.files_before} before, at most {self.files_peak}, {self.files_after} after",
            f"past their lease: {self.past_lease}, unfinished: {self.unfinished}, exit code {self.exit_code}",
            "attempts: " + ", ".join(f"{name} {count}" for name, count in sorted(self.attempts.items())),
            *[f"LEAK: {leak}" for leak in self.leaks],
        ]


class Crowd:
    """One run."""

    def __init__(self, hostile: int, honest: int, seconds: float, folder: Path, sender: str) -> None:
        self._hostile = hostile
        self._honest = honest
        self._seconds = seconds
        self._folder = folder
        self._sender = sender
        self._log = folder / "daemon.log"
        self._data = folder / "data"
        self._lateness_ms: list[int] = []
        self._samples: list[tuple[int, int]] = []
        self._past_lease = 0

    async def run(self) -> Figures:
        """Start everything, wait for the end of it, and look at what is left."""
        async with hostile_host(self._hostile, self._folder) as places, contextlib.AsyncExitStack() as stack:
            receivers = [await stack.enter_async_context(Receiver(self._timed())) for _ in range(self._honest)]
            daemon, url = await self._start()
            stack.callback(_end, daemon)
            key = (self._data / "operator.key").read_text().strip()
            session = await stack.enter_async_context(
                aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {key}"})
            )
            urls = [receiver.url for receiver in receivers]
            await self._create(session, self._stream(urls, WARM_S))
            await self._until(lambda: self._unfinished() == 0)
            await asyncio.sleep(WARM_S)  # idle connections are closed after four seconds
            before = _memory(daemon.pid), _files(daemon.pid)
            self._lateness_ms.clear()
            honest = self._stream(urls, self._seconds)
            await self._create(session, honest + self._harm(places))
            watcher = asyncio.create_task(self._watch(daemon.pid))
            await asyncio.sleep(AHEAD_S + self._seconds)
            await self._until(lambda: self._unfinished() == 0)
            await self._until(lambda: _files(daemon.pid) <= before[1])
            watcher.cancel()
            after = _files(daemon.pid)
            secrets = [SECRET, *await signing_secrets(session)]
            await session.close()
            daemon.send_signal(signal.SIGTERM)
            async with asyncio.timeout(READY_WITHIN_S):
                code = await daemon.wait()
        return Figures(
            hostile=len(places),
            honest=self._honest,
            expected=len(honest),
            lateness_ms=self._lateness_ms,
            memory_before_bytes=before[0],
            memory_peak_bytes=max(memory for memory, _ in self._samples),
            files_before=before[1],
            files_peak=max(files for _, files in self._samples),
            files_after=after,
            past_lease=self._past_lease,
            unfinished=self._unfinished(),
            attempts=self._attempts(),
            leaks=self._leaks(secrets),
            exit_code=code,
        )

    def _timed(self) -> Behaviour:
        async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                hit = await receiver.read_request(reader)
                self._lateness_ms.append(_now_ms() - msgspec.json.decode(hit.body)["due"])
                await receiver.write(writer, respond())

        return behave

    async def _start(self) -> tuple[asyncio.subprocess.Process, str]:
        port = free_port()
        environment = os.environ | {
            "SSL_CERT_FILE": str(self._folder / "authority.pem"),
            "TASKTICK_LOG__LEVEL": "debug",
            "TASKTICK_DISPATCH__SENDER": self._sender,
            "PYTHONPATH": str(ROOT),
        }
        where = ["--data", str(self._data), "--listen", f"127.0.0.1:{port}", "--allow-network", "127.0.0.0/8"]
        with self._log.open("ab") as log:
            daemon = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tasktick", "serve", *where, cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(READY_WITHIN_S), aiohttp.ClientSession(url) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get("/readyz") as answer:
                        if answer.status == 200:
                            return daemon, url
                assert daemon.returncode is None, self._log.read_text()
                await asyncio.sleep(0.05)

    def _stream(self, urls: list[str], for_s: float) -> list[dict[str, Any]]:
        """A call of each honest receiver twice a second, all of them spread evenly."""
        start = _now_ms() + round(AHEAD_S * 1_000)
        step_ms = HONEST_EVERY_S * 1_000 / len(urls)
        tasks = []
        for at in range(round(for_s * 1_000 / step_ms)):
            due = start + round(at * step_ms)
            tasks.append({"run_at": _text(due), "target": {"url": urls[at % len(urls)], "body": {"due": due}}})
        return tasks

    def _harm(self, places: list[Place]) -> list[dict[str, Any]]:
        start = _now_ms() + round(AHEAD_S * 1_000)
        tasks = []
        for turn in range(round(self._seconds / HOSTILE_EVERY_S)):
            for at, place in enumerate(places):
                due = start + round((turn + at / len(places)) * HOSTILE_EVERY_S * 1_000)
                target = {
                    "url": place.url,
                    "timeout": HOSTILE_TIMEOUT_S,
                    "headers": {"Authorization": f"Bearer {SECRET}"},
                    "body": {"of": place.name},
                }
                retry = {"max_attempts": 2, "strategy": "fixed", "initial": 1, "jitter": 0}
                tasks.append({"run_at": _text(due), "name": place.name, "target": target, "retry": retry})
        return tasks

    async def _create(self, session: aiohttp.ClientSession, tasks: list[dict[str, Any]]) -> None:
        for at in range(0, len(tasks), BATCH):
            async with session.post("/v1/tasks/batch", json={"tasks": tasks[at : at + BATCH]}) as answer:
                found = await answer.json()
                refused = [one for one in found.get("data", [found]) if "error" in one or "id" not in one]
                assert not refused, refused[:3]

    async def _watch(self, pid: int) -> None:
        while True:
            self._samples.append((_memory(pid), _files(pid)))
            late = _now_ms() - PAST_LEASE_MS
            self._past_lease = max(self._past_lease, self._count("state = ? AND lease_until < ?", RUNNING, late))
            await asyncio.sleep(SAMPLE_S)

    async def _until(self, condition: Any) -> None:
        """Wait for it, or until nobody would wait any more: what is left is in the figures."""
        give_up = time.monotonic() + QUIET_WITHIN_S
        while not condition() and time.monotonic() < give_up:  # noqa: ASYNC110 # another process tells nobody
            await asyncio.sleep(SAMPLE_S)

    def _unfinished(self) -> int:
        return self._count("state < ?", FINISHED)

    def _count(self, where: str, *values: int) -> int:
        rows = self._rows(f"SELECT count(*) FROM tasks WHERE {where}", *values)
        return int(rows[0][0])

    def _attempts(self) -> dict[str, int]:
        return dict(
            self._rows("SELECT coalesce(error_code, state || ' ' || status), count(*) FROM attempts GROUP BY 1")
        )

    def _rows(self, sql: str, *values: int) -> list[Any]:
        connection: sqlite3.Connection = open_read_only(next(self._data.glob("*.db")))
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def _leaks(self, secrets: list[str]) -> list[str]:
        """Secrets where nobody may find them, and errors that nobody expected."""
        log = self._log.read_text(errors="replace")
        said = [text for (text,) in self._rows("SELECT DISTINCT error_detail FROM attempts") if text]
        leaks = [f"a secret in the log: {line[:200]}" for line in log.splitlines() for one in secrets if one in line]
        leaks += [f"a secret in an error: {text}" for text in said for one in secrets if one in text]
        return leaks + [f"in the log: {line[:200]}" for line in log.splitlines() if "Traceback" in line][:5]


@asynccontextmanager
async def hostile_host(count: int, folder: Path) -> AsyncIterator[list[Place]]:
    """Hostile receivers in a process of their own."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "tests.hostile.host", str(count), str(folder)]
    host = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, limit=1 << 22)
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        yield msgspec.json.decode(await host.stdout.readline(), type=list[Place])
    finally:
        host.stdin.close()
        try:
            async with asyncio.timeout(10):
                await host.wait()
        except TimeoutError:
            host.kill()


def _end(daemon: asyncio.subprocess.Process) -> None:
    if daemon.returncode is None:
        daemon.kill()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _memory(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def _files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
