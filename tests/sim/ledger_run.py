"""Plays one seed with schedules: days and clock changes pass, the process dies, the disk fills, clients change their
minds. In the end each ledger is held against the oracle, by the checker that also judges the real runs.
"""

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tasktick.dispatch.sender import SpawningSender
from tasktick.errors import StoreError
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.node import Node, World
from tasktick.service import Services
from tasktick.settings import Config, DispatchConfig, SchedulerConfig, StoreConfig
from tasktick.store.connect import raw_connection
from tests import scratch
from tests.chaos.ledger import count, judge
from tests.chaos.ledger_dump import books
from tests.chaos.ledger_story import Absence, Arrival, LedgerStory
from tests.sim.faults import Disk, FaultyLink
from tests.sim.keeper import Keeper
from tests.sim.loop import SimLoop
from tests.sim.rules import BEGINNINGS, TIMEOUT_MS
from tests.sim.run import Report
from tests.sim.world import (
    EPOCH_MS,
    Life,
    NoSecrets,
    Receivers,
    SimClock,
    SimSender,
    open_database,
    unsealed,
)

LIVES = (2, 5)
# The last one is let live to its end, unless the store breaks.
LIVES_MORE = 8
MISSED_AFTER_MS = 60_000
# How long nobody is there between two lives.
OUTAGES_S = (0.5, 5, 30, 90, 1_200, 3_600, 90_000, 400_000)
STEPS_MS = (1_000, 5_000, 61_500, 600_000, 3_600_000, 86_400_000, 2_592_000_000)
FULL_S = (0.5, 5.0, 70.0)
CALM_S = 8.0
SETTLED_WITHIN_S = 600.0
FEATURES = ("deaths", "steps_forward", "steps_back", "outages", "disk_full", "commits_lie", "slow_store")
CONFIG = Config(
    # Nothing is removed, however far the clock goes.
    store=StoreConfig(retention_days=36_500),
    scheduler=SchedulerConfig(full_every_ms=10_000, near_every_ms=2_000, sweep_every_ms=2_000, missed_rows_max=40),
    dispatch=DispatchConfig(
        start_delay_ms=500, lease_margin_ms=500, grace_max_ms=1_000, in_flight_max=48, in_flight_per_host_max=24
    ),
)


