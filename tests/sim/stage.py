"""One node in virtual time, for a test that says what happens: real store and loops, a clock, a disk and receivers
that the test owns. `play` runs a scenario of it to its end; nothing waits in earnest.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from tasktick.dispatch.outcome import Outcome, Request
from tasktick.dispatch.sender import SpawningSender
from tasktick.errors import StoreBroken, StoreFull
from tasktick.metrics import Metrics
from tasktick.model.attempt import AttemptRow
from tasktick.model.change import patch
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.node import Node, World
from tasktick.service import Services
from tasktick.settings import Config
from tasktick.store import attempts, leases, tasks
from tasktick.store.claims import ClaimRequest, claim
from tasktick.store.connect import RawConnection, raw_connection
from tasktick.store.database import Links, SqliteDatabase
from tasktick.store.migrate import migrate
from tasktick.store.tasks import CREATE, Create
from tests import scratch
from tests.sim.deadlines import Deadlines
from tests.sim.loop import SimLoop
from tests.sim.world import PRAGMAS, Life, NoSecrets, SimClock, outcome_of, unsealed

T = TypeVar("T")
HOP_S = 0.0002


class Disk:
    """What the store's file lies on: it may be full, or broken. Counts the calls that each connection ran."""

    def __init__(self) -> None:
        self.full = False
        self.broken = False
        self.slow_s = 0.0
        self.calls = {"writer": 0, "near": 0, "api": 0}


class DiskLink:
    """A connection without a thread, on that disk: it does one thing after the other, as a thread does."""

    def __init__(self, name: str, raw: RawConnection, disk: Disk) -> None:
        self.name = name
        self._raw = raw
        self._disk = disk
        self._turn = asyncio.Lock()

    async def call(self, work: Callable[[RawConnection], T]) -> T:
        self._disk.calls[self.name] += 1
        await asyncio.sleep(HOP_S)
        async with self._turn:
            if self.name == "writer":
                await asyncio.sleep(self._disk.slow_s)
                if self._disk.broken:
                    raise StoreBroken("A commit failed and its fate is unknown: the disk is broken")
                if self._disk.full:
                    raise StoreFull("The disk that holds the store is full.")
            result = work(self._raw)
        await asyncio.sleep(HOP_S)
        return result

    async def close(self) -> None:
        return


class Sent(msgspec.Struct, frozen=True):
    """A request that has left."""

    task_id: str
    attempt: int
    fence: int
    at: int
    monotonic_ms: float


class Told(msgspec.Struct, frozen=True):
    """What a receiver does: how long it takes, and its status, or the failure that there is instead."""

    seconds: float = 0.001
    status: int | None = 200
    failure: str | None = None


Script = Callable[[str, int], Told]


