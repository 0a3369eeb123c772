"""One process, as its supervisor sees it: started, heard, waited for, started again."""

import asyncio
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from tasktick import logs
from tasktick.clock import Clock, wait_for_event
from tasktick.processes.restarts import EXIT_FAILED, Again, Around, End, GiveUp, Restarts
from tasktick.processes.sockets import GossipPair
from tasktick.processes.words import (
    Ask,
    Beat,
    Begin,
    Born,
    Doing,
    FromProcess,
    Line,
    Ready,
    Stop,
    Tell,
    Told,
    ToProcess,
)
from tasktick.service import Spawner
from tasktick.settings import Config

log = logs.get("processes")

# The end of the line comes with the end of the process; if it does not, somebody else holds it, and nothing is proven.
LINE_END_MS = 1_000.0


class Place(msgspec.Struct, frozen=True):
    """What a process is given each time it starts."""

    name: str
    command: Sequence[str]
    door: int
    lock: int
    gossip: GossipPair
    config: Callable[[], Config]
    """The settings as they are now, for this process."""


class Boss(msgspec.Struct, frozen=True):
    """Who is told of it."""

    around: Callable[[], Around]
    changed: Callable[[], None]
    """It serves now, or does not any more."""
    died: Callable[[str], None]
    """This incarnation has ended for certain, and may have left something behind."""
    given_up: Callable[[int], None]
    asked: Callable[["SupervisedProcess", int], None]
    """It wants the metrics of all."""


class SupervisedProcess:
    """A place that a process fills, one after the other."""

    def __init__(self, place: Place, boss: Boss, spawn: Spawner, clock: Clock) -> None:
        self.place = place
        self.serves = False
        self.has_served = False
        self.doing = ""
        self.restarts = 0
        # Looks since it was heard last; see `Watch`.
        self.silent_looks = 0
        self._boss = boss
        self._spawn = spawn
        self._clock = clock
        self._policy = Restarts()
        self._line: Line[FromProcess] | None = None
        self._process: Process | None = None
        # All that the process has been: one that the store forgets goes on as another.
        self._incarnations: list[str] = []
        self._served_since_ms: float | None = None
        self._stop = asyncio.Event()
        self._told: dict[int, asyncio.Future[str]] = {}
        self.exit_code: int | None = None
        """With what it ended after it was told to."""

    @property
    def name(self) -> str:
        """As a node."""
        return self.place.name

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    async def run(self, is_first: bool) -> None:
        """Keep a process there, until it is to stop or there is no hope."""
        while not self._stop.is_set():
            end = await self._live(is_first and not self.has_served)
            if self._stop.is_set():
                return
            verdict = self._policy.ended(end, self._boss.around())
            if isinstance(verdict, GiveUp):
                log.error("process_given_up", node=self.name, code=end.code, doing=self.doing)
                self._boss.given_up(verdict.code)
                return
            self.restarts += 1
            log.warning("process_restarts", node=self.name, code=end.code, rest_ms=verdict.rest_ms)
            await self._rest(verdict)

    async def _rest(self, again: Again) -> None:
        await wait_for_event(self._stop, self._clock, again.rest_ms)

    async def _live(self, is_first: bool) -> End:
        """From its start to its end."""
        ours, theirs = socket.socketpair()
        place = self.place
        handed = (theirs.fileno(), place.door, place.lock, *place.gossip.descriptors)
        self._incarnations, self._served_since_ms, self.silent_looks = [], None, 0
        try:
            # A session of its own: what a terminal says to all of its processes, it says to the supervisor.
            process = self._process = await asyncio.create_subprocess_exec(
                *place.command, str(theirs.fileno()), stdin=DEVNULL, pass_fds=handed, start_new_session=True
            )
        except OSError as error:
            ours.close()
            log.error("process_not_started", node=self.name, error=error.strerror)
            return End(EXIT_FAILED, None)
        finally:
            theirs.close()
        line: Line[FromProcess] = await Line.open(ours, FromProcess)  # type: ignore[arg-type] # a union
        self._line = line
        log.info("process_started", node=self.name, pid=process.pid)
        line.say(Begin(place.config(), place.name, place.door, place.gossip.descriptors, place.lock, is_first))
        if self._stop.is_set():  # while it was started, so that nobody has told it
            line.say(Stop())
        try:
            return await self._wait(process, line)
        finally:
            line.close()

    async def _wait(self, process: Process, line: "Line[FromProcess]") -> End:
        hearing = self._spawn(self._listen(line), f"line of {self.name}")
        try:
            code = await process.wait()
            line_ended, _ = await asyncio.wait({hearing}, timeout=LINE_END_MS / 1_000)
        except BaseException:
            hearing.cancel()
            raise
        self._process = self._line = None
        self.exit_code = code if self._stop.is_set() else None
        was_serving, self.serves = self._served_since_ms, False
        for told in self._told.values():
            if not told.done():
                told.set_result("")
        self._told.clear()
        self._say_end(process.pid, code)
        self._boss.changed()
        if not line_ended:
            hearing.cancel()
            log.warning("process_has_heirs", node=self.name, pid=process.pid)
        elif code != 0 or not self._stop.is_set():
            for incarnation in self._incarnations:
                self._boss.died(incarnation)
        return End(code, None if was_serving is None else self._clock.monotonic_ms() - was_serving)

    def _say_end(self, pid: int, code: int) -> None:
        in_order = self._stop.is_set() or code == 0
        say = log.info if in_order else log.error if self._policy.keeps_dying else log.warning
        say("process_ended", node=self.name, pid=pid, code=code)

    async def _listen(self, line: "Line[FromProcess]") -> None:
        async for word in line.words():
            self.silent_looks = 0
            match word:
                case Born(incarnation):
                    self._incarnations.append(incarnation)
                case Doing(text):
                    self.doing = text
                case Ready():
                    self._became_ready()
                case Told(number, page):
                    told = self._told.pop(number, None)
                    if told is not None and not told.done():
                        told.set_result(page)
                case Ask(number):
                    self._boss.asked(self, number)
                case Beat():
                    pass

    def _became_ready(self) -> None:
        self.serves = self.has_served = True
        if self._served_since_ms is None:
            self._served_since_ms = self._clock.monotonic_ms()
        self._boss.changed()

    def say(self, word: ToProcess) -> None:
        """Tell it, if it is there."""
        if self._line is not None:
            self._line.say(word)

    async def page(self, number: int) -> str:
        """Its metrics; waits for as long as the caller lets it."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._told[number] = told
        self.say(Tell(number))
        try:
            return await told
        finally:
            self._told.pop(number, None)

    def stop(self) -> None:
        """Start it no more; whoever calls says to the process that it is to stop."""
        self._stop.set()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
