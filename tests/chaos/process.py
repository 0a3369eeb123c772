"""The daemon as a process: started, watched until it is ready, killed, and seen to be gone."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import aiohttp
import msgspec

from tests.chaos.history import Fault, FaultKind, HistoryWriter, Node, now_ms
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_POLL_S = 0.01
READY_WITHIN_S = 30.0
GONE_WITHIN_S = 20.0
ANSWER_WITHIN_S = 1.0
# Short leases and sweeps: a run of many faults must not spend its time waiting.
SETTINGS = {
    "TASKTICK_DISPATCH__START_DELAY_MS": "500",
    "TASKTICK_DISPATCH__LEASE_MARGIN_MS": "200",
    "TASKTICK_DISPATCH__GRACE_MAX_MS": "100",
    "TASKTICK_SCHEDULER__SWEEP_EVERY_MS": "200",
    "TASKTICK_SCHEDULER__NEAR_EVERY_MS": "200",
    "TASKTICK_SCHEDULER__FULL_EVERY_MS": "2000",
    "TASKTICK_LOG__LEVEL": "info",
}
START_DELAY_MS = 500
LEASE_MARGIN_MS = 200
SWEEP_EVERY_MS = 200


class Site(msgspec.Struct, frozen=True):
    """Where a daemon runs, and whom it may call."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    networks: str = "127.0.0.0/8"


LOOPBACK = Site()


class Process:
    """One start of the daemon."""

    def __init__(
        self,
        number: int,
        child: asyncio.subprocess.Process,
        place: tuple[str, int],
        history: HistoryWriter,
        name: str | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.started_at = now_ms()
        self.ready_at: int | None = None
        self._child = child
        self._place = place
        self._history = history
        self._gone = asyncio.ensure_future(child.wait())
        self._faults = 0

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return not self._gone.done()

    async def ready(self, within_s: float = READY_WITHIN_S) -> bool:
        """Wait until `/readyz` says 200; false if it ended, holds itself, or the time is over."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + within_s
        while self.alive and not _is_stopped(self.pid) and loop.time() < give_up:
            if await _answers_ready(*self._place):
                self.ready_at = now_ms()
                self._history.add(Node(self.ready_at, self.number, "ready", name=self.name))
                return True
            await asyncio.wait({self._gone}, timeout=READY_POLL_S)
        return False

    async def gone(self, within_s: float) -> bool:
        """Wait until it has ended, by itself or not; false if it has not in this time."""
        await asyncio.wait({self._gone}, timeout=max(0.0, within_s))
        return not self.alive

    async def strike(self, kind: FaultKind, number: signal.Signals, label: str | None = None) -> None:
        """Send a signal that ends it, and wait for the end."""
        at = now_ms()
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(number)
        if not await self.gone(GONE_WITHIN_S):
            self._child.kill()
            await self._gone
            raise AssertionError(f"node {self.number} was still there {GONE_WITHIN_S} s after {number.name}")
        self.write_off(kind, at, label)

    def write_off(self, kind: FaultKind | None, at: int | None = None, label: str | None = None) -> None:
        """Write down how it ended: by a fault that was begun at an instant (now, if it was its own), or by itself."""
        now = now_ms()
        if kind is not None:
            self._history.add(Fault(now if at is None else at, now, kind, self.number, label))
        self._history.add(Node(now, self.number, "exited", self._child.returncode, self.name))

    async def hold(self, for_s: float, label: str | None = None) -> None:
        """Hold it (SIGSTOP), unless it holds itself already; then let it go on."""
        at = now_ms()
        # It may be gone by then: somebody may kill what is held.
        with contextlib.suppress(ProcessLookupError):
            if label is None:
                self._child.send_signal(signal.SIGSTOP)
            await asyncio.sleep(for_s)
            self._child.send_signal(signal.SIGCONT)
        self._history.add(Fault(at, now_ms(), "stop", self.number, label))

    async def holds_itself(self, within_s: float) -> bool:
        """Wait until it has stopped itself; false if it has not in this time, or has ended."""
        give_up = asyncio.get_running_loop().time() + within_s
        while self.alive and asyncio.get_running_loop().time() < give_up:
            if _is_stopped(self.pid):
                return True
            await self.gone(READY_POLL_S)
        return False


def _is_stopped(pid: int) -> bool:
    try:
        # After the name of the program, which stands in brackets and may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


async def _answers_ready(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


class Daemons:
    """Starts of the daemon on one data folder and one port, one after the other; of one node of a ring, by its name."""

    def __init__(
        self,
        data: Path,
        history: HistoryWriter,
        log: Path,
        plant: str | None = None,
        *,
        may_send: bool = True,
        settings: Mapping[str, str] | None = None,
        name: str | None = None,
        site: Site = LOOPBACK,
    ) -> None:
        self.data = data
        self.site = site
        self.name = name
        self._settings = dict(settings or {})
        self._may_send = may_send
        self.port = free_port()
        self.url = f"http://{site.address}:{self.port}"
        self._history = history
        self._log: IO[bytes] = log.open("ab")
        self._plant = plant

    async def start(
        self, seam: str | None = None, passes: int = 1, *, hold: bool = False, arguments: Sequence[str] = ()
    ) -> Process:
        """Start one, armed or not, with more arguments than there always are."""
        environment = {**os.environ, **SETTINGS, **self._settings}
        if hold:
            environment["CHAOS_HOLD"] = "1"
        if seam is not None:
            environment |= {"CHAOS_SEAM": seam, "CHAOS_PASS": str(passes), "CHAOS_SEED": str(passes)}
        if self._plant is not None:
            environment["CHAOS_PLANT"] = self._plant
        number = self._history.number("node")
        command = [*self.site.prefix, sys.executable, *self._command(), *arguments]
        child = await _spawn(command, environment, self._log)
        process = Process(number, child, (self.site.address, self.port), self._history, self.name)
        gossips = self.name is None or "--gossip" in arguments
        started = Node(process.started_at, number, "started", name=self.name, gossips=gossips)
        self._history.add(msgspec.structs.replace(started, address=self.site.address))
        return process

    def _command(self) -> list[str]:
        where = ["--data", str(self.data), "--listen", f"{self.site.address}:{self.port}"]
        where += ["--public"] if self.site.address != LOOPBACK.address else []
        allowed = ["--allow-network", self.site.networks] if self._may_send else []
        return ["-m", "tests.chaos.armed", "serve", *where, *allowed]

    def key(self) -> str:
        """The operator's key, as the daemon left it."""
        return (self.data / "operator.key").read_text().strip()

    def session(self) -> aiohttp.ClientSession:
        """A client's connections: each its own, so that none dies of the daemon before; one call is one request."""
        session = aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {self.key()}"},
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
        )
        # A DELETE that is sent again by itself, and then not let in, would be written down as one that never was.
        assert session._retry_connection is True, "aiohttp's own re-send can no longer be switched off"
        session._retry_connection = False
        return session

    def close(self) -> None:
        self._log.close()


async def _spawn(command: list[str], environment: Mapping[str, str], log: IO[bytes]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