class StageSender(Deadlines):
    """Answers each attempt as the test says."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock
        self.script: Script = lambda task_id, attempt: Told()
        self.sent: list[Sent] = []

    async def send(self, request: Request) -> Outcome:
        started_ms = self._clock.monotonic_ms()
        if started_ms > request.start_by_ms:
            return outcome_of(None, "too_late", started_ms, 0.0, byte_left=False)
        headers = dict(request.all_headers)
        task_id, attempt = headers["webhook-id"].removeprefix("tsk_"), int(headers["TaskTick-Attempt"])
        told = self.script(task_id, attempt)
        left = told.failure != "connect_failed"
        if left:
            self.sent.append(Sent(task_id, attempt, int(headers["TaskTick-Fence"]), self._clock.now_ms(), started_ms))
        task = asyncio.current_task()
        assert task is not None
        self._deadlines[task] = request.deadline_ms
        status, failure = told.status, told.failure
        try:
            await asyncio.sleep(told.seconds)
        except asyncio.CancelledError:
            if task not in self._expired or task.uncancel() > 0:
                raise
            status, failure = None, "timeout"
        finally:
            self._deadlines.pop(task, None)
            self._expired.discard(task)
        duration_ms = self._clock.monotonic_ms() - started_ms
        status = None if failure is not None else status
        return outcome_of(status, failure, started_ms, duration_ms, byte_left=left)


class Stage:
    """The node, and what the test does to it."""

    def __init__(self, loop: SimLoop, folder: Path, config: Config) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self.disk = Disk()
        self.ids = IdMaker(Random(1))
        self.random = Random(2)
        self.sender = StageSender(self.clock)
        self.signing = NoSecrets()
        self._path = folder / "tasktick.db"
        self._config = config
        self._raws: list[RawConnection] = []
        self.prepare()

    def prepare(self) -> None:
        """A new process on the same file: `start` it, or the node."""
        self.life = Life()
        self.services = Services(self.clock)
        self.metrics = Metrics()
        raws = [raw_connection(self._path, PRAGMAS) for _ in range(3)]
        self._raws += raws
        migrate(raws[0])
        links = (DiskLink(name, raw, self.disk) for name, raw in zip(self.disk.calls, raws, strict=True))
        self.database = SqliteDatabase(Links(*links), lambda error: self.services.crash("store", error))
        self.database.start(self.services.spawn)
        self.node = Node(self._config, "stage", self._world())

    def _world(self) -> World:
        return World(
            clock=self.clock,
            random=self.random,
            ids=self.ids,
            database=self.database,
            sender=SpawningSender(self.sender, self.services.spawn),
            unseal=unsealed,
            signing=self.signing,
            services=self.services,
            metrics=self.metrics,
        )

    async def kill(self) -> None:
        """The process dies where it stands."""
        ghosts = [task for task in self.loop.living() if task is not asyncio.current_task()]
        for ghost in ghosts:
            ghost.cancel()
        await asyncio.gather(*ghosts, return_exceptions=True)

    def close(self) -> None:
        """Close the file."""
        for raw in self._raws:
            raw.close()

    def new_task(self, in_ms: int = 0, **fields: Any) -> NewTask:
        """A task that is due so far from now; `fields` are those of its state, or `policy`."""
        now = self.clock.now_ms()
        run_at = now + in_ms
        policy = fields.pop("policy", RetryPolicy(max_attempts=3, initial_ms=1_000, factor=2.0, jitter=0.0))
        shown: dict[str, Any] = {
            "id": self.ids.new(now, self.random.randrange(256)),
            "tenant": "default",
            "state": State.SCHEDULED,
            "queue": "default",
            "host": "one:80",
            "priority": 5,
            "run_at": run_at,
            "due_at": run_at,
            "wake_at": run_at,
            "max_attempts": policy.max_attempts,
            "timeout_ms": 30_000,
            "updated_at": now,
        } | fields
        state = TaskState(**shown)
        target = Target(f"http://{state.host}/", timeout_ms=state.timeout_ms)
        return NewTask(state, TaskDetail(state.id, state.tenant, now), Payload(target, policy))

    async def add(self, in_ms: int = 0, count: int = 1, *, hint: bool = True, **fields: Any) -> list[str]:
        """Create tasks as the API does; the hint may be lost."""
        new = [self.new_task(in_ms, **fields) for _ in range(count)]
        assert await self.database.write_batch(CREATE, [Create(one) for one in new]) == [None] * count
        if hint:
            self.node.written([one.state for one in new])
        return [one.state.id for one in new]

    async def states(self, ids: list[str]) -> list[TaskState]:
        """Their rows, in the order of their ids."""
        return await self.database.read(lambda tx: tasks.states(tx, ids))

    async def state(self, task_id: str) -> TaskState:
        """Its row."""
        return (await self.states([task_id]))[0]

    async def attempts(self, task_id: str) -> list[AttemptRow]:
        """Its attempts that have ended."""
        return await self.database.read(lambda tx: attempts.of_task(tx, task_id))

    async def move(self, task_id: str, run_at: int) -> None:
        """Give a task another time, and lose the hint."""
        before, now = await self.state(task_id), self.clock.now_ms()
        moved = patch(before, now, run_at=run_at, due_at=run_at, wake_at=run_at)
        assert await self.database.write(lambda tx: tasks.change(tx, [moved])) == [task_id]

    async def pretend_running(self, task_id: str, lease_until: int) -> None:
        """Let a task run in the hands of a process that lives, as far as anybody here knows."""
        epochs = await self.database.read(lambda tx: leases.owned(tx, self.node.incarnation))
        now = self.clock.now_ms()
        timeout_ms = (await self.state(task_id)).timeout_ms
        request = ClaimRequest("other", self.node.incarnation, epochs, 7, now, 10**9, 0, lease_until - now - timeout_ms)
        assert len(await self.database.write(lambda tx: claim(tx, [task_id], request))) == 1

    async def until(self, condition: Callable[[], bool], within_s: float = 60, every_s: float = 0.0001) -> None:
        """Wait for something that can be seen."""
        give_up = self.loop.time() + within_s
        while not condition():
            assert self.loop.time() < give_up, "it did not happen"
            await asyncio.sleep(every_s)

    async def ended(self, ids: list[str], within_s: float = 120) -> float:
        """Wait until all of these have ended; how many virtual seconds that took."""
        began = self.loop.time()
        while self.loop.time() - began < within_s:
            if all(row.state >= State.SUCCEEDED for row in await self.states(ids)):
                return self.loop.time() - began
            await asyncio.sleep(0.05)
        left = [row for row in await self.states(ids) if row.state < State.SUCCEEDED]
        raise AssertionError(f"{len(left)} of {len(ids)} have not ended after {within_s} s, such as {left[0]}")

    def sent_of(self, task_id: str) -> list[Sent]:
        """The requests that left for a task."""
        return [one for one in self.sender.sent if one.task_id == task_id]


def play(scenario: Callable[[Stage], Awaitable[None]], config: Config | None = None, seed: int = 1) -> None:
    """Play a scenario with a node of its own; a crash of a service that it did not ask for fails it."""
    loop = SimLoop(Random(seed))
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory(prefix="tasktick-stage-", dir=scratch.quick()) as folder:
        try:
            loop.run_until_complete(_play(scenario, loop, Path(folder), config or Config()))
        finally:
            pending = loop.living()
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            asyncio.set_event_loop(None)
            loop.close()


async def _play(scenario: Callable[[Stage], Awaitable[None]], loop: SimLoop, folder: Path, config: Config) -> None:
    stage = Stage(loop, folder, config)
    try:
        await scenario(stage)
        if stage.services.crashed.done():
            stage.services.crashed.result()
    finally:
        await stage.kill()
        stage.close()
