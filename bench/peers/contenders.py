"""Who takes part, by one face: TaskTick on either store, and each peer through its own programs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from bench.peers.catalogue import PEERS, Peer
from bench.peers.install import REDIS, why_not
from bench.peers.load import Load
from bench.peers.our_site import OurSite
from bench.peers.peer_site import PeerSite
from bench.peers.servers import Watch, serving

SQLITE, POSTGRES = "TaskTick, SQLite", "TaskTick, PostgreSQL"
OURS = (SQLITE, POSTGRES)


class Site(Protocol):
    """One contender with an empty store of its own, for one measurement."""

    def start(self) -> int:
        """Start its worker; the process that works, once it does."""

    def stop(self) -> None:
        """Stop its worker."""

    def fill(self, load: Load) -> None:
        """Make these jobs, and return when all are acknowledged."""

    def stock(self, load: Load) -> None:
        """The same with no worker; none is there afterwards either."""

    def waiting(self) -> int:
        """How many jobs its store has that are not recorded as done."""

    def create(self, load: Load, seconds: float, *, bulk: bool) -> float | None:
        """Jobs a second that callers get made, checked in the store; None where no call makes many."""

    def database_cpu_seconds(self) -> float | None:
        """What its database has cost so far; None where the worker is the database."""


@dataclass(frozen=True)
class Contender:
    """One line of each table."""

    name: str
    setup: str
    fill_us: int
    """What making a job takes at most."""
    fill_apart_us: int
    """The same where jobs are due at different instants."""
    site: Callable[[Path, Watch], AbstractContextManager[Site]]
    missing: str | None = None
    """Why it cannot take part."""


@contextmanager
def _sqlite(folder: Path, watch: Watch) -> Iterator[Site]:
    site = OurSite(folder, None, watch)
    try:
        yield site
    finally:
        site.stop()


@contextmanager
def _postgres(folder: Path, watch: Watch) -> Iterator[Site]:
    with serving("PostgreSQL", watch) as server:
        site = OurSite(folder, server, watch)
        try:
            yield site
        finally:
            site.stop()


@contextmanager
def _peer(peer: Peer, folder: Path, watch: Watch) -> Iterator[Site]:
    with serving(peer.database, watch) as server:
        site = PeerSite(peer, server, folder.with_suffix(".log"))
        try:
            yield site
        finally:
            site.stop()


def contenders() -> list[Contender]:
    """All, TaskTick first."""
    ours = [
        Contender(SQLITE, "as it comes: every commit synced", 100, 100, _sqlite),
        Contender(POSTGRES, "as it comes", 100, 100, _postgres),
    ]
    return ours + [
        Contender(
            peer.name,
            f"{peer.packages[0]} on {peer.database}: {peer.setup}",
            peer.fill_us,
            peer.fill_apart_us or peer.fill_us,
            partial(_peer, peer),
            why_not(peer.folder) or (why_not(REDIS) if peer.database == "Redis" else None),
        )
        for peer in PEERS
    ]
