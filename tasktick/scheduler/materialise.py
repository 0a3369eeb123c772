"""Decides about the times of schedules as they come, and keeps one fire of each ahead.

A fire is a task like any other and needs nobody here to start on its millisecond; this loop follows behind: when a
fire is due it writes down what became of it, and makes the next. What it finds undecided when nobody was there (this
start, a step of the clock, a store that did not answer) is what catch-up is for. As long as the loop is there and
merely late, nothing is dropped.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from tasktick import logs
from tasktick.clock import Clock
from tasktick.cluster.ownership import Ownership
from tasktick.errors import StoreFull
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker, wire
from tasktick.model.schedule import Plan, Recorder
from tasktick.model.state import State
from tasktick.model.task import due_of
from tasktick.scheduler.book import Moment
from tasktick.scheduler.intake import Intake
from tasktick.scheduler.plan import settle
from tasktick.store import schedules
from tasktick.store.protocol import Database, Lane
from tasktick.store.schedules import Seen, Term
from tasktick.timetable import zones

log = logs.get("scheduler")

SCHEDULES_MAX = 250
ROWS_MAX = 1_500
LOOK_AT_LEAST_MS = 1_000
FULL_REST_MS = 500
STALE_REST_MS = 5
# So many plans are made before others of the loop have their turn.
PLANS_PER_TURN = 16


class Decider(msgspec.Struct, frozen=True):
    """Who decides: a node, under its leases, with ids to give."""

    node: str
    ownership: Ownership
    ids: IdMaker

    @property
    def term(self) -> Term:
        """Under which leases it writes, now."""
        return Term(self.ownership.incarnation, self.ownership.epochs)

    def recorder(self, now: int, partition: int) -> Recorder:
        """As the ledger names it."""
        return Recorder(now, self.node, self.ownership.epochs.get(partition, 0), zones.version())


class Materialiser:
    """The loop behind the schedules."""

    name = "materialise"

    def __init__(
        self,
        clock: Clock,
        database: Database,
        decider: Decider,
        metrics: Metrics,
        *,
        intake: Intake,
        missed_after_ms: int,
        missed_rows_max: int,
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._database = database
        self._decider = decider
        self._metrics = metrics
        self._intake = intake
        self._missed_after_ms = missed_after_ms
        self._missed_rows_max = missed_rows_max
        # Times up to here may have passed unseen.
        self.gap_until = clock.now_ms()
        self._seen_at = self.gap_until

    async def start(self) -> None:
        """Decide about all that came due before this start: nobody claims a fire that catch-up will drop."""
        now = self._clock.now_ms()
        await self._database.write(lambda tx: schedules.outdate(tx, now, zones.version()), Lane.UPKEEP)
        while await self.step() == 0:
            pass

    async def step(self) -> float:
        """Decide about what is due; how long until there is more."""
        now = self._clock.now_ms()
        if now - self._seen_at > self._missed_after_ms:
            self.gap_until = now
            log.warning("schedules_unseen", for_ms=now - self._seen_at)
        partitions = self._decider.ownership.partitions
        try:
            due = await self._database.near.read(lambda tx: schedules.due(tx, now, SCHEDULES_MAX, partitions))
            done = await self._settle(due, now) if due else 0
            upcoming = await self._database.near.read(lambda tx: schedules.next_look(tx, now, partitions))
        except StoreFull:
            return FULL_REST_MS
        self._seen_at = self._clock.now_ms()
        if due:
            return 0 if done else STALE_REST_MS
        if upcoming is None:
            return LOOK_AT_LEAST_MS
        return min(max(upcoming - self._seen_at, 1), LOOK_AT_LEAST_MS)

    async def _settle(self, due: Sequence[Seen], now: int) -> int:
        """Plan and write, so many rows at once; how many schedules moved on."""
        done, rows = 0, 0
        plans: list[Plan] = []
        for place, seen in enumerate(due):
            if place % PLANS_PER_TURN == PLANS_PER_TURN - 1:
                await self._clock.sleep_ms(0)
            plan = settle(seen.schedule, seen.tasks, self.moment(now, int(seen.schedule.id[-2:], 16)))
            if plan is None:
                continue
            plans.append(plan)
            rows += plan.rows
            if rows >= ROWS_MAX:
                done += await self._write(plans)
                plans, rows = [], 0
        return done + await self._write(plans)

    async def _write(self, plans: list[Plan]) -> int:
        if not plans:
            return 0
        term = self._decider.term
        results = await self._database.write(lambda tx: schedules.carry_out(tx, plans, term), Lane.FIRE)
        fresh = [plan for plan, ok in zip(plans, results, strict=True) if ok]
        self._metrics.events["materialise_stale"] += len(plans) - len(fresh)
        for plan in fresh:
            self._report(plan)
        return len(fresh)

    def planned(self, plans: Sequence[Plan]) -> None:
        """Others have planned these, and they are committed: what is next may have changed."""
        for plan in plans:
            self._report(plan)
        self.wake.set()

    def _report(self, plan: Plan) -> None:
        states = [*(change.after for change in plan.changes), *(fire.state for fire in plan.born)]
        # Those that go may have their place in the queue already: they keep it.
        self._intake.due([due_of(state) for state in states if state.state is State.SCHEDULED])
        gone = [msgspec.structs.replace(task, state=State.CANCELLED) for task in plan.withdrawn]
        self._intake.written([*gone, *(state for state in states if state.state is not State.SCHEDULED)])
        for row in plan.ledger:
            self._metrics.events[f"fire_{row.outcome}"] += row.times
        idle = sum(row.times for row in plan.ledger if row.outcome == "missed")
        if idle:
            log.warning("fires_missed", schedule=wire("sch", plan.before.id), times=idle)

    def moment(self, now: int, partition: int, ids: IdMaker | None = None) -> Moment:
        """Now, as a decision sees it; ids of another maker are for who decides in another thread."""
        by = self._decider.recorder(now, partition)
        # Whoever decides first after a gap sees it, and that need not be this loop.
        gap_until = max(self.gap_until, self._decider.ownership.gained_at(partition))
        gap_until = now if now - self._seen_at > self._missed_after_ms else gap_until
        return Moment(by, ids or self._decider.ids, gap_until, self._missed_after_ms, self._missed_rows_max)
