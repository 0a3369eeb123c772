"""Whoever keeps schedules in a simulation: makes, changes, pauses and deletes them, in one transaction each, and
notes what was asked once it is committed, whether or not anybody lives to hear of it.
"""

from collections import defaultdict
from collections.abc import Callable
from random import Random

import msgspec

from tasktick.errors import IllegalTransition
from tasktick.model.change import ACTIONS
from tasktick.model.ids import IdMaker
from tasktick.model.line import backfill_line
from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import Plan, Schedule, pause, stand_still
from tasktick.model.state import State
from tasktick.model.task import Payload, Target, TaskState
from tasktick.node import Node
from tasktick.scheduler.backfill import Tasks, backfill, bounds, runs_left, verdicts
from tasktick.scheduler.book import Moment, heeding, new_fire
from tasktick.scheduler.plan import begin, edit, pass_over, resume, settle
from tasktick.store import fires, lines, schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen
from tasktick.timetable.calendars import CLEAR
from tasktick.timetable.upcoming import upcoming
from tests.chaos.ledger_story import Edition
from tests.sim.faults import Disk
from tests.sim.rules import TENANT, TIMEOUT_MS, draw_edit, draw_edition, edited, schedule_of

SCHEDULES_MAX = 12
PAUSES_MS = (1_500, 20_000, 400_000)
# How long ago a backfill ends, how long a stretch it is about, and how many times of it at most.
BACK_MS = (0, 0, 5_000, 400_000)
LONG_MS = (3_000, 30_000, 4_000_000)
FILLED_MAX = 12
PAYLOAD = Payload(
    Target("http://one/", timeout_ms=TIMEOUT_MS),
    RetryPolicy(max_attempts=3, initial_ms=500, factor=2.0, max_delay_ms=4_000),
)
Planner = Callable[[Seen, Moment], Plan]


