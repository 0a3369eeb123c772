"""TaskTick as a contender: the daemon that works is also who is asked to make tasks, over HTTP."""

from pathlib import Path

from bench.create import BULK_TASKS, call
from bench.daemon import Daemon, Ledger, ServerLedger
from bench.figures import per_second
from bench.peers.load import Load
from bench.peers.servers import Server, Watch
from bench.processes import cpu_seconds_of_all


class OurSite:
    """A daemon on SQLite, or on a server."""

    def __init__(self, folder: Path, server: Server | None, watch: Watch) -> None:
        self._folder, self._server, self._watch = folder, server, watch
        self._running: Daemon | None = None
        self._ledger: Ledger | ServerLedger | None = None
        self._made = 0

    @property
    def _daemon(self) -> Daemon:
        if self._running is None:
            raise RuntimeError("the daemon does not run")
        return self._running

    def start(self) -> int:
        """Start the daemon."""
        self._running = Daemon(self._folder, self._server.address if self._server is not None else None)
        self._watch(self._running.process.pid)
        self._running.wait_until_ready()
        return self._running.process.pid

    def stop(self) -> None:
        """Stop it in order."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._running is not None:
            daemon, self._running = self._running, None
            daemon.stop()

    def fill(self, load: Load) -> None:
        """By the batch call."""
        self._daemon.create(load.url, load.times_ms)
        self._made += load.count

    def stock(self, load: Load) -> None:
        """Who takes tasks is the daemon."""
        self.start()
        self.fill(load)
        self.stop()

    def waiting(self) -> int:
        """What is not recorded as succeeded."""
        if self._ledger is None:
            self._ledger = Ledger(self._folder) if self._server is None else ServerLedger(self._server.address)
        return self._made - self._ledger.succeeded()

    def create(self, load: Load, seconds: float, *, bulk: bool) -> float | None:
        """By the callers of `make bench`, whose tasks are due next year."""
        del load
        self.start()
        said = call(self._daemon.port, self._daemon.key, seconds, bulk=bulk)
        made = said["answers"] * (BULK_TASKS if bulk else 1)
        if (there := self._daemon.scheduled()) != made:
            raise RuntimeError(f"{made} tasks were acknowledged, {there} are there")
        return per_second(made, said["seconds"])

    def database_cpu_seconds(self) -> float | None:
        """SQLite is in the daemon."""
        return None if self._server is None else cpu_seconds_of_all(self._server.pid)
