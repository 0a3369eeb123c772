"""A ring of real nodes: each a process with its data folder, its name, its gossip port and its API, all on one store.

The first that starts makes the keys; the others are given copies of them, as an operator would. What a suite does to
a node goes through here, so that clients know which doors are open, and the history what was done to whom.
"""

import asyncio
import random
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import aiohttp

from tests.chaos import dump
from tests.chaos.history import HistoryWriter, Seen, now_ms
from tests.chaos.load import Door
from tests.chaos.process import LOOPBACK, Daemons, Process, Site
from tests.ports import free_port

TTL_MS = 1_500
LEASE_MARGIN_MS = 300
KEYS = ("vault.key", "operator.key")
# Terms, and what else is short in a ring that is broken on purpose.
RING_SETTINGS = {
    "TASKTICK_CLUSTER__LEASE_TTL_MS": str(TTL_MS),
    "TASKTICK_CLUSTER__LEASE_MARGIN_MS": str(LEASE_MARGIN_MS),
}
GONE_BY_ITSELF_S = 20.0
SEEN_WITHIN_S = 2.0


class Member:
    """A node by its name: its folder, its ports, and the process that it is now, if any."""

    def __init__(self, name: str, daemons: Daemons, gossip: str) -> None:
        self.name = name
        self.daemons = daemons
        self.gossip = gossip
        self.process: Process | None = None
        self.door: Door | None = None
        self.session: aiohttp.ClientSession | None = None
        # Held now: it is there, and answers nobody.
        self.held = False

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.process is not None and self.process.alive

    @property
    def up(self) -> bool:
        """Whether it is there, has been ready, and is not held."""
        return self.process is not None and self.alive and self.process.ready_at is not None and not self.held


class Ring:
    """The nodes of a run. `doors` is what clients are given; it grows as nodes start for the first time."""

    def __init__(
        self,
        folder: Path,
        url: str,
        history: HistoryWriter,
        names: Sequence[str] = ("n1", "n2", "n3"),
        *,
        settings: Mapping[str, str] | None = None,
        plant: str | None = None,
        sites: Mapping[str, Site] | None = None,
    ) -> None:
        self.url = url
        self._sites = sites or {}
        self.doors: list[Door] = []
        self._folder = folder
        self._history = history
        self._plant = plant
        self._settings = {**RING_SETTINGS, **(settings or {})}
        self.members = {name: self._member(name) for name in names}

    def _member(self, name: str) -> Member:
        log = self._folder / f"{name}.log"
        data = self._folder / name
        site = self._sites.get(name, LOOPBACK)
        daemons = Daemons(data, self._history, log, self._plant, settings=self._settings, name=name, site=site)
        return Member(name, daemons, f"{site.address}:{free_port()}")

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    @property
    def up(self) -> list[Member]:
        """Those that are there and serve."""
        return [member for member in self.members.values() if member.up]

    @property
    def alive(self) -> list[Member]:
        """Those that have a process, held or not."""
        return [member for member in self.members.values() if member.alive]

    def arguments(self, name: str, *, gossips: bool = True) -> list[str]:
        """What its command line says beyond a single daemon's."""
        said = ["--store", self.url, "--node", name]
        if gossips:
            said += ["--gossip", self[name].gossip]
            said += [part for other in self.members.values() if other.name != name for part in ("--join", other.gossip)]
        return said

    async def begin(self, names: Iterable[str] | None = None) -> None:
        """Start them all, the first alone, and wait until they are ready."""
        first, *others = self.members if names is None else names
        await self.healthy(first)
        await asyncio.gather(*(self.healthy(name) for name in others))

    async def healthy(self, name: str, *, gossips: bool = True) -> None:
        """Start one as it is, and wait until it serves."""
        await self.start(name, gossips=gossips)
        assert await self.ready(name), f"{name} is not ready: see {self._folder / name}.log"

    async def start(
        self, name: str, seam: str | None = None, passes: int = 1, *, hold: bool = False, gossips: bool = True
    ) -> Process:
        """Start one, armed or not. It has the keys of those that are there already."""
        member = self[name]
        assert not member.alive, f"{name} runs already"
        self._copy_keys(member)
        arguments = self.arguments(name, gossips=gossips)
        member.held = False
        member.process = await member.daemons.start(seam, passes, hold=hold, arguments=arguments)
        return member.process

    def _copy_keys(self, member: Member) -> None:
        data = member.daemons.data
        data.mkdir(parents=True, exist_ok=True)
        data.chmod(0o700)
        for file in KEYS:
            for other in self.members.values():
                source = other.daemons.data / file
                if source.exists() and not (data / file).exists():
                    shutil.copy2(source, data / file)

    async def ready(self, name: str) -> bool:
        """Wait until it serves, and let clients in; false if it is gone before, or holds itself."""
        member = self[name]
        assert member.process is not None
        if not await member.process.ready():
            return False
        if member.session is None:
            member.session = member.daemons.session()
            member.door = Door(member.session, name)
            self.doors.append(member.door)
        self._open(member, True)
        return True

    def _open(self, member: Member, is_open: bool) -> None:
        if member.door is not None:
            member.door.is_open = is_open

    async def kill(self, *names: str) -> None:
        """SIGKILL these at once."""
        await asyncio.gather(*(self._strike(self[name], "kill", signal.SIGKILL) for name in names))

    async def stop(self, *names: str) -> None:
        """SIGTERM these, and wait for their end in order."""
        await asyncio.gather(*(self._strike(self[name], "term", signal.SIGTERM) for name in names))

    async def _strike(self, member: Member, kind: str, number: signal.Signals) -> None:
        self._open(member, False)
        if kind == "kill":
            await self.see(member)
        assert member.process is not None
        if not member.process.alive:
            self.write_off(member.name)
            return
        await member.process.strike("kill" if kind == "kill" else "term", number)
        member.held = False

    def write_off(self, name: str, label: str | None = None) -> None:
        """It ended by itself: on the crash point that it was armed for, or without anybody's asking."""
        member = self[name]
        assert member.process is not None
        self._open(member, False)
        member.process.write_off("armed" if label is not None else None, label=label)

    async def hold(self, name: str, for_s: float, label: str | None = None) -> None:
        """Hold it (SIGSTOP), unless it holds itself already, then let it go on (SIGCONT)."""
        member = self[name]
        assert member.process is not None
        member.held = True
        self._open(member, False)
        try:
            await member.process.hold(for_s, label)
        finally:
            member.held = False
        if member.process.alive:
            self._open(member, True)

    async def see(self, member: Member) -> None:
        """Write down what its metrics count, if it answers."""
        if member.session is None or member.process is None or member.held or not member.process.alive:
            return
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                self._history.add(Seen(now_ms(), member.process.number, await dump.events(member.session)))
        except (OSError, TimeoutError, aiohttp.ClientError):
            pass

    def session(self, draw: random.Random) -> aiohttp.ClientSession:
        """A client of one of those that serve."""
        session = draw.choice(self.up).session
        assert session is not None
        return session

    async def close(self) -> None:
        """Kill what is left, and close everything."""
        for member in self.members.values():
            if member.process is not None and member.process.alive:
                await member.process.strike("kill", signal.SIGKILL)
            if member.session is not None:
                await member.session.close()
            member.daemons.close()
