"""Whoever uses a simulated ring: through any node, with hints that may be lost, and answers that may never come."""

import asyncio
from random import Random

from tasktick.errors import IllegalTransition, StoreError
from tasktick.model.change import ACTIONS, Change, patch
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import CatchUp, FireTemplate, Plan, Rule, Schedule, pause
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.scheduler.plan import begin, settle
from tasktick.store import schedules, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create
from tasktick.timetable.fires import cursor_at
from tests.sim.ring_node import RingNode
from tests.sim.ring_town import RingTown

TIMEOUT_MS = 1_000
DELAYS_MS = (0, 0, 15, 300, 1_500, 4_000)
MOVED_BY_MS = (400, 3_000, 6_000)
SCHEDULES_MAX = 4
ACTS = ("cancel", "cancel", "pause", "resume", "run", "retry", "move", "move", "move")


class RingClients:
    """All of them."""

    def __init__(self, town: RingTown, seed: int, *, loses_hints: bool) -> None:
        self._town = town
        self._random = Random(f"clients.{seed}")
        self._ids = IdMaker(Random(f"client ids.{seed}"))
        self._loses_hints = loses_hints
        self.acknowledged: dict[str, TaskState] = {}
        self.schedules: list[str] = []

    async def play(self, for_s: float) -> None:
        """Use it, for so long; nobody waits for an answer before the next one asks."""
        until = self._town.loop.time() + for_s
        while self._town.loop.time() < until:
            await asyncio.sleep(self._random.random() * 0.25)
            up = self._town.up()
            if up:
                self.ask(self._random.choice(up))

    def ask(self, node: RingNode) -> None:
        """Something, of this node."""
        drawn = self._random.random()
        if drawn < 0.65 or not self.acknowledged:
            work = self.create(node, self._random.choice((1, 1, 2, 6)), self._random.choice(DELAYS_MS))
        elif drawn < 0.7 and len(self.schedules) < SCHEDULES_MAX:
            work = self._schedule(node, self._random.choice((700, 1_500)))
        else:
            work = self._act(node)
        self._town.mind(node.run(work))

    def forget(self) -> None:
        """What the store has forgotten was acknowledged in vain: an asynchronous standby loses it, and that is said."""
        look = self._town.server.look
        there = {row[0] for row in look("SELECT id FROM tasks")}
        lost = [one for one in self.acknowledged if one not in there]
        for one in lost:
            del self.acknowledged[one]
        self._town.watch.sometimes["lost by an asynchronous standby"] += len(lost)
        kept = {row[0] for row in look("SELECT id FROM schedules")}
        self.schedules = [one for one in self.schedules if one in kept]

    def _hint_is_lost(self) -> bool:
        return self._loses_hints and self._random.random() < 0.4

    async def create(self, node: RingNode, count: int, in_ms: int, *, hint: bool = True) -> None:
        """So many tasks; what a client has not been told may be there or not."""
        new = [self._new_task(in_ms) for _ in range(count)]
        results = await node.database.write_batch(CREATE, [Create(one) for one in new])
        made = [one.state for one, result in zip(new, results, strict=True) if not isinstance(result, StoreError)]
        wrong = [result for result in results if result is not None and not isinstance(result, StoreError)]
        if wrong:
            self._town.watch.wrong(f"a task that was asked for once could not be made: {wrong[0]!r}")
        self.acknowledged |= {state.id: state for state in made}
        if not hint or self._hint_is_lost():
            self._town.watch.unhinted |= {state.id for state in made}
        else:
            node.node.written(made)

    def _new_task(self, in_ms: int) -> NewTask:
        now, random = self._town.server.now_ms(), self._random
        run_at = now + in_ms
        state = TaskState(
            id=self._ids.new(now, random.randrange(256)),
            tenant="default",
            state=State.SCHEDULED,
            queue="default",
            host=random.choice(("one:80", "two:80", "three:80")),
            priority=random.randrange(10),
            run_at=run_at,
            due_at=run_at,
            wake_at=run_at,
            max_attempts=3,
            timeout_ms=TIMEOUT_MS,
            updated_at=now,
            at_most_once=random.random() < 0.1,
        )
        policy = RetryPolicy(max_attempts=3, initial_ms=300, factor=2.0, max_delay_ms=1_000)
        target = Target(f"http://{state.host}/", timeout_ms=TIMEOUT_MS)
        return NewTask(state, TaskDetail(state.id, state.tenant, now), Payload(target, policy))

    async def _act(self, node: RingNode) -> None:
        random, server = self._random, self._town.server
        name = random.choice(ACTS)
        candidates = sorted(self.acknowledged)
        if name == "move":  # away from a time that is so near that wheels know it
            now = server.now_ms()
            candidates = [one for one in candidates if 0 < self.acknowledged[one].run_at - now < 2_500] or candidates
        task_id, later_ms = random.choice(candidates), random.choice(MOVED_BY_MS)

        async def operation(tx: Transaction) -> TaskState | None:
            now = server.now_ms()
            found = await tasks.states(tx, [task_id])
            if not found:  # a server was lost that had it
                return None
            before = found[0]
            try:
                change = _move(before, now, now + later_ms) if name == "move" else ACTIONS[name](before, now)
            except IllegalTransition:  # most acts do not fit the state
                return None
            return change.after if await tasks.change(tx, [change]) else None

        after = await node.database.write(operation)
        if after is not None:
            self._town.watch.sometimes[f"client {name}"] += 1
            if not self._hint_is_lost():
                node.node.written([after])

    async def _schedule(self, node: RingNode, every_ms: int) -> None:
        """A schedule that fires so often."""
        now, rule = self._town.server.now_ms(), Rule(every_ms=every_ms)
        cursor = cursor_at(rule, now)
        schedule = Schedule(
            id=self._ids.new(now, self._random.randrange(256)),
            rule=rule,
            tenant="default",
            version=1,
            created_at=now,
            updated_at=now,
            overlap="allow",
            catch_up=CatchUp(),
            template=FireTemplate("one:80", "default", 5, 3, TIMEOUT_MS, 30_000),
            payload_version=1,
            cursor_at=cursor.at,
            cursor_local_ms=cursor.local_ms,
        )
        target = Target("http://one/", timeout_ms=TIMEOUT_MS)
        payload = Payload(target, RetryPolicy(max_attempts=3, initial_ms=300, factor=2.0, max_delay_ms=1_000))

        async def operation(tx: Transaction) -> Plan:
            plan = begin(schedule, node.node.deciding(schedule.id))
            await schedules.create(tx, plan, payload)
            return plan

        plan = await node.database.write(operation)
        self.schedules.append(schedule.id)
        if not self._hint_is_lost():
            node.node.planned([plan])

    async def hold(self, node: RingNode, schedule_id: str) -> None:
        """Decide about what has come, and pause it for good."""

        async def operation(tx: Transaction) -> None:
            moment = node.node.deciding(schedule_id)
            seen = await schedules.find(tx, "default", f"sch_{schedule_id}")
            while seen.schedule.look_at is not None and seen.schedule.look_at <= moment.by.now:
                plan = settle(seen.schedule, seen.tasks, moment)
                if plan is None:
                    break
                await schedules.carry_out(tx, [plan])
                seen = await schedules.find(tx, "default", f"sch_{schedule_id}")
            if not seen.schedule.paused:
                await schedules.carry_out(tx, [pause(seen.schedule, seen.tasks, moment.by, None, None)])

        await node.database.write(operation)


def _move(task: TaskState, now: int, later: int) -> Change:
    if task.attempt:
        raise IllegalTransition("only before it runs")
    return patch(task, now, run_at=later, due_at=later, wake_at=later)