class Keeper:
    """The clients of a simulation that have to do with schedules."""

    def __init__(self, random: Random, ids: IdMaker, disk: Disk) -> None:
        self._random = random
        self._ids = ids
        self._disk = disk
        self.editions: dict[str, list[Edition]] = {}
        self.triggered: set[str] = set()
        # The times that backfills have put in where nothing was.
        self.filled: defaultdict[str, set[int]] = defaultdict(set)

    def _note(self, schedule_id: str, edition: Edition) -> None:
        self.editions.setdefault(schedule_id, []).append(edition)

    def kept(self) -> list[str]:
        """Schedules that were not deleted."""
        return [name for name, found in self.editions.items() if not found[-1].deleted]

    async def act(self, node: Node) -> str:
        """Do something; what it was."""
        random, kept = self._random, self.kept()
        if len(kept) < 3 or (len(kept) < SCHEDULES_MAX and random.random() < 0.3):
            await self.create(node)
            return "create"
        name = random.choice(kept)
        action = random.choice(
            (
                "edit",
                "edit",
                "pause",
                "pause_until",
                "resume",
                "resume",
                "cancel",
                "cancel_waiting",
                "trigger",
                "delete",
                "backfill",
                "backfill_in_line",
                "run_later",
            )
        )
        match action:
            case "edit":
                await self.edit(node, name)
            case "pause" | "pause_until":
                await self.pause(node, name, random.choice(PAUSES_MS) if action == "pause_until" else None)
            case "resume":
                await self.resume(node, name)
            case "cancel" | "cancel_waiting":
                await self.cancel(node, name, ahead=action == "cancel")
            case "trigger":
                await self.trigger(node, name)
            case "backfill" | "backfill_in_line":
                await self.backfill(node, name, in_line=action == "backfill_in_line")
            case "run_later":
                await self.run_later(node, name)
            case _:
                if random.random() < 0.2:
                    await self.delete(node, name)
        return action

    async def create(self, node: Node) -> None:
        """A new schedule."""
        now, random = node.world.clock.now_ms(), self._random
        edition = draw_edition(random, now)
        schedule_id = self._ids.new(now, random.randrange(256))
        host, expires_in_ms = random.choice(("one:80", "two:80")), 3_000 if random.random() < 0.1 else None
        row = schedule_of(edition, schedule_id, host, expires_in_ms)

        async def operation(tx: Transaction) -> Plan:
            plan = begin(row, node.materialiser.moment(now, int(schedule_id[-2:], 16)))
            await schedules.create(tx, plan, PAYLOAD)
            self._disk.when_committed(lambda: self._note(schedule_id, edition))
            return plan

        self._hint(node, await node.world.database.write(operation))

    async def edit(self, node: Node, name: str) -> None:
        """Other times, or other policies."""
        last = self.editions[name][-1]
        changed = draw_edit(self._random, last)

        async def operation(tx: Transaction, seen: Seen, moment: Moment) -> Plan:
            edition = self._edition(name, seen.schedule, moment, **changed)
            plan = edit(seen.schedule, edited(seen.schedule, edition), seen.tasks, moment)
            await schedules.define(tx, plan)
            self._disk.when_committed(lambda: self._note(name, edition))
            return plan

        await self._change(node, name, operation)

    async def pause(self, node: Node, name: str, for_ms: int | None) -> None:
        """Hold it."""

        async def operation(tx: Transaction, seen: Seen, moment: Moment) -> Plan | None:
            if seen.schedule.paused:
                return None
            until = None if for_ms is None else moment.by.now + for_ms
            plan = pause(seen.schedule, seen.tasks, moment.by, until, None)
            edition = self._edition(name, seen.schedule, moment, paused=True, paused_until=until)
            return await self._carry_out(tx, name, plan, edition)

        await self._change(node, name, operation)

    async def resume(self, node: Node, name: str) -> None:
        """Let it go on."""

        async def operation(tx: Transaction, seen: Seen, moment: Moment) -> Plan | None:
            if not seen.schedule.paused:
                return None
            plan = resume(seen.schedule, seen.tasks, moment)
            edition = self._edition(name, seen.schedule, moment, paused=False, paused_until=None)
            return await self._carry_out(tx, name, plan, edition)

        await self._change(node, name, operation)

    async def hold(self, node: Node, name: str) -> None:
        """Pause it for good: a pause that would end by itself is ended first."""
        if self.editions[name][-1].paused_until is not None:
            await self.resume(node, name)
        await self.pause(node, name, None)

    async def delete(self, node: Node, name: str) -> None:
        """Remove it; its ledger stays."""

        async def operation(tx: Transaction, seen: Seen, moment: Moment) -> Plan:
            plan = stand_still(seen.schedule, seen.tasks, moment.by, "deleted")
            edition = self._edition(name, seen.schedule, moment, deleted=True)
            await schedules.delete(tx, plan)
            self._disk.when_committed(lambda: self._note(name, edition))
            return plan

        await self._change(node, name, operation)

    async def cancel(self, node: Node, name: str, *, ahead: bool) -> None:
        """Cancel the fire ahead, or the one that waits, as a client that knows its id may."""
        now = node.world.clock.now_ms()

        async def operation(tx: Transaction) -> TaskState | None:
            seen = await schedules.find(tx, TENANT, f"sch_{name}")
            row = seen.schedule
            waiting = row.buffered_id or next((one.task_id for one in seen.line if one.waits), None)
            task = seen.tasks.get((row.next_id if ahead else waiting) or "")
            if task is None:
                return None
            try:
                change = ACTIONS["cancel"](task, now)
            except IllegalTransition:
                return None
            await tasks.change(tx, [change])
            return change.after

        after = await node.world.database.write(operation)
        if after is not None:
            node.written([after])

    async def trigger(self, node: Node, name: str) -> None:
        """A fire by hand, outside the ledger."""
        now = node.world.clock.now_ms()

        async def operation(tx: Transaction) -> TaskState:
            seen = await schedules.find(tx, TENANT, f"sch_{name}")
            moment = node.materialiser.moment(now, int(name[-2:], 16))
            fire = new_fire(seen.schedule, now, now, State.SCHEDULED, moment)
            await schedules.trigger(tx, fire, None)
            # Noted whether or not it comes to be: nothing follows from one that is not there.
            self.triggered.add(fire.state.id)
            return fire.state

        state = await node.world.database.write(operation)
        if self._random.random() < 0.7:
            node.written([state])

    async def backfill(self, node: Node, name: str, *, in_line: bool) -> None:
        """Times that have passed run after all, as many as are done at once."""
        back_ms, long_ms = self._random.choice(BACK_MS), self._random.choice(LONG_MS)

        async def operation(tx: Transaction, seen: Seen, moment: Moment) -> Plan | None:
            passed = pass_over(seen.schedule, seen.tasks, moment)
            if passed is not None:
                assert await schedules.carry_out(tx, [passed]) == [True]
                seen = await schedules.find(tx, TENANT, f"sch_{name}")
            schedule, to_at = seen.schedule, moment.by.now - back_ms
            begin_at, end_at = bounds(schedule, to_at - long_ms, to_at)
            times = upcoming(schedule.rule, begin_at - 1, FILLED_MAX, end_at) if begin_at <= end_at else []
            if not times:
                return passed
            rows = await fires.between(tx, name, times[0].nominal_at, times[-1].nominal_at)
            found = verdicts(schedule, times, rows, CLEAR, held_too=False, left=runs_left(schedule, seen.tasks))
            ids = [one.row.task_id for one in found if one.runs and one.row is not None and one.row.task_id is not None]
            idle = {task.id: task for task in await tasks.states(tx, ids)}
            plan = backfill(schedule, found, Tasks(seen.tasks, idle), moment, in_line=in_line)
            assert await schedules.carry_out(tx, [plan]) == [True]
            absent = [one.fire.nominal_at for one in found if one.kind == "absent"]
            self._disk.when_committed(lambda: self.filled[name].update(absent))
            if in_line:
                await lines.begin(tx, TENANT, backfill_line(name), moment.by.now)
            return plan

        await self._change(node, name, operation)

    async def run_later(self, node: Node, name: str) -> None:
        """A time or two that were missed or skipped run, as a client that knows their ids may ask for."""
        now, random = node.world.clock.now_ms(), self._random

        async def operation(tx: Transaction) -> list[TaskState]:
            found = await schedules.ledger(tx, name, outcomes=["missed", "skipped"], limit=20)
            ids = [one.row.task_id for one in found if one.row.task_id is not None]
            rows = await tasks.states(tx, random.sample(ids, min(2, len(ids)))) if ids else []
            changes = [ACTIONS["run"](row, now) for row in rows]
            written = set(await tasks.change(tx, changes, of_many=True)) if changes else set()
            return [change.after for change in changes if change.after.id in written]

        node.written(await node.world.database.write(operation))

    def _edition(self, name: str, schedule: Schedule, moment: Moment, **changed: object) -> Edition:
        """What the schedule will be, told from what it is: a pause that ended by itself is seen here."""
        standing = {"paused": schedule.paused, "paused_until": schedule.paused_until}
        return msgspec.structs.replace(
            self.editions[name][-1], **{"version": schedule.version + 1, "at": moment.by.now} | standing | changed
        )

    async def _carry_out(self, tx: Transaction, name: str, plan: Plan, edition: Edition) -> Plan:
        assert await schedules.carry_out(tx, [plan]) == [True]
        self._disk.when_committed(lambda: self._note(name, edition))
        return plan

    async def _change(self, node: Node, name: str, operation: Callable[..., object]) -> None:
        """Settle what is due, then change it: one transaction."""
        now = node.world.clock.now_ms()

        async def whole(tx: Transaction) -> list[Plan]:
            moment = node.materialiser.moment(now, int(name[-2:], 16))
            plans = []
            seen = await schedules.find(tx, TENANT, f"sch_{name}")
            while seen.schedule.look_at is not None and seen.schedule.look_at <= now:
                plan = settle(seen.schedule, seen.tasks, heeding(moment, {}, seen.line))
                if plan is None:
                    break
                assert await schedules.carry_out(tx, [plan]) == [True]
                plans.append(plan)
                seen = await schedules.find(tx, TENANT, f"sch_{name}")
            changed = await operation(tx, seen, heeding(moment, {}, seen.line))  # type: ignore[misc] # a coroutine of a plan
            return plans if changed is None else [*plans, changed]

        self._hint(node, *await node.world.database.write(whole))

    def _hint(self, node: Node, *plans: Plan) -> None:
        """Say what was written; a hint may be lost."""
        if self._random.random() < 0.7:
            for plan in plans:
                node.written([*(one.after for one in plan.changes), *(fire.state for fire in plan.born)])
