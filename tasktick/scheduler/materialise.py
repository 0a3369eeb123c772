"""Decides about the times of schedules as they come, and keeps one fire of each ahead.

A fire is a task like any other and needs nobody here to start on its millisecond; this loop follows behind: when a
fire is due it writes down what became of it, and makes the next. What it finds undecided when nobody was there (this
start, a step of the clock, a store that did not answer) is what catch-up is for. As long as the loop is there and
merely late, nothing is dropped.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from tasktick import logs
from tasktick.clock import Clock
from tasktick.cluster.ownership import Ownership
from tasktick.errors import StoreError, StoreFull
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker, partition_of, wire
from tasktick.model.schedule import Plan, Recorder
from tasktick.model.state import State
from tasktick.model.task import due_of
from tasktick.scheduler.book import Moment
from tasktick.scheduler.intake import Intake
from tasktick.scheduler.pace import Pace
from tasktick.scheduler.plan import starts_by_decision
from tasktick.scheduler.turns import TURNS_MAX, Turns, in_lines
from tasktick.store import schedules
from tasktick.store.protocol import Database, Lane
from tasktick.store.schedules import Seen, Term
from tasktick.timetable import zones

log = logs.get("scheduler")

LOOK_AT_LEAST_MS = 1_000
FULL_REST_MS = 500
STALE_REST_MS = 5
# A schedule that cannot be decided about, which is a fault of ours, is tried again so much later.
FAILED_REST_MS = 60_000
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
        return Term(self.ownership.incarnation, self.ownership.epochs, self.ownership.beat)

    def recorder(self, now: int, partition: int) -> Recorder:
        """As the ledger names it."""
        return Recorder(now, self.node, self.ownership.epochs.get(partition, 0), zones.version())


class Moments:
    """A round's moment, as each partition sees it: made once for all of its schedules."""

    def __init__(self, make: Callable[[int], Moment]) -> None:
        self._make = make
        self._made: dict[tuple[int, int], Moment] = {}

    def of(self, partition: int, gap_until: int) -> Moment:
        """That of this partition, as long as the gap is the same."""
        found = self._made.get((partition, gap_until))
        if found is None:
            found = self._made[partition, gap_until] = self._make(partition)
        return found


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
        self._carry_out = schedules.carry_out_batch(lambda: decider.term)
        self._intake = intake
        self._missed_after_ms = missed_after_ms
        self._missed_rows_max = missed_rows_max
        # Times up to here may have passed unseen.
        self.gap_until = clock.now_ms()
        self._seen_at = self.gap_until
        # When the look that is under way began, by both clocks.
        self._look: tuple[int, float] | None = None
        self._pace = Pace()
        self._planned = 0

    async def start(self) -> None:
        """Decide about all that came due before this start: nobody claims a fire that catch-up will drop.

        What comes due meanwhile is left to the loop, or a busy calendar would never let anything else start.
        """
        now = self._clock.now_ms()
        outdate = partial(schedules.outdate, now=now, tzdata=zones.version())
        while await self._database.write(outdate, Lane.UPKEEP):
            pass
        try:
            while await self._round(now):
                pass
        except StoreFull:
            log.warning("schedules_wait_for_disk")

    async def step(self) -> float:
        """Decide about what is due; how long until there is more."""
        now, began_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        partitions = self._decider.ownership.partitions
        try:
            done = await self._round(now)
            if done is not None:
                took_ms = self._clock.monotonic_ms() - began_ms
                pressed = self._intake.is_pressed()
                return self._pace.rest_ms(took_ms, self._seen_at, pressed=pressed) if done else STALE_REST_MS
            upcoming = await self._database.near.read(lambda tx: schedules.next_look(tx, now, partitions))
        except StoreFull:
            return FULL_REST_MS
        if upcoming is None:
            return LOOK_AT_LEAST_MS
        return min(max(upcoming - self._seen_at, 1), LOOK_AT_LEAST_MS)

    async def _round(self, until: int) -> int | None:
        """Decide about some of what was due by then; how many schedules moved on, None if nothing was due."""
        now = self._notice()
        self._look = now, self._clock.monotonic_ms()
        partitions = self._decider.ownership.partitions
        self._pace.begin(pressed=self._intake.is_pressed())
        most = self._pace.schedules_max
        try:
            due = await self._database.near.read(lambda tx: schedules.due(tx, until, most, partitions))
            if any(starts_by_decision(one.schedule) for one in due):
                self._pace.hurry(now)
            self._pace.found(len(due), max((now - (one.schedule.look_at or now) for one in due[:1]), default=0))
            done = await self._settle(due, now) if due else None
            ended = self._notice()
        finally:
            self._look = None
        self._seen_at = ended
        return done

    def _notice(self) -> int:
        """The time, after a look at whether times up to now may have passed unseen.

        Nobody has looked for so long, or the clock was set forward; that a look takes long is no such thing. Times
        that a clock set back brings once more are seen as they come.
        """
        now, look = self._clock.now_ms(), self._look
        self.gap_until = min(self.gap_until, now)
        began_at, took_ms = self._seen_at, 0.0
        if look is not None:
            began_at, took_ms = look[0], self._clock.monotonic_ms() - look[1]
        unseen_ms = now - began_at - took_ms
        if unseen_ms > self._missed_after_ms:
            log.warning("schedules_unseen", for_ms=int(unseen_ms))
            self.gap_until = self._seen_at = now
        elif unseen_ms < 0:
            self._seen_at = min(self._seen_at, now)
        else:
            return now
        if look is not None:
            self._look = now, self._clock.monotonic_ms()
        return now

    async def _settle(self, due: Sequence[Seen], now: int) -> int:
        """Plan and write, so many rows at once; how many schedules moved on."""
        done, rows = 0, 0
        plans: list[Plan] = []
        failed: dict[str, Exception] = {}
        moments = Moments(partial(self._moment, now))
        for together in in_lines(due):
            made = await self._planned_together(together, moments, failed)
            plans += made
            rows += sum(plan.rows for plan in made)
            if rows >= self._pace.rows_max:
                done += await self._write(plans, failed)
                plans, rows = [], 0
        done += await self._write(plans, failed)
        if failed:
            await self._put_off(failed)
        return done + len(failed)

    async def _planned_together(
        self, together: Sequence[Seen], moments: Moments, failed: dict[str, Exception]
    ) -> list[Plan]:
        """Plans for one, or for those of a line: they are written together."""
        turns, made = Turns(together[:TURNS_MAX]), list[Plan]()
        self._pace.is_behind = self._pace.is_behind or len(together) > TURNS_MAX
        for seen in together[:TURNS_MAX]:
            self._planned += 1
            if self._planned % PLANS_PER_TURN == 0:
                await self._clock.sleep_ms(0)
            schedule = seen.schedule
            try:
                plan = turns.plan(seen, moments.of(partition_of(schedule.id), self.gap_until))
            except Exception as error:  # noqa: BLE001 - one schedule at fault must not stop all the others
                failed[schedule.id] = error
                continue
            if plan is not None:
                made.append(plan)
        return made

    async def _write(self, plans: list[Plan], failed: dict[str, Exception]) -> int:
        """Write plans; how many were not stale. One that cannot be written fails alone."""
        results = await self._database.write_batch(self._carry_out, plans)
        fresh: list[Plan] = []
        for plan, result in zip(plans, results, strict=True):
            if isinstance(result, StoreError):
                raise result
            if isinstance(result, Exception):
                failed[plan.before.id] = result
            elif result:
                fresh.append(plan)
            else:
                self._metrics.events["materialise_stale"] += 1
        self._report(fresh)
        looks = [plan.after.look_at for plan in fresh if plan.after.look_at is not None]
        if looks:
            self._pace.comes_again(min(looks), self._seen_at)
        return len(fresh)

    async def _put_off(self, failed: Mapping[str, Exception]) -> None:
        """Look at these later: they are at fault, and must neither hold up the others nor be tried without end."""
        for schedule_id, error in failed.items():
            self._metrics.events["materialise_failed"] += 1
            name = wire("sch", schedule_id)
            log.error("schedule_not_decided", schedule=name, error=str(error), kind=type(error).__name__)
        later = self._clock.now_ms() + FAILED_REST_MS
        await self._database.write(lambda tx: schedules.put_off(tx, sorted(failed), later), Lane.UPKEEP)

    def planned(self, plans: Sequence[Plan]) -> None:
        """Others have planned these, and they are committed: what is next may have changed."""
        self._report(plans)
        self.wake.set()

    def _report(self, plans: Sequence[Plan]) -> None:
        changed = [change.after for plan in plans for change in plan.changes]
        # Those that go may have their place in the queue already: they keep it.
        self._intake.due([due_of(state) for state in changed if state.state is State.SCHEDULED])
        self._intake.born([fire.state for plan in plans for fire in plan.born])
        # Last: of several plans of one schedule the later may take back what an earlier one made.
        gone = [msgspec.structs.replace(task, state=State.CANCELLED) for plan in plans for task in plan.withdrawn]
        self._intake.written([*gone, *(state for state in changed if state.state is not State.SCHEDULED)])
        for plan in plans:
            for row in plan.ledger:
                self._metrics.events[f"fire_{row.outcome}"] += row.times
            idle = sum(row.times for row in plan.ledger if row.outcome == "missed")
            if idle:
                log.warning("fires_missed", schedule=wire("sch", plan.before.id), times=idle)

    def moment(self, now: int, partition: int, ids: IdMaker | None = None) -> Moment:
        """Now, as a decision of somebody else sees it; with ids of another maker, if that is in another thread.

        Whoever decides first after a gap sees it, and that need not be this loop.
        """
        self._notice()
        return self._moment(now, partition, ids)

    def _moment(self, now: int, partition: int, ids: IdMaker | None = None) -> Moment:
        by = self._decider.recorder(now, partition)
        gap_until = max(self.gap_until, self._decider.ownership.gained_at(partition))
        return Moment(by, ids or self._decider.ids, gap_until, self._missed_after_ms, self._missed_rows_max)
