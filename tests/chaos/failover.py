"""Suite `failover`: a ring on a pair of servers, whose primary is lost again and again, and whose standby takes over.

Half of the failovers are of a synchronous pair, where nothing may be lost, and nobody may believe that something was.
The others are of an asynchronous one, which is held back before: what was acknowledged meanwhile is lost, and that has
to be noticed: by the nodes, which go on as others and send nothing more of what they had claimed, and by the checker,
which lists it. The primary is killed, stopped, frozen, or fenced off alive.
"""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import msgspec

from tests.chaos import servers
from tests.chaos.history import Fault, Record, now_ms
from tests.chaos.lost_history import Gap, Noticed, judge
from tests.chaos.network import WITH_US
from tests.chaos.pair import MANNERS, Manner, Pair, Replication
from tests.chaos.partition import SETTLED_POLL_S, settle
from tests.chaos.process import Site
from tests.chaos.ring_run import Ground, Plan, RingRun, Stage
from tests.chaos.verdict import Verdict, Violation

NAMES = ("n1", "n2", "n3")
DATABASE = "tasktick"
UP_S = (0.5, 1.5)
# How long the standby is held back, in terms: within one, and beyond it.
HELD_TTLS = (0.2, 2.5)
HELD_FIRST_TTLS = 1.5
NOTICED = frozenset({"history_regressed", "timeline_changed"})
LEVELS = ("on", "remote_apply")


async def _nothing(stage: Stage, count: int) -> None:
    """The run makes the failovers itself: it has the pair."""


class FailoverRun(RingRun):
    """One run on one pair."""

    def __init__(self, replication: Replication, count: int, seed: int, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        demanded = ("acknowledged", "hits", "fault_store", "event_timeline_changed")
        lossy = ("lost_acknowledged", "event_history_regressed") if replication == "asynchronous" else ()
        super().__init__(Plan(f"failover {replication}", _nothing, (*demanded, *lossy)), count, seed, folder)
        self._replication = replication
        self._seeded = seed
        self._pair: Pair | None = None
        self._gaps: list[Gap] = []
        self._unsettled: list[Violation] = []
        self.lost: list[str] = []

    async def _ground(self, stack: AsyncExitStack) -> Ground:
        pair = self._pair = Pair(self._replication, LEVELS[self._seeded % len(LEVELS)])
        await stack.enter_async_context(pair)
        await pair.primary.run(f"CREATE DATABASE {DATABASE} TEMPLATE template0")
        # Both ways to name a primary that moves, one for each kind of pair.
        by_many = (self._seeded + (self._replication == "synchronous")) % 2 == 0
        url = pair.many_url(DATABASE) if by_many else pair.moved_url(DATABASE)
        sites = {name: Site(prefix=WITH_US) for name in NAMES}
        return Ground(pair.primary, pair.primary.url(DATABASE), url, sites=sites)

    async def _break(self, stage: Stage) -> None:
        deck: list[Manner] = []
        for left in range(self._count - 1, -1, -1):
            deck = deck or stage.random.sample(MANNERS, len(MANNERS))
            await asyncio.sleep(stage.random.uniform(*UP_S))
            await self._fail_over(stage, deck.pop(), is_last=not left)

    async def _fail_over(self, stage: Stage, manner: Manner, *, is_last: bool) -> None:
        pair, random = self._pair, stage.random
        assert pair is not None
        at = now_ms()
        if pair.replication == "asynchronous":
            pair.hold_back()
            # The first one is sure to lose a renewal of each node.
            await asyncio.sleep((random.uniform(*HELD_TTLS) if self._gaps else HELD_FIRST_TTLS) * stage.ttl_s)
        lost_at = now_ms()
        lost = await pair.fail_over(manner)
        stage.server, stage.store.url = pair.primary, pair.primary.url(DATABASE)
        end = now_ms()
        if pair.replication == "synchronous" or not is_last:
            # What is written until there is a standby again waits for it, where it has to.
            await pair.replace(lost)
        again_at = now_ms()
        stage.history.add(Fault(at, again_at, "store", 0, f"failover_{manner}"))
        self._gaps.append(Gap(at, lost_at, end, again_at))
        await settle(stage, len(stage.ring.alive), f"after a failover ({manner})", self._unsettled)
        await asyncio.sleep(SETTLED_POLL_S)

    def _judge(self) -> Verdict:
        """The checker's verdict, but for what a lost history explains; and what follows from that."""
        noticed = [one for name in NAMES for one in _noticed(name, self._folder / f"{name}.log")]
        loses = self._replication == "asynchronous"
        verdict, self.lost = judge(super()._judge(), self._records(), self._gaps, noticed, loses=loses)
        return msgspec.structs.replace(verdict, violations=[*verdict.violations, *self._unsettled])

    def _records(self) -> list[Record]:
        return self._history.records


def _noticed(name: str, log: Path) -> list[Noticed]:
    """When a node said that the store is not what it was."""
    found: list[Noticed] = []
    for line in log.read_bytes().splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if said.get("event") in NOTICED:
            at = round(datetime.fromisoformat(said["timestamp"]).timestamp() * 1_000)
            found.append(Noticed(at, name, said["event"]))
    return found


class FailoverRuns:
    """One run of the suite: on a synchronous pair, then on an asynchronous one."""

    def __init__(self, count: int, seed: int, folder: Path) -> None:
        self._count = count
        self._seed = seed
        self._folder = folder
        self.lost: list[str] = []

    async def run(self) -> Verdict:
        """Both, as one verdict."""
        counts: dict[Replication, int] = {
            "synchronous": max(1, self._count // 2),
            "asynchronous": max(1, self._count - self._count // 2),
        }
        runs = [FailoverRun(kind, count, self._seed, self._folder / kind) for kind, count in counts.items()]
        found = [await run.run() for run in runs]
        self.lost = runs[1].lost
        counters: Counter[str] = Counter()
        for one in found:
            counters |= Counter({name: n for name, n in one.counters.items() if name.endswith("_ms")})
            counters += Counter({name: n for name, n in one.counters.items() if not name.endswith("_ms")})
        violations = [violation for one in found for violation in one.violations]
        return Verdict(violations, counters, [reason for one in found for reason in one.void])


def trouble() -> str | None:
    """Why it cannot run here; None if it can."""
    return servers.trouble()
