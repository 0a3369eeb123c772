"""The supervisor of several processes: it binds, starts, hears, restarts and stops them. It fires nothing itself.

Start: the lock of the data folder, the API's address (listening from here on), the gossip ports; the first process
alone, since a first start makes keys and migrates; then the others, at once. READY is said when all serve.

Stop, on SIGTERM or SIGINT: all are told at once, each stops in its own order and has its grace. What is still there
long after is killed. A second signal takes the grace away. SIGHUP reads the settings and hands them on.

The watchdog is fed as long as every process is heard from. One that is silent for long is killed and started again,
which is sooner than to start all anew.
"""

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import IO

import msgspec

from tasktick import __version__, logs, reload
from tasktick.clock import SystemClock
from tasktick.errors import ConfigError, ServiceCrashed, StoreError
from tasktick.notify import Supervisor as Systemd
from tasktick.notify import Watchdog, watchdog_ms
from tasktick.processes.host import forget_address, leave_address
from tasktick.processes.pages import merged, own_page
from tasktick.processes.process import Boss, Place, SupervisedProcess
from tasktick.processes.restarts import Around
from tasktick.processes.sockets import BACKLOG, GossipPair, bind, open_all_gossip, url_of
from tasktick.processes.terminal import Terminal
from tasktick.processes.words import Hurry, Look, Pages, Reload, Stop
from tasktick.service import Services
from tasktick.settings import Config, check_listen
from tasktick.store.database import lock_file
from tasktick.store.deaths import Deaths
from tasktick.store.postgres_database import LOCK_NAME

log = logs.get("processes")

EXIT_OK = 0
EXIT_FAILED = 1
LOOK_MS = 1_000.0
# A process that has not been heard for so many looks is not going on. A machine that sleeps does not look either.
SILENT_LOOKS_MAX = 30
# Beyond the grace: the last writes, and what a loaded machine takes.
STOP_SPARE_MS = 15_000
SAME_SIGNAL_MS = 300
PAGES_WAIT_MS = 1_000


class Watch:
    """The loop that looks whether every process is heard from."""

    name = "watch"

    def __init__(self, processes: Sequence[SupervisedProcess]) -> None:
        self.wake = asyncio.Event()
        self._processes = processes

    @property
    def all_heard(self) -> bool:
        """Whether there is no process that says nothing for long."""
        return all(one.silent_looks <= SILENT_LOOKS_MAX for one in self._processes if one.is_up)

    async def step(self) -> float:
        """Look once."""
        for one in self._processes:
            if not one.is_up:
                continue
            one.silent_looks += 1
            if one.silent_looks >= SILENT_LOOKS_MAX:
                log.error("process_silent", node=one.name, looks=one.silent_looks, doing=one.doing)
                one.kill()
        return LOOK_MS


class Fed(Systemd):
    """Systemd, whose watchdog is fed for all."""

    watch: Watch | None = None

    def alive(self) -> None:
        if self.watch is None or self.watch.all_heard:
            super().alive()


