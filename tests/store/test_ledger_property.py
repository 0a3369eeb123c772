"""Whatever is done to a schedule, in any order: one row for each nominal time, and counts that are the ledger's."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasktick.model.change import ACTIONS
from tasktick.model.schedule import CatchUp, Rule, pause
from tasktick.model.state import TERMINAL, State
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import edit, is_time_of, resume, settle, skip
from tasktick.store import check, schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import LedgerEntry, Seen
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.drivers import DRIVERS
from tests.store.filling import fill
from tests.store.world import HOUR_MS, TENANT, World

pytestmark = pytest.mark.slow

STEPS_MS = (MINUTE_MS, 2 * MINUTE_MS)
ACTS = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("pass"), st.integers(5, 40), st.just(False)),
    st.tuples(st.just("fire"), st.sampled_from([200, 404])),
    st.tuples(st.sampled_from(["pause", "resume", "cancel", "skip", "end"])),
    st.tuples(st.just("edit"), st.sampled_from(STEPS_MS), st.sampled_from(["skip", "allow", "buffer_all"])),
    st.tuples(st.just("backfill"), st.integers(-2, 12), st.integers(0, 30), st.booleans(), st.booleans()),
    st.tuples(st.just("run"), st.integers(1, 3)),
)


class Play:
    """A schedule, what is done to it, and which times it must have decided."""

    def __init__(self, world: World) -> None:
        self.calendar = Calendar(world)
        self.calendar.missed_rows_max = 4
        self.world = world
        self.name = ""
        # After which instant its times have which step, and up to when.
        self.eras: list[tuple[int, int, int | None]] = []

    async def begin(self, mode: str, max_fires: int | None) -> None:
        self.world.now -= self.world.now % HOUR_MS
        self.calendar.gap_until = self.world.now
        self.eras = [(self.world.now, MINUTE_MS, None)]
        catch_up = CatchUp(mode)  # type: ignore[arg-type] # one of them
        self.name = await self.calendar.create(catch_up=catch_up, max_fires=max_fires)

    async def act(self, act: tuple[object, ...]) -> None:
        match act:
            case ("pass", int(minutes), bool(seen)):
                await self.calendar.pass_ms(minutes * MINUTE_MS, seen=seen)
            case ("fire", int(status)):
                await self._fire(status)
            case ("run", int(times)):
                await self.world.database.write(lambda tx: self._run(tx, times))
            case _:
                await self.world.database.write(lambda tx: self._in_one(tx, act))

    async def _fire(self, status: int) -> None:
        """The next of its fires, at its time; if that may go."""
        seen = await self.calendar.find(self.name)
        if seen.schedule.next_id is None or seen.schedule.next_due_at is None:
            return
        self.world.now = max(self.world.now, seen.schedule.next_due_at)
        for claimed in await self.world.claim(seen.schedule.next_id):
            await self.world.finish(claimed, status)
        await self.calendar.settle()

    async def _run(self, tx: Transaction, times: int) -> None:
        """Some that were missed or skipped, by hand."""
        found = await schedules.ledger(tx, self.name, outcomes=["missed", "skipped"])
        ids = [one.row.task_id for one in found if one.row.task_id is not None][:times]
        rows = await tasks.states(tx, ids) if ids else []
        await tasks.change(tx, [ACTIONS["run"](row, self.world.now) for row in rows], of_many=True)

    async def _seen(self, tx: Transaction) -> Seen:
        """The schedule, once all is decided that is due."""
        seen = await schedules.find(tx, TENANT, f"sch_{self.name}")
        while seen.schedule.look_at is not None and seen.schedule.look_at <= self.world.now:
            plan = settle(seen.schedule, seen.tasks, heeding(self.calendar.moment(), {}, seen.line))
            if plan is None:
                break
            assert await schedules.carry_out(tx, [plan]) == [True]
            [seen] = await schedules.seen(tx, [plan.after])
        return seen

    async def _in_one(self, tx: Transaction, act: tuple[object, ...]) -> None:
        seen = await self._seen(tx)
        schedule, now = seen.schedule, self.world.now
        moment = heeding(self.calendar.moment(), {}, seen.line)
        match act:
            case ("pause",):
                await schedules.carry_out(tx, [pause(schedule, seen.tasks, moment.by, None, None)])
            case ("resume",) if schedule.paused:
                await schedules.carry_out(tx, [resume(schedule, seen.tasks, moment)])
            case ("skip",) if schedule.next_at is not None and is_time_of(schedule, schedule.next_at):
                skips = tuple(sorted({*schedule.skips, schedule.next_at}))
                await schedules.carry_out(tx, [skip(schedule, skips, seen.tasks, moment)])
            case ("cancel",) if schedule.next_id is not None:
                ahead = seen.tasks[schedule.next_id]
                if ahead.state is State.SCHEDULED:
                    await tasks.change(tx, [ACTIONS["cancel"](ahead, now)])
            case ("edit", int(step_ms), str(overlap)):
                wanted = replaced(schedule, rule=Rule(every_ms=step_ms), overlap=overlap)
                plan = edit(schedule, wanted, seen.tasks, moment)
                await schedules.define(tx, plan)
                done = max([schedule.cursor_at, *(row.last_at for row in plan.ledger)])
                # One that was at its end has no times until now.
                self.eras[-1] = (*self.eras[-1][:2], done)
                self.eras.append((plan.after.cursor_at, step_ms, None))
            case ("backfill", int(ago), int(length), bool(in_line), bool(held)):
                until = min(now, now - ago * MINUTE_MS)
                stretch = (until - length * MINUTE_MS, until)
                await fill(tx, seen, self.calendar.moment(), stretch, in_line=in_line, held_too=held)
            case _:
                pass

    async def check(self) -> None:
        row = await self.calendar.row(self.name)
        entries = await self.calendar.ledger(self.name, limit=100_000)
        totals: Counter[str] = Counter()
        last_at = -1
        for entry in entries:
            assert entry.row.nominal_at > last_at, "a time has two rows"
            last_at = entry.row.last_at
            totals[entry.row.outcome] += entry.row.times
        assert (row.fired, row.skipped, row.missed) == (totals["run"], totals["skipped"], totals["missed"])
        assert row.failed == sum(entry.row.failed for entry in entries)
        named = [entry.row.task_id for entry in entries if entry.row.times == 1]
        assert None not in named
        assert len(set(named)) == len(named)
        assert all(entry.state in TERMINAL for entry in entries if entry.row.outcome != "run" and entry.row.task_id)
        assert row.max_fires is None or row.fired <= row.max_fires + self._by_hand(entries)
        self._covered(entries, row.cursor_at)
        found = [(name, await self.world.database.read(look)) for name, look in check.contents()]
        assert [f"{name}: {detail}" for name, (ok, detail) in found if not ok] == []

    def _by_hand(self, entries: list[LedgerEntry]) -> int:
        return sum(entry.row.reason == "run_later" for entry in entries)

    def _covered(self, entries: list[LedgerEntry], cursor_at: int) -> None:
        """What was decided in its course is every time of each era, and no other."""
        wanted: list[int] = []
        for after, step_ms, until_at in self.eras:
            until = cursor_at if until_at is None else until_at
            wanted += range(after - after % step_ms + step_ms, until + 1, step_ms)
        found: list[int] = []
        for entry in entries:
            row = entry.row
            if row.by_backfill and row.was is None:
                continue
            step_ms = next(step for after, step, _ in reversed(self.eras) if after < row.nominal_at)
            times = range(row.nominal_at, row.last_at + 1, step_ms)
            assert len(times) == row.times, "a stretch has another number of times than it says"
            found += times
        assert found == wanted


@given(
    acts=st.lists(ACTS, min_size=3, max_size=25),
    mode=st.sampled_from(["latest", "all", "none"]),
    max_fires=st.sampled_from([None, None, 6]),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_time_has_one_row_and_the_counts_are_those_of_the_ledger(
    acts: list[tuple[object, ...]], mode: str, max_fires: int | None
) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with DRIVERS["sqlite"](Path(folder)) as database:
                world = World(database)
                await world.start()
                one = Play(world)
                await one.begin(mode, max_fires)
                for act in acts:
                    await one.act(act)
                    await one.check()
                await world.check_counts()

    asyncio.run(play())
