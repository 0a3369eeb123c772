"""Plays one seed: clients, deaths at any await, clocks that step; then calm, and everything must add up."""

import asyncio
import hashlib
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import msgspec

from tasktick.dispatch.sender import SpawningSender
from tasktick.errors import IllegalTransition
from tasktick.metrics import Metrics
from tasktick.model.attempt import AttemptRow
from tasktick.model.change import ACTIONS, Change, patch
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.node import Node, World
from tasktick.service import Services
from tasktick.settings import Config, DispatchConfig, SchedulerConfig
from tasktick.store import attempts, counts, tasks
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create
from tests import scratch
from tests.sim.loop import SimLoop
from tests.sim.world import (
    Hit,
    Life,
    NoSecrets,
    Receivers,
    SimClock,
    SimSender,
    open_database,
    unsealed,
)
from tests.store import told

LIVES_MAX = 5
CONVERGE_SECONDS = 900.0
TIMEOUT_MS = 2_000
MOVED_BY_MS = 25_000
CONFIG = Config(
    scheduler=SchedulerConfig(horizon_ms=20_000, full_every_ms=5_000, ready_max=40, lane_max=15),
    dispatch=DispatchConfig(
        start_delay_ms=500, lease_margin_ms=500, grace_max_ms=1_000, in_flight_max=24, in_flight_per_host_max=8
    ),
)


class Report(msgspec.Struct):
    """What a seed showed."""

    seed: int
    trace: str
    violations: list[str]
    sometimes: Counter[str]


