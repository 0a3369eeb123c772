"""Schedules on a store's `World`: made, settled as the clock goes on, and read back."""

from collections.abc import Callable
from typing import Any

import msgspec

from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import CatchUp, FireTemplate, Plan, Recorder, Rule, Schedule
from tasktick.model.state import State
from tasktick.model.task import Claimed, Payload, Target, TaskState
from tasktick.scheduler.book import Moment, heeding
from tasktick.scheduler.plan import begin, settle
from tasktick.store import schedules
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import LedgerEntry, Seen, Term
from tasktick.timetable.fires import cursor_at
from tests.store.world import NODE, TENANT, World

MINUTE_MS = 60_000
MISSED_AFTER_MS = 60_000
TZDATA = "2026a"
PARTITION = 42


class Calendar:
    """The hands of whoever decides about schedules."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gap_until = world.now
        self.tzdata = TZDATA
        self.missed_rows_max = 1_000

    def moment(self) -> Moment:
        """Now, as a decision sees it."""
        by = Recorder(self.world.now, NODE, self.world.epochs[PARTITION], self.tzdata)
        return Moment(by, self.world.ids, self.gap_until, MISSED_AFTER_MS, self.missed_rows_max)

    def schedule(self, rule: Rule | None = None, **fields: Any) -> Schedule:
        """One that fires each minute, if nothing else is said."""
        world, rule = self.world, rule or Rule(every_ms=MINUTE_MS)
        cursor = cursor_at(rule, world.now)
        columns: dict[str, Any] = {
            "tenant": TENANT,
            "version": 1,
            "created_at": world.now,
            "updated_at": world.now,
            "overlap": "skip",
            "catch_up": CatchUp(),
            "template": FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000),
            "payload_version": 1,
            "cursor_at": cursor.at,
            "cursor_local_ms": cursor.local_ms,
        }
        return Schedule(rule=rule, **{"id": world.ids.new(world.now, PARTITION), **columns, **fields})

    async def create(self, rule: Rule | None = None, **fields: Any) -> str:
        """The id of a schedule that was made."""
        plan = begin(self.schedule(rule, **fields), self.moment())
        payload = Payload(Target("https://receiver.example/hook", body_kind="json", body="{}"), RetryPolicy(jitter=0.0))
        await self.world.database.write(lambda tx: schedules.create(tx, plan, payload))
        return plan.before.id

    async def find(self, schedule_id: str) -> Seen:
        """The schedule as it stands."""
        return await self.world.database.read(lambda tx: schedules.find(tx, TENANT, f"sch_{schedule_id}"))

    async def row(self, schedule_id: str) -> Schedule:
        return (await self.find(schedule_id)).schedule

    async def write(self, *plans: Plan) -> list[bool]:
        """Which of these plans were carried out, under this node's leases."""
        term = Term(self.world.incarnation, self.world.epochs)
        return await self.world.database.write(lambda tx: schedules.carry_out(tx, list(plans), term))

    async def settle(self) -> int:
        """Decide about everything that is due; how many plans that took."""
        plans = 0
        while due := await self.world.database.read(lambda tx: schedules.due(tx, self.world.now, 100)):
            made = [settle(one.schedule, one.tasks, heeding(self.moment(), one.calendars, one.line)) for one in due]
            found = [plan for plan in made if plan is not None]
            assert found, "what is due has something to be decided"
            assert all(await self.write(*found))
            plans += len(found)
        return plans

    async def move(self, schedule_id: str, plan_of: Callable[[Seen], Plan]) -> Plan:
        """Plan in the transaction, as the API does."""

        async def operation(tx: Transaction) -> Plan:
            seen = await schedules.find(tx, TENANT, f"sch_{schedule_id}")
            plan = plan_of(seen)
            assert await schedules.carry_out(tx, [plan]) == [True]
            return plan

        return await self.world.database.write(operation)

    async def pass_ms(self, duration_ms: int, *, seen: bool = True) -> None:
        """Let time pass and decide about what came due; unseen time is a gap."""
        self.world.now += duration_ms
        if not seen:
            self.gap_until = self.world.now
        await self.settle()

    async def ledger(self, schedule_id: str, **by: Any) -> list[LedgerEntry]:
        """What became of its times, the earliest first."""
        rows = await self.world.database.read(lambda tx: schedules.ledger(tx, schedule_id, **by))
        return rows[::-1]

    async def outcomes(self, schedule_id: str) -> list[str]:
        """The same in words."""
        return [
            one.row.outcome + (f"({one.row.reason})" if one.row.reason else "")
            for one in await self.ledger(schedule_id)
        ]

    async def ahead(self, schedule_id: str) -> TaskState:
        """The fire that is made ahead."""
        seen = await self.find(schedule_id)
        assert seen.schedule.next_id is not None
        return seen.tasks[seen.schedule.next_id]

    async def run_ahead(self, schedule_id: str) -> Claimed:
        """Move to the time of the fire ahead and claim it; nothing is decided yet."""
        ahead = await self.ahead(schedule_id)
        self.world.now = max(self.world.now, ahead.due_at)
        return (await self.world.claim(ahead.id))[0]

    async def fire(self, schedule_id: str, status: int = 200) -> State | None:
        """Run the fire ahead to its end, and settle."""
        claimed = await self.run_ahead(schedule_id)
        state = await self.world.finish(claimed, status)
        await self.settle()
        return state


def replaced(schedule: Schedule, **fields: Any) -> Schedule:
    """The schedule with other fields."""
    return msgspec.structs.replace(schedule, **fields)