class LedgerPlay:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(f"ledger.{seed}")
        self.path = folder / "tasktick.db"
        self.loop = SimLoop(Random(f"loop.{seed}"))
        self.clock = SimClock(self.loop)
        self.clock.offset_ms = self.random.choice(BEGINNINGS) - EPOCH_MS + self.random.randrange(3_600_000)
        self.receivers = Receivers(self.loop, seed)
        self.disk = Disk()
        self.ids = IdMaker(Random(f"ids.{seed}"))
        self.keeper = Keeper(Random(f"keeper.{seed}"), self.ids, self.disk)
        # Each seed has some of what may go wrong: all at once hide each other.
        self.features = {name for name in FEATURES if self.random.random() < 0.6}
        self.segments = [(0, EPOCH_MS + self.clock.offset_ms)]
        self.absences: list[Absence] = []
        self.deaths: list[int] = []
        self.ended = False
        # What the clock read when the process before this one died.
        self.walls_from = 0
        self.trace: list[str] = []
        self.sometimes: Counter[str] = Counter(f"with {name}" for name in self.features)

    def run(self) -> Report:
        """Play it on its own loop."""
        asyncio.set_event_loop(self.loop)
        try:
            return self.loop.run_until_complete(self._play())
        finally:
            pending = self.loop.living()
            for task in pending:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            asyncio.set_event_loop(None)
            self.loop.close()

    @property
    def true(self) -> int:
        return int(self.loop.time() * 1_000)

    async def _play(self) -> Report:
        lives = self.random.randint(*LIVES)
        faults: list[str] = []
        number = 0
        while not self.ended:
            faults += await self._live(number, last=number >= lives - 1)
            number += 1
            if number == lives + LIVES_MORE:
                faults.append("no life comes to its end any more")
                break
            if not self.ended:
                await self._nobody()
        story = self._story()
        faults += [f"{one.kind}: {one.detail}" for one in judge(story)]
        self.sometimes.update(count(story))
        text = "\n".join(self.trace + [repr(one) for one in (*self.receivers.hits, *story.books)])
        return Report(self.seed, hashlib.sha256(text.encode()).hexdigest()[:16], faults, self.sometimes)

    async def _live(self, number: int, *, last: bool) -> list[str]:
        """One process, to its death or its end."""
        life, services, metrics = Life(), Services(self.clock), Metrics()
        random = Random(f"link.{self.seed}.{number}")
        database, bury = open_database(
            self.path,
            life,
            random,
            lambda error: services.crash("store", error),
            lambda raw: FaultyLink(raw, life, random, self.disk),
        )
        database.start(services.spawn)
        world = World(
            clock=self.clock,
            random=Random(f"node.{self.seed}.{number}"),
            ids=self.ids,
            database=database,
            sender=SpawningSender(SimSender(self.receivers, self.clock, life, number), services.spawn),
            unseal=unsealed,
            signing=NoSecrets(),
            services=services,
            metrics=metrics,
        )
        wall = self.clock.now_ms()
        self.absences.append(Absence(self.walls_from, wall, self.true, start=True))
        node = Node(CONFIG, "sim", world)
        death: asyncio.Future[None] = self.loop.create_future()
        if not last and "deaths" in self.features:
            self.loop.at_step(self.random.choice((300, 6_000, 40_000)) + self.random.randrange(2_000), _set(death))
        living = self.loop.create_task(self._use(node, last=last))
        ends: set[asyncio.Future[Any]] = {living, death, services.crashed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        faults = self._end_of(living, services.crashed)
        if last or (living.done() and self.random.random() < 0.5):
            await services.stop()
        life.dead = True
        self.sometimes.update(metrics.events)
        self.deaths.append(self.true)
        self.walls_from = self.clock.now_ms()
        self.disk.full, self.disk.lie, self.disk.slow_s = False, None, 0.0
        self.trace.append(f"death {number} at {self.loop.time():.6f} step {self.loop.steps}")
        ghosts = [task for task in self.loop.living() if task is not asyncio.current_task()]
        for ghost in ghosts:
            ghost.cancel()
        await asyncio.gather(*ghosts, return_exceptions=True)
        bury()
        return faults

    def _end_of(self, living: "asyncio.Task[list[str]]", crashed: "asyncio.Future[None]") -> list[str]:
        """How a life ended: a store whose state is unknown is a reason to die, nothing else is."""
        error = crashed.exception() if crashed.done() else None
        failed = living.exception() if living.done() else None
        if error is not None:
            lied = "is unknown" in str(error)
            self.sometimes["broken store"] += lied
            return [] if lied else [f"crashed: {error!r}, by {error.__cause__!r}"]
        if not living.done():
            return []
        if failed is None:
            return living.result()
        return [] if isinstance(failed, StoreError) else [f"failed: {failed!r}"]

    async def _nobody(self) -> None:
        """An outage, in which the clock may be set."""
        long = "outages" in self.features
        await asyncio.sleep(self.random.choice(OUTAGES_S if long else OUTAGES_S[:2]) * (0.5 + self.random.random()))
        if self.random.random() < 0.3:
            self._step_clock(noticed=False)

    async def _use(self, node: Node, *, last: bool) -> list[str]:
        await node.start()
        for _ in range(self.random.randint(8, 30)):
            await asyncio.sleep(self.random.choice((0.01, 0.5, 2.0, 4.0)) * self.random.random())
            try:
                self.sometimes[f"did {await self.keeper.act(node)}"] += 1
            except StoreError:
                self.sometimes["refused"] += 1
            await self._fault(node)
        if "steps_forward" in self.features and self.random.random() < 0.5:
            await asyncio.sleep(70)
        return await self._calm(node) if last else []

    async def _fault(self, node: Node) -> None:
        random = self.random
        if random.random() < 0.12:
            self._step_clock(noticed=True)
        if "disk_full" in self.features and random.random() < 0.05:
            await self._fill_disk(random.choice(FULL_S))
        if "commits_lie" in self.features and random.random() < 0.03:
            self.disk.lie = random.choice(("done", "undone"))
        if "slow_store" in self.features and random.random() < 0.05:
            self.disk.slow_s = random.choice((0.0, 0.2, 3.0))

    async def _fill_disk(self, for_s: float) -> None:
        from_wall = self.clock.now_ms() - 3_000
        self.disk.full = True
        await asyncio.sleep(for_s)
        self.disk.full = False
        self.sometimes["disk was full"] += 1
        if for_s * 1_000 >= MISSED_AFTER_MS - 5_000:
            self.absences.append(Absence(from_wall, self.clock.now_ms() + 2_000, self.true - 2_000, sure=False))

    def _step_clock(self, *, noticed: bool) -> None:
        signs = [sign for sign, name in ((1, "steps_forward"), (-1, "steps_back")) if name in self.features]
        if not signs:
            return
        self._set_clock(self.random.choice(signs) * self.random.choice(STEPS_MS), noticed=noticed)

    def _set_clock(self, step_ms: int, *, noticed: bool) -> None:
        before = self.clock.now_ms()
        self.clock.offset_ms += step_ms
        self.segments.append((self.true, EPOCH_MS + self.clock.offset_ms))
        self.sometimes["clock set forward" if step_ms > 0 else "clock set back"] += 1
        if noticed and step_ms > MISSED_AFTER_MS - 5_000:
            sure = step_ms > MISSED_AFTER_MS + 5_000
            self.absences.append(Absence(before, before + step_ms, self.true, sure=sure))

    async def _calm(self, node: Node) -> list[str]:
        """No faults: nothing may be left behind; then everything is paused, so that what is under way can end.

        A clock that was set back is set right: a backoff or a schedule that it holds up goes on then.
        """
        self.disk.slow_s, self.disk.lie = 0.0, None
        behind_ms = max(offset for _, offset in self.segments) - self.segments[-1][1]
        if behind_ms:
            self._set_clock(behind_ms, noticed=True)
        await asyncio.sleep(CALM_S)
        late = self.clock.now_ms() - 3_000
        raw = raw_connection(self.path, read_only=True)
        try:
            stuck = raw.execute("SELECT id, look_at FROM schedules WHERE look_at < ?", (late,)).fetchall()
            faults = [f"stuck: {one} is looked at no more, and it is {late}" for one in stuck]
            for name in self.keeper.kept():
                await self.keeper.hold(node, name)
            give_up = self.loop.time() + SETTLED_WITHIN_S
            while raw.execute("SELECT count(*) FROM tasks WHERE state < 10").fetchone()[0]:
                if self.loop.time() > give_up:
                    left = raw.execute("SELECT id, state, due_at FROM tasks WHERE state < 10 LIMIT 3").fetchall()
                    faults.append(f"unfinished: {left}")
                    break
                await asyncio.sleep(1)
        finally:
            raw.close()
        self.ended = True
        return faults

    def _story(self) -> LedgerStory:
        raw = raw_connection(self.path, read_only=True)
        try:
            found = books(raw, self.keeper.editions, self.keeper.triggered, self.keeper.filled)
        finally:
            raw.close()
        arrivals = []
        for hit in self.receivers.hits:
            seconds, status, _ = self.receivers.plan(f"tsk_{hit.task_id}", hit.attempt)
            until = hit.at + int(seconds * 1_000) if seconds * 1_000 < TIMEOUT_MS else None
            arrivals.append(Arrival(hit.task_id, hit.at, until, status))
        return LedgerStory(
            books=found,
            arrivals=arrivals,
            absences=self.absences,
            clock=self.segments,
            deaths=self.deaths,
            ended_true=self.true,
            missed_after_ms=MISSED_AFTER_MS,
            commit_ms=80_000 if "disk_full" in self.features else 15_000,
        )


def _set(death: "asyncio.Future[None]") -> Callable[[], None]:
    def call() -> None:
        if not death.done():
            death.set_result(None)

    return call


def play(seed: int) -> Report:
    """One seed, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tasktick-sim-", dir=scratch.quick()) as folder:
        return LedgerPlay(seed, Path(folder)).run()
