"""A peer as a contender: its programs are children whose standard input is a pipe of ours, so that they end with us."""

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

from bench import processes
from bench.create import BULK_CALLERS, BULK_TASKS, CALLERS
from bench.figures import per_second
from bench.peers.catalogue import Peer
from bench.peers.install import PLACE, interpreter, reason_in
from bench.peers.load import Load
from bench.peers.servers import Server
from bench.processes import cpu_seconds_of_all

PROGRAMS = Path(__file__).parent / "programs"
READY_SECONDS_MAX = 60
FILL_SECONDS_MAX = 600


class PeerSite:
    """A peer with its tables made."""

    def __init__(self, peer: Peer, server: Server, log: Path) -> None:
        self._peer, self._server, self._log = peer, server, log
        self._worker: subprocess.Popen[bytes] | None = None
        self._ask("prepare", {}, READY_SECONDS_MAX)

    def start(self) -> int:
        """Start its worker."""
        self._worker = self._begin("work", {})
        self._said(self._worker, "work", READY_SECONDS_MAX)
        return self._worker.pid

    def stop(self) -> None:
        """At once: what it has in hand is of no use any more, and putting it back can take minutes."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait(processes.END_SECONDS)
            self._worker = None

    def fill(self, load: Load) -> None:
        """By its client."""
        self._ask("fill", load.as_options(), FILL_SECONDS_MAX)

    def stock(self, load: Load) -> None:
        """Its client needs no worker."""
        self.fill(load)

    def waiting(self) -> int:
        """As the catalogue asks."""
        return sum(self._server.number(question) for question in self._peer.waiting)

    def create(self, load: Load, seconds: float, *, bulk: bool) -> float | None:
        """By its client, one process with so many callers."""
        if bulk and not self._peer.bulk:
            return None
        how = {"callers": BULK_CALLERS, "per_call": BULK_TASKS} if bulk else {"callers": CALLERS, "per_call": 1}
        options = {**load.as_options(), "seconds": seconds, **how}
        said = self._ask("create", options, seconds + READY_SECONDS_MAX)
        if (there := self.waiting()) != said["created"]:
            raise RuntimeError(f"{said['created']} jobs were acknowledged, {there} are there")
        return per_second(said["timed"], said["seconds"])

    def database_cpu_seconds(self) -> float | None:
        """All processes of the server."""
        return cpu_seconds_of_all(self._server.pid)

    def _begin(self, verb: str, options: dict[str, Any]) -> "subprocess.Popen[bytes]":
        command = [str(interpreter(self._peer)), str(PROGRAMS / self._peer.program), verb]
        # A Python program takes from us how it learns that its parent is gone.
        environment = {"PYTHONPATH": str(processes.ROOT), "PYTHONDONTWRITEBYTECODE": "1", "NODE_ENV": "production"}
        # Its programs lie beside one another, and not where ours are found.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, json.dumps({"store": self._server.address, **options})],
                cwd=PLACE / self._peer.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**inherited, **environment},
            )

    def _ask(self, verb: str, options: dict[str, Any], seconds_max: float) -> dict[str, Any]:
        process = self._begin(verb, options)
        try:
            return self._said(process, verb, seconds_max)
        finally:
            processes.end(process)

    def _said(self, process: "subprocess.Popen[bytes]", verb: str, seconds_max: float) -> dict[str, Any]:
        """The one line that a program says, within so long."""
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], seconds_max)[0]:
            raise RuntimeError(f"{verb} said nothing for {seconds_max:.0f} s; {self._last_words()}")
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{verb} failed: {self._last_words()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        return reason_in(self._log.read_text(errors="replace"))
