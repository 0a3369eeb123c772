"""A node's hands on a store: makes tasks, claims them, ends them, under a clock that stands still until moved.

Its methods wait for nothing but the database, so that a state machine may run them without a loop.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from tasktick.model import change
from tasktick.model.attempt import Answer, End, Failure, conclude, interrupt, release
from tasktick.model.change import Change
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import Claimed, NewTask, Payload, Target, TaskDetail, TaskState
from tasktick.store import attempts, claims, counts, dlq, endings, leases, tasks
from tasktick.store.claims import ClaimRequest
from tasktick.store.endings import Ended
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Database
from tasktick.store.tasks import CREATE, Create
from tests.store import told

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
TIMEOUT_MS = 30_000
START_DELAY_MS = 2_000
MARGIN_MS = 2_000
EARLY_MS = 15
TENANT = "default"
NODE = "node-a"


class World:
    """A store with one node on it."""

    def __init__(self, database: Database, seed: int = 7) -> None:
        self.database = database
        self.now = NOW
        self.random = Random(seed)
        self.draw_anew(seed)
        self.incarnation = "incarnation-1"
        self.epochs: dict[int, int] = {}
        self._claims = 0
        self._payloads: dict[tuple[str, int], Payload] = {}

    def draw_anew(self, seed: int) -> None:
        """Ids, from here on, that depend on nothing that was drawn before."""
        self.ids = IdMaker(Random(seed))
        self._letter_ids = IdMaker(Random(seed + 1))

    async def start(self, incarnation: str = "incarnation-1") -> None:
        """Begin as this incarnation, with every partition."""
        self.incarnation = incarnation
        await self.database.write(lambda tx: leases.start_node(tx, leases.Start(incarnation, NODE), self.now))
        self.epochs = await self.database.write(lambda tx: leases.acquire(tx, incarnation, self.now))

    async def let_go(self) -> None:
        """Own nothing any more."""
        await self.database.write(lambda tx: leases.end_node(tx, self.incarnation, self.now))
        self.epochs = {}

    def task(
        self,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        detail: dict[str, Any] | None = None,
        url: str = "https://receiver.example/hook",
        partition: int = 17,
        **state: Any,
    ) -> NewTask:
        """A task that is due now; `state` and `detail` are columns."""
        policy = retry or RetryPolicy(jitter=0.0)
        task_id = self.ids.new(self.now, partition)
        columns: dict[str, Any] = {
            "tenant": TENANT,
            "state": State.SCHEDULED,
            "queue": "default",
            "host": "receiver.example",
            "priority": 5,
            "run_at": self.now,
            "due_at": state.get("run_at", self.now),
            "wake_at": state.get("due_at", state.get("run_at", self.now)),
            "max_attempts": policy.max_attempts,
            "timeout_ms": TIMEOUT_MS,
            "updated_at": self.now,
            "keyed": key is not None,
        }
        row = TaskState(id=task_id, **{**columns, **state})
        details: dict[str, Any] = {"created_at": self.now, **(detail or {})}
        return NewTask(
            row,
            TaskDetail(id=task_id, tenant=row.tenant, key=key, **details),
            Payload(Target(url, body_kind="json", body='{"n": 1}'), policy),
        )

    async def create_all(self, creates: Sequence[Create]) -> list[Any]:
        """What each create came to."""
        return await self.database.write_batch(CREATE, list(creates))

    async def create(self, **columns: Any) -> str:
        """The id of a task that was created."""
        task = self.task(**columns)
        assert await self.create_all([Create(task)]) == [None]
        return task.state.id

    def idempotent(self, task: NewTask, name: str, fingerprint: str = "body-1", window_ms: int = HOUR_MS) -> Create:
        """A create that shows an Idempotency-Key."""
        answer = StoredAnswer(201, f'{{"id": "tsk_{task.state.id}"}}', {"Location": f"/v1/tasks/tsk_{task.state.id}"})
        key = IdempotencyKey(task.state.tenant, name, fingerprint, self.now, self.now + window_ms)
        return Create(task, key, answer)

    def request(self, **fields: Any) -> ClaimRequest:
        """A claim of this node, under its leases, now."""
        self._claims += 1
        values: dict[str, Any] = {
            "node": NODE,
            "incarnation": self.incarnation,
            "epochs": self.epochs,
            "claim_id": self._claims,
            "now": self.now,
            "early_ms": EARLY_MS,
            "start_delay_ms": START_DELAY_MS,
            "margin_ms": MARGIN_MS,
        }
        return ClaimRequest(**{**values, **fields})

    async def claim(self, *ids: str, **fields: Any) -> list[Claimed]:
        """What a claim of these tasks returned."""
        asked = claims.Asked(list(ids), self.request(**fields), {})
        (taken,) = await self.database.write_batch(claims.CLAIM, [asked])
        return [one.claimed for one in taken]

    async def claimed(self, **columns: Any) -> Claimed:
        """A task that was created and claimed."""
        claimed = (await self.claim(await self.create(**columns)))[0]
        await self.payload(claimed)
        return claimed

    async def end(self, *ends: End) -> list[Ended]:
        """What became of these ends, written together."""
        return await endings.EndWriter(self.database, self._letter_ids).write(list(ends))

    async def payload(self, claimed: Claimed) -> Payload:
        """What an attempt sends: read while it runs, as a dispatcher does."""
        key = (claimed.payload_id, claimed.payload_version)
        if key not in self._payloads:
            self._payloads[key] = (await self.database.read(lambda tx: tasks.payloads(tx, [key])))[0].payload
        return self._payloads[key]

    async def answered(self, claimed: Claimed, status: int | None = 200, **fields: Any) -> End:
        """The end of an attempt that was answered with this status; None is a cut connection."""
        failure = Failure("network", "reset", "The connection was reset.") if status is None else None
        answer = Answer(
            **{"started_at": self.now, "completed_at": self.now, "status": status, "failure": failure, **fields}
        )
        return conclude(claimed, await self.payload(claimed), answer, NODE, self.random)

    async def finish(self, claimed: Claimed, status: int | None = 200) -> State | None:
        """End an attempt by an answer; the state that followed, None if it was stale."""
        return (await self.end(await self.answered(claimed, status)))[0].state

    async def interrupted(self, claimed: Claimed) -> End:
        """The rescue of an attempt, now."""
        policy = (await self.payload(claimed)).retry
        return interrupt(claimed, policy, NODE, self.now, self.random, lost=True)

    async def rescue(self, claimed: Claimed) -> State | None:
        """End an attempt that nobody ended; None if it was not to be had."""
        return (await self.end(await self.interrupted(claimed)))[0].state

    async def give_back(self, claimed: Claimed, *, sent: bool) -> State | None:
        """Un-claim, or release what we cut ourselves."""
        return (await self.end(release(claimed, NODE, self.now, sent=sent)))[0].state

    async def state(self, task_id: str) -> TaskState:
        """The slim row."""
        return (await self.database.read(lambda tx: tasks.states(tx, [task_id])))[0]

    async def write(self, *changes: Change) -> list[str]:
        """The ids of the changes that were not stale."""
        return await self.database.write(lambda tx: tasks.change(tx, list(changes)))

    async def act(self, name: str, task_id: str) -> TaskState:
        """Cancel, pause, resume, run or retry a task; its row afterwards."""
        made = change.ACTIONS[name](await self.state(task_id), self.now)
        assert await self.write(made) == [task_id]
        return await self.state(task_id)

    async def attempts(self, task_id: str) -> list[Any]:
        """The attempts that have ended."""
        return await self.database.read(lambda tx: attempts.of_task(tx, task_id))

    async def dead_letters(self, **by: Any) -> list[Any]:
        """The newest dead letters of the tenant."""
        wanted = dlq.DeadLetterFilter(**by)
        return await self.database.read(lambda tx: dlq.page(tx, TENANT, wanted, beyond=None, limit=100))

    async def counted(self) -> dict[tuple[str, int], int]:
        """The counts that are kept, without zeros."""
        rows = await self.database.read(lambda tx: counts.read(tx, None))
        return {(row.tenant, row.state): row.tasks for row in rows if row.tasks}

    async def rows_by_state(self) -> dict[tuple[str, int], int]:
        """The same, counted over the table."""
        return {(row.tenant, row.state): row.tasks for row in await self.database.read(counts.actual)}

    async def check_counts(self) -> None:
        """Counts are equal to rows, nothing is counted below zero, and events tell of nothing else."""
        kept = await self.counted()
        assert min(kept.values(), default=0) >= 0
        live = {name: number for name, number in kept.items() if name[1] != counts.PURGED}
        assert live == await self.rows_by_state()
        await self.database.number_events()
        assert await self.database.read(told.faults) == []


class WorldClock:
    """The time of a world, which moves only when it is moved."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.now

    def monotonic_ms(self) -> float:
        return float(self._world.now)

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(0)