class Supervisor:
    """What holds the processes together."""

    def __init__(self, config: Config, reread: Callable[[], Config], command: Sequence[str]) -> None:
        self._config = config
        self._reread = reread
        self._command = command
        self._terminal = Terminal()
        self._data = Path(config.store.data)
        self.clock = SystemClock()
        self.services = Services(self.clock)
        self.stop = asyncio.Event()
        self.systemd = Fed(os.environ)
        self.exit_code = EXIT_OK
        self._processes: list[SupervisedProcess] = []
        self._runs: set[asyncio.Task[None]] = set()
        self._all_served = asyncio.Event()
        self._one_serves = asyncio.Event()
        self._stop_asked_ms = 0.0
        self._numbers = count()
        self._door: socket.socket | None = None
        self._deaths: Deaths | None = None
        self._url = ""

    # ----------------------------------------------------------------------------------- start

    async def start(self) -> None:
        """Bring up everything; returns when all serve, or it is to stop."""
        config = self._config
        lock = lock_file(self._data / LOCK_NAME)
        self.services.on_stop("folder_lock", _closing(lock))
        self._door = door = bind(config)
        door.listen(BACKLOG)  # from here on nobody is refused: who comes early waits
        self._url = url_of(door)
        gossip = open_all_gossip(config)
        self.services.on_stop("sockets", _closing(door, *gossip))
        self._deaths = Deaths(
            config.store, spawn=self.services.spawn, clock=self.clock, random=Random(secrets.randbits(128))
        )
        self.services.on_stop("deaths", self._deaths.close)
        self._processes = [self._make(number, lock, gossip) for number in range(len(gossip))]
        watch = self.systemd.watch = Watch(self._processes)
        self.services.run_loop(watch)
        self.services.run_loop(Watchdog(self.systemd, watchdog_ms(os.environ)))
        log.info("supervisor_started", version=__version__, processes=len(gossip), url=self._url, pid=os.getpid())
        self.services.on_stop("processes", self._end_processes)
        first, *others = self._processes
        self.systemd.status("starting the first process")
        self._run(first, is_first=True)
        await self._until(self._one_serves)
        if self.stop.is_set():
            return
        for one in others:
            self._run(one, is_first=False)
        await self._until(self._all_served)
        if self.stop.is_set():
            return
        log.info("supervisor_ready", url=self._url, processes=len(gossip))
        leave_address(self._url, self._data)
        self.services.on_stop("address", self._forget_address)
        self.systemd.ready(self._status)

    @property
    def _status(self) -> str:
        serving, all_of_them = sum(one.serves for one in self._processes), len(self._processes)
        count = str(serving) if serving == all_of_them else f"{serving} of {all_of_them}"
        return f"serving {self._url} with {count} processes"

    def _make(self, number: int, lock: IO[str], gossip: Sequence[GossipPair]) -> SupervisedProcess:
        assert self._door is not None
        name = f"{self._config.node or socket.gethostname()}-{number + 1}"
        others = tuple(pair.address for pair in gossip if pair is not gossip[number])
        place = Place(
            name,
            self._command,
            self._door.fileno(),
            lock.fileno(),
            gossip[number],
            lambda: config_of(self._config, name, gossip[number].address, others),
        )
        boss = Boss(self._around(number), self._changed, self._died, self._give_up, self._asked)
        return SupervisedProcess(place, boss, self.services.spawn, self.clock)

    def _run(self, process: SupervisedProcess, *, is_first: bool) -> None:
        self._runs.add(self.services.spawn(process.run(is_first), process.name))

    async def _until(self, event: asyncio.Event) -> None:
        """Wait for the event, or until it is to stop."""
        stopped = self.services.spawn(_wait(self.stop), "stop")
        came = self.services.spawn(_wait(event), "event")
        try:
            await asyncio.wait({stopped, came, self.services.crashed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            came.cancel()
        if self.services.crashed.done():
            self.services.crashed.result()

    async def _forget_address(self) -> None:
        forget_address(self._data)

    # ----------------------------------------------------------------------------------- what is heard

    def _around(self, number: int) -> Callable[[], Around]:
        def look() -> Around:
            others = (one for at, one in enumerate(self._processes) if at != number)
            return Around(self._all_served.is_set(), any(one.serves for one in others))

        return look

    def _changed(self) -> None:
        if any(one.serves for one in self._processes):
            self._one_serves.set()
        if self._all_served.is_set() and not self.stop.is_set():
            self.systemd.status(self._status)
        elif all(one.has_served for one in self._processes):
            self._all_served.set()

    def _died(self, incarnation: str) -> None:
        self.services.spawn(self._record(incarnation), f"death of {incarnation}")

    async def _record(self, incarnation: str) -> None:
        assert self._deaths is not None
        try:
            await self._deaths.record(incarnation)
        except StoreError as error:
            # Its term ends by itself, and the next start with this folder proves it anew.
            log.warning("death_not_recorded", incarnation=incarnation, error=str(error))
            return
        log.info("death_recorded", incarnation=incarnation)
        for one in self._processes:
            one.say(Look())

    def _give_up(self, code: int) -> None:
        self.exit_code = self.exit_code or code
        self.stop.set()

    def _asked(self, process: SupervisedProcess, number: int) -> None:
        self.services.spawn(self._gather(process, number), "metrics")

    async def _gather(self, asker: SupervisedProcess, number: int) -> None:
        """The metrics of all that answer in time, for the one that was asked."""
        serving = [one for one in self._processes if one.serves]
        found = await asyncio.gather(*(self._page(one) for one in serving))
        pages = {one.name: page for one, page in zip(serving, found, strict=True) if page}
        up = {one.name: one.serves for one in self._processes}
        own = own_page(up, {one.name: one.restarts for one in self._processes})
        asker.say(Pages(number, merged(pages) + own))

    async def _page(self, process: SupervisedProcess) -> str:
        try:
            async with asyncio.timeout(PAGES_WAIT_MS / 1_000):
                return await process.page(next(self._numbers))
        except TimeoutError:
            return ""

    # ----------------------------------------------------------------------------------- signals

    def stop_or_hurry(self) -> None:
        """The first signal asks for the end in order, the second for no more grace."""
        now = self.clock.monotonic_ms()
        if not self.stop.is_set():
            self._stop_asked_ms = now
        elif now - self._stop_asked_ms > SAME_SIGNAL_MS:
            log.warning("supervisor_hurried")
            for one in self._processes:
                one.say(Hurry())
        self.stop.set()

    def reload_or_stop(self) -> None:
        """Read the settings and hand them on; or stop, if SIGHUP is how our terminal went."""
        if self._terminal.left():
            self.stop.set()
        elif not self.stop.is_set():
            self._reload()

    def _reload(self) -> None:
        self.systemd.reloading()
        try:
            read = self._reread()
        except ConfigError as error:
            log.error("reload_refused", error=str(error), advice="the settings from before stay; mend them and retry")
        else:
            plan = reload.plan(self._config, read)
            self._config = reload.changed(self._config, plan.changes)
            logs.configure(self._config.log.level, self._config.log.format)
            log.info("reload_handed_on", changed=sorted(plan.changes), needs_restart=plan.needs_restart)
            for one in self._processes:
                one.say(Reload(one.place.config()))
        if self._all_served.is_set():
            self.systemd.ready(self._status)

    # ----------------------------------------------------------------------------------- stop

    async def _end_processes(self) -> None:
        """Tell all, wait for all; kill what is still there long after its grace."""
        assert self._door is not None
        up = [one.name for one in self._processes if one.is_up]
        self.systemd.stopping(f"stopping {len(up)} processes")
        log.info("supervisor_stopping", processes=up, advice="a second signal cuts what is in flight")
        for one in self._processes:
            one.stop()
            one.say(Stop())
        self._door.close()
        most_ms = self._config.dispatch.grace_max_ms + STOP_SPARE_MS
        if self._runs:
            _, left = await asyncio.wait(self._runs, timeout=most_ms / 1_000)
            if left:
                log.error("processes_killed", processes=[one.name for one in self._processes if one.is_up])
                for one in self._processes:
                    one.kill()
                await asyncio.wait(left)
        failed = {one.name: one.exit_code for one in self._processes if one.exit_code}
        if failed:
            log.error("processes_failed", codes=failed)
            self.exit_code = self.exit_code or EXIT_FAILED


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _closing(*things: IO[str] | socket.socket | GossipPair) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        for one in things:
            one.close()

    return close


def config_of(config: Config, name: str, gossip: str, others: tuple[str, ...]) -> Config:
    """The settings of one process: its name, its port, and whom it asks first."""
    cluster = msgspec.structs.replace(config.cluster, gossip=gossip, join=(*others, *config.cluster.join))
    return msgspec.structs.replace(config, node=name, cluster=cluster)


async def run_supervisor(config: Config, *, reread: Callable[[], Config], command: Sequence[str]) -> int:
    """Run until a signal, a crash, or until there is no hope; the exit code. `command` starts a process."""
    check_listen(config)
    os.umask(0o077)
    logs.bind_process(process="supervisor")
    supervisor = Supervisor(config, reread, command)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop_or_hurry)
    loop.add_signal_handler(signal.SIGHUP, supervisor.reload_or_stop)
    try:
        await supervisor.start()
        await supervisor.services.until(supervisor.stop)
        await supervisor.services.end()
    except ServiceCrashed as crash:
        log.error("supervisor_crashed", cause=str(crash))
        supervisor.systemd.stopping(f"crashed: {crash}")
        await supervisor.services.stop()
        return EXIT_FAILED
    except BaseException:
        await supervisor.services.stop()
        raise
    log.info("supervisor_stopped", code=supervisor.exit_code)
    return supervisor.exit_code
