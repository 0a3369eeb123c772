"""Schedules that share a key, whatever is done to them: counts, ledgers and lines agree after each step."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from tasktick.model.change import ACTIONS
from tasktick.model.schedule import Rule, Schedule, pause
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import Claimed
from tasktick.scheduler.book import heeding
from tasktick.scheduler.materialise import Materialiser
from tasktick.scheduler.plan import edit, resume
from tasktick.store import check, schedules
from tasktick.store.schedules import Seen
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.test_materialise import materialiser_of
from tests.store.world import HOUR_MS, World, WorldClock

SEEDS = 8
STEPS = 60
OVERLAPS = ("skip", "allow", "buffer_one", "buffer_all", "cancel_other")
KEYS = (None, "shared", "shared", "other")
RULES = (Rule(every_ms=MINUTE_MS), Rule(every_ms=90_000), Rule(cron="*/3 * * * *"))


class Line:
    """Several schedules, and what somebody does to them."""

    def __init__(self, calendar: Calendar, loop: Materialiser, random: Random) -> None:
        self.calendar, self.loop, self.random = calendar, loop, random
        self.names: list[str] = []
        self._running: dict[str, Claimed] = {}

    async def begin(self) -> None:
        for _ in range(self.random.randint(2, 5)):
            fields: dict[str, Any] = {"overlap": self.random.choice(OVERLAPS), "overlap_key": self.random.choice(KEYS)}
            self.names.append(await self.calendar.create(self.random.choice(RULES), **fields))

    async def step(self) -> None:
        acts: tuple[Callable[[], Awaitable[None]], ...] = (self._pass, self._change, self._stop, self._act, self._work)
        (act,) = self.random.choices(acts, weights=(5, 2, 1, 2, 4))
        await act()

    async def _pass(self) -> None:
        world = self.calendar.world
        world.now += self.random.choice([20_000, MINUTE_MS, MINUTE_MS, 3 * MINUTE_MS, 20 * MINUTE_MS, -30_000])
        for _ in range(40):
            if not await world.database.read(lambda tx: schedules.due(tx, world.now, 100)):
                return
            await self.loop.step()
        pytest.fail("what is due is decided in the end")

    async def _change(self) -> None:
        field = self.random.choice(["overlap", "overlap_key", "rule"])
        value = {"overlap": OVERLAPS, "overlap_key": KEYS, "rule": RULES}[field]
        wanted = {field: self.random.choice(value)}
        seen = await self._settled(self.random.choice(self.names))
        moment = heeding(self.calendar.moment(), {}, seen.line)
        plan = edit(seen.schedule, msgspec.structs.replace(seen.schedule, **wanted), seen.tasks, moment)
        await self.calendar.world.database.write(lambda tx: schedules.define(tx, plan))

    async def _stop(self) -> None:
        seen = await self._settled(self.random.choice(self.names))
        moment = heeding(self.calendar.moment(), {}, seen.line)
        if seen.schedule.paused:
            await self.calendar.move(seen.schedule.id, lambda one: resume(one.schedule, one.tasks, moment))
        else:
            await self.calendar.move(
                seen.schedule.id, lambda one: pause(one.schedule, one.tasks, moment.by, None, None)
            )

    async def _settled(self, name: str) -> Seen:
        """As requests do: what is due is decided before all else."""
        await self._pass()
        return await self.calendar.find(name)

    async def _act(self) -> None:
        """Somebody cancels, holds or runs a fire by hand."""
        fires = [one for one in await self._fires() if one.state in (State.SCHEDULED, State.BLOCKED, State.RETRYING)]
        if fires:
            one = self.random.choice(fires)
            word = self.random.choice(["cancel", "run"] if one.state is not State.BLOCKED else ["cancel"])
            await self.calendar.world.write(ACTIONS[word](one, self.calendar.world.now))

    async def _work(self) -> None:
        world = self.calendar.world
        for task_id in [one for one in self._running if self.random.random() < 0.6]:
            await world.finish(self._running.pop(task_id), self.random.choice([200, 200, 404]))
        ids = [one.id for one in await self._fires() if one.state not in TERMINAL]
        self.random.shuffle(ids)
        self._running |= {one.id: one for one in await world.claim(*ids[:4])}

    async def _fires(self) -> list[Any]:
        found = []
        for name in self.names:
            seen = await self.calendar.find(name)
            found += [one for one in seen.tasks.values() if one.template_id == name]
        return found

    async def check(self) -> None:
        database = self.calendar.world.database
        found = [(name, await database.read(look)) for name, look in check.contents()]
        assert [f"{name}: {detail}" for name, (ok, detail) in found if not ok] == []
        for name in self.names:
            row: Schedule = await self.calendar.row(name)
            ledger = [one.row for one in await self.calendar.ledger(name, limit=10_000)]
            for outcome, count in (("run", row.fired), ("skipped", row.skipped), ("missed", row.missed)):
                assert count == sum(one.times for one in ledger if one.outcome == outcome), outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_is_done_to_schedules_that_share_a_line_adds_up(world: World, seed: int) -> None:
    world.now -= world.now % HOUR_MS
    line = Line(Calendar(world), materialiser_of(world, WorldClock(world)), Random(seed))
    await line.begin()
    for _ in range(STEPS):
        await line.step()
        await line.check()