class Play:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.path = folder / "tasktick.db"
        self.loop = SimLoop(Random(seed + 1))
        self.clock = SimClock(self.loop)
        self.receivers = Receivers(self.loop, seed)
        self.ids = IdMaker(Random(seed + 2))
        self.acknowledged: dict[str, TaskState] = {}
        self.cancelled: dict[str, int] = {}
        self.deaths: list[int] = []
        self.trace: list[str] = []
        self.sometimes: Counter[str] = Counter()
        self.run_early: set[str] = set()
        self.moved: dict[str, tuple[int, int]] = {}
        self.stepped_back = False

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

    async def _play(self) -> Report:
        lives = self.random.randint(2, LIVES_MAX)
        for number in range(lives):
            await self._live(number, last=number == lives - 1)
            await asyncio.sleep(self.random.random() * 3)
        violations = await self._check()
        text = "\n".join(self.trace + [repr(hit) for hit in self.receivers.hits])
        return Report(self.seed, hashlib.sha256(text.encode()).hexdigest()[:16], violations, self.sometimes)

    async def _live(self, number: int, *, last: bool) -> None:
        """One process: it starts, clients use it, and it dies in the middle of anything; the last one is let finish."""
        life, services, metrics = Life(), Services(self.clock), Metrics()
        database, bury = open_database(self.path, life, self.random, lambda error: services.crash("store", error))
        database.start(services.spawn)
        sender = SimSender(self.receivers, self.clock, life, number)
        world = World(
            clock=self.clock,
            random=Random(self.seed * 100 + number),
            ids=self.ids,
            database=database,
            sender=SpawningSender(sender, services.spawn),
            unseal=unsealed,
            signing=NoSecrets(),
            services=services,
            metrics=metrics,
        )
        node = Node(CONFIG, "sim", world)
        death: asyncio.Future[None] = self.loop.create_future()
        if not last:
            self.loop.at_step(self.random.randint(200, 12_000), lambda: _settle(death))
        living = self.loop.create_task(self._use(node, last=last))
        await asyncio.wait({living, death}, return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()
        self.sometimes.update(metrics.events + metrics.attempts)
        if last or (living.done() and self.random.random() < 0.5):
            await services.stop()
            self.sometimes["stopped"] += 1
        life.dead = True
        self.deaths.append(int(self.clock.monotonic_ms()))
        self.trace.append(f"death {number} at {self.loop.time():.6f} step {self.loop.steps}")
        ghosts = [task for task in self.loop.living() if task is not asyncio.current_task()]
        for ghost in ghosts:
            ghost.cancel()
        await asyncio.gather(*ghosts, return_exceptions=True)
        bury()

    async def _use(self, node: Node, *, last: bool) -> None:
        await node.start()
        clients = [self.loop.create_task(self._client(node, Random(self.random.random()))) for _ in range(3)]
        await asyncio.gather(*clients)
        if last:
            await self._converge(node)

    async def _client(self, node: Node, random: Random) -> None:
        database = node.world.database
        for _ in range(random.randint(5, 25)):
            await asyncio.sleep(random.random() * 1.5)
            new = [self._new_task(random) for _ in range(random.choice((1, 1, 1, 5, 30)))]
            results = await database.write_batch(CREATE, [Create(one) for one in new])
            assert results == [None] * len(new)
            for one in new:
                self.acknowledged[one.state.id] = one.state
            node.written([one.state for one in new] if random.random() < 0.7 else [])  # a hint may be lost
            if random.random() < 0.3 and self.acknowledged:
                await self._act(node, random)
            if random.random() < 0.05:
                step_ms = random.choice((-1, 1)) * random.choice((50, 1_500, 60_000))
                self.stepped_back |= step_ms < 0
                self.clock.offset_ms += step_ms
                self.sometimes["clock_set"] += 1

    async def _act(self, node: Node, random: Random) -> None:
        name = random.choice(("cancel", "pause", "resume", "run", "retry", "cancel", "move", "move", "move"))
        candidates = sorted(self.acknowledged)
        if name == "move":  # away from a time that is so near that the wheel and the rows beside it know it
            near = [one for one, state in self.acknowledged.items() if 0 < state.run_at - self.clock.now_ms() < 2_000]
            candidates = near or candidates
        task_id = random.choice(candidates)
        now = self.clock.now_ms()
        if name == "run":
            self.run_early.add(task_id)  # it may happen though its acknowledgement is lost

        async def operation(tx: Transaction) -> TaskState | None:
            before = (await tasks.states(tx, [task_id]))[0]
            try:
                change = _move(before, now) if name == "move" else ACTIONS[name](before, now)
            except IllegalTransition:  # most acts do not fit the state
                return None
            await tasks.change(tx, [change])
            return change.after

        after = await node.world.database.write(operation)
        if after is not None:
            self.sometimes[name] += 1
            if name == "move":
                self.moved[task_id] = (int(self.clock.monotonic_ms()), after.run_at)
                if random.random() < 0.7:
                    return  # the hint is lost
            if after.state is State.CANCELLED:
                self.cancelled[task_id] = int(self.clock.monotonic_ms())
            else:
                self.cancelled.pop(task_id, None)
            node.written([after])

    def _new_task(self, random: Random) -> NewTask:
        now = self.clock.now_ms()
        run_at = now + random.choice((0, 0, 20, 500, 3_000, 15_000, 45_000))
        task_id = self.ids.new(now, random.randrange(256))
        expires_at = run_at + 4_000 if random.random() < 0.1 else None
        state = TaskState(
            id=task_id,
            tenant=random.choice(("a", "b")),
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
            at_most_once=random.random() < 0.2,
            expires_at=expires_at,
        )
        policy = RetryPolicy(max_attempts=3, initial_ms=500, factor=2.0, max_delay_ms=4_000)
        target = Target("http://one/", timeout_ms=TIMEOUT_MS)
        return NewTask(state, TaskDetail(task_id, state.tenant, now), Payload(target, policy))

    async def _converge(self, node: Node) -> None:
        """Calm: resume what is paused, then wait until everything has ended."""
        deadline = self.loop.time() + CONVERGE_SECONDS
        while self.loop.time() < deadline:
            now = self.clock.now_ms()

            async def operation(tx: Transaction, now: int = now) -> tuple[list[TaskState], int]:
                rows = await tasks.states(tx, sorted(self.acknowledged))
                resumed = [ACTIONS["resume"](row, now) for row in rows if row.state is State.PAUSED]
                await tasks.change(tx, resumed)
                return [one.after for one in resumed], sum(row.state not in TERMINAL for row in rows)

            resumed, left = await node.world.database.write(operation)
            node.written(resumed)
            if not left:
                return
            await asyncio.sleep(2)

    async def _check(self) -> list[str]:
        database, bury = open_database(self.path, Life(), self.random, lambda error: None)
        try:
            return await self._verdict(database.read)
        finally:
            bury()

    async def _verdict(self, read: object) -> list[str]:
        assert callable(read)
        rows = {row.id: row for row in await read(lambda tx: tasks.states(tx, sorted(self.acknowledged)))}
        faults = [f"{one}: acknowledged, and gone" for one in self.acknowledged if one not in rows]
        faults += [
            f"{row.id}: still {row.state.word} after calm ({row})" for row in rows.values() if row.state not in TERMINAL
        ]
        if await read(lambda tx: _live_counts(tx)) != await read(counts.actual):
            faults.append("the counts are not what the table holds")
        faults += await read(told.faults)
        hits: dict[str, list[Hit]] = defaultdict(list)
        for hit in self.receivers.hits:
            hits[hit.task_id].append(hit)
        for task_id, state in self.acknowledged.items():
            if task_id in rows:
                self.sometimes[rows[task_id].state.word] += 1
                ended = await read(lambda tx, one=task_id: attempts.of_task(tx, one))
                faults += self._task_faults(state, rows[task_id], hits[task_id], {row.attempt: row for row in ended})
        return faults

    def _task_faults(self, born: TaskState, row: TaskState, hits: list[Hit], ended: dict[int, AttemptRow]) -> list[str]:
        faults = []
        name = row.id
        if [hit.fence for hit in hits] != sorted({hit.fence for hit in hits}):
            faults.append(f"{name}: fences do not grow: {hits}")
        per_attempt = Counter((hit.attempt, hit.fence) for hit in hits)
        faults += [f"{name}: attempt {key} was sent {n} times" for key, n in per_attempt.items() if n > 1]
        faults += [f"{name}: attempt {hit.attempt} has no row" for hit in hits if hit.attempt not in ended]
        if row.series == 1 and not self.stepped_back:
            faults += [
                f"{name}: sent at {hit.wall}, due {row.run_at}"
                for hit in hits
                if hit.wall < row.run_at and name not in self.run_early
            ]
        moved_at, moved_to = self.moved.get(name, (0, 0))
        if row.series == 1 and not self.stepped_back and name not in self.run_early:
            faults += [
                f"{name}: sent at its old time {hit}" for hit in hits if hit.at > moved_at and hit.wall < moved_to
            ]
        good = [hit for hit in hits if hit.status == 200 and self._takes_ms(hit) < TIMEOUT_MS]
        if row.state is State.SUCCEEDED and not good:
            faults.append(f"{name}: succeeded, and nobody answered 2xx")
        unknown = sum(self._cut(hit) for hit in good)
        if len(good) > row.series + unknown:
            faults.append(f"{name}: done {len(good)} times in {row.series} series, {unknown} of them unknown")
        if born.at_most_once and row.series == 1:
            unanswered = [hit for hit in hits[:-1] if hit.attempt in ended and ended[hit.attempt].status is None]
            faults += [f"{name}: at most once, and sent again after {hit}" for hit in unanswered]
        cancelled_at = self.cancelled.get(name)
        if cancelled_at is not None:
            faults += [f"{name}: sent after its cancel was acknowledged" for hit in hits if hit.at > cancelled_at + 5]
        return faults

    def _takes_ms(self, hit: Hit) -> float:
        seconds, _, _ = self.receivers.plan(f"tsk_{hit.task_id}", hit.attempt)
        return seconds * 1_000

    def _cut(self, hit: Hit) -> bool:
        """Whether its answer may not have become durable: a death came within it, or the deadline did."""
        until = hit.at + self._takes_ms(hit) + 20
        return self._takes_ms(hit) >= TIMEOUT_MS or any(hit.at <= death <= until for death in self.deaths)


def _settle(death: "asyncio.Future[None]") -> None:
    if not death.done():
        death.set_result(None)


def _move(task: TaskState, now: int) -> Change:
    if task.attempt:
        raise IllegalTransition("only before it runs")
    later = now + MOVED_BY_MS
    return patch(task, now, run_at=later, due_at=later, wake_at=later)


async def _live_counts(tx: Transaction) -> list[object]:
    return [row for row in await counts.read(tx, None) if row.tasks and row.state >= 0]


def play(seed: int) -> Report:
    """One seed, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tasktick-sim-", dir=scratch.quick()) as folder:
        return Play(seed, Path(folder)).run()
