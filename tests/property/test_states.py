"""The store against a tiny model of it: states, attempts, fences and counts agree at every step."""

from collections import Counter

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from tasktick.errors import IllegalTransition, Refused
from tasktick.model import change
from tasktick.model.attempt import POISON_PUSH, interrupt, release
from tasktick.model.change import Change
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import Claimed
from tasktick.store import due, leases, retention
from tasktick.store.counts import PURGED
from tasktick.store.sqlite import step
from tasktick.store.tasks import Create, states
from tests.store import told
from tests.store.drivers import InlineDatabase
from tests.store.world import EARLY_MS, MARGIN_MS, NODE, START_DELAY_MS, TENANT, TIMEOUT_MS, World

MAX_ATTEMPTS = 3
DELAY_MS = 10_000
LEASE_MS = START_DELAY_MS + TIMEOUT_MS + MARGIN_MS
S = State
WAITING = {S.SCHEDULED, S.RETRYING}


class Task(msgspec.Struct):
    """What the model knows of a task: written from the rules, not from the code."""

    id: str
    key: str | None
    once: bool
    expires_at: int | None
    due_at: int
    wake_at: int
    state: State = S.SCHEDULED
    before: State = S.SCHEDULED  # the state that an un-claim goes back to
    attempt: int = 0
    fence: int = 0
    counted: int = 0  # attempts of this series that count
    interruptions: int = 0
    series: int = 1
    lease_until: int = 0
    incarnation: str = ""
    cancel: bool = False
    rows: int = 0
    version: int = 1


class StoreAgainstModel(RuleBasedStateMachine):
    """Every rule does one thing to the store and says, from the model alone, what must have come of it."""

    ids: Bundle[str] = Bundle("ids")
    claims: Bundle[Claimed] = Bundle("claims")
    stale: Bundle[Change] = Bundle("stale")

    @initialize()
    def start(self) -> None:
        self.database = InlineDatabase()
        self.world = World(self.database)
        self.incarnations = 1
        step(self.world.start("incarnation-1"))
        self.tasks: dict[str, Task] = {}
        self.purged = 0

    def teardown(self) -> None:
        assert step(self.database.read(told.faults)) == []
        self.database.raw.close()

    def live(self, claimed: Claimed) -> Task | None:
        """The task, if this claim of it is the one that runs."""
        task = self.tasks.get(claimed.id)
        return task if task and task.state is S.RUNNING and task.fence == claimed.fence else None

    def held(self, key: str | None) -> bool:
        return key is not None and any(task.key == key and task.state not in TERMINAL for task in self.tasks.values())

    def ended(self, task: Task, state: State, due_at: int | None = None) -> None:
        task.state = S.CANCELLED if task.cancel and state is not S.SUCCEEDED else state
        task.cancel = False
        task.version += 1
        if task.state not in TERMINAL and due_at is not None:
            task.due_at = task.wake_at = due_at

    @rule(
        target=ids,
        key=st.sampled_from([None, None, "a", "b"]),
        once=st.booleans(),
        ahead_ms=st.sampled_from([0, 0, 5, EARLY_MS, EARLY_MS + 1, 20_000]),
        expires_ms=st.sampled_from([None, None, 1, 60_000]),
    )
    def create(self, key: str | None, once: bool, ahead_ms: int, expires_ms: int | None) -> MultipleResults[str] | str:
        now = self.world.now
        expires_at = None if expires_ms is None else now + ahead_ms + expires_ms
        policy = RetryPolicy(MAX_ATTEMPTS, "fixed", DELAY_MS, jitter=0.0)
        made = self.world.task(key=key, retry=policy, run_at=now + ahead_ms, at_most_once=once, expires_at=expires_at)
        (result,) = step(self.world.create_all([Create(made)]))
        if self.held(key):
            assert isinstance(result, Refused)
            return multiple()
        assert result is None
        task_id = made.state.id
        self.tasks[task_id] = Task(task_id, key, once, expires_at, now + ahead_ms, now + ahead_ms)
        return task_id

    @rule(forward_ms=st.sampled_from([1, EARLY_MS, 1_000, DELAY_MS, LEASE_MS, 600_000]))
    def time_passes(self, forward_ms: int) -> None:
        self.world.now += forward_ms

    @rule(target=claims, task_id=ids, early_ms=st.sampled_from([0, EARLY_MS]))
    def claim(self, task_id: str, early_ms: int) -> MultipleResults[Claimed] | Claimed:
        now, task = self.world.now, self.tasks.get(task_id)
        claimed = step(self.world.claim(task_id, early_ms=early_ms))
        may = (
            task is not None
            and task.state in WAITING
            and task.wake_at <= now + early_ms
            and (task.expires_at is None or task.expires_at > now)
        )
        assert bool(claimed) == may
        if task is None or not claimed:
            return multiple()
        task.before, task.state = task.state, S.RUNNING
        task.attempt += 1
        task.version += 1
        task.fence = max(task.fence + 1, now)
        task.lease_until, task.incarnation = now + LEASE_MS, self.world.incarnation
        assert (claimed[0].attempt, claimed[0].fence) == (task.attempt, task.fence)
        return claimed[0]

    @rule(task_id=ids)
    def claim_under_a_dead_term(self, task_id: str) -> None:
        old = {partition: epoch - 1 for partition, epoch in self.world.epochs.items()}
        assert step(self.world.claim(task_id, epochs=old)) == []

    @rule(claimed=claims, status=st.sampled_from([200, 404, 500, 500, None]), left=st.booleans())
    def answer(self, claimed: Claimed, status: int | None, left: bool) -> None:
        if claimed.id not in self.tasks:
            return
        task = self.live(claimed)
        fields = {} if status is not None else {"byte_left": left}
        (result,) = step(self.world.end(step(self.world.answered(claimed, status, **fields))))
        if task is None:
            assert result.state is None
            return
        task.counted += 1
        task.rows += 1
        if status is not None:
            task.interruptions = 0
        due_at = None
        if status == 200:
            state = S.SUCCEEDED
        elif status == 404 or (status is None and left and task.once) or task.counted >= MAX_ATTEMPTS:
            state = S.DEAD
        else:
            state = S.RETRYING
            due_at = self.world.now + DELAY_MS
        self.ended(task, state, due_at)
        assert result.state is task.state

    @rule(claimed=claims)
    def rescue(self, claimed: Claimed) -> None:
        if claimed.id not in self.tasks:
            return
        now, task = self.world.now, self.live(claimed)
        policy = step(self.world.payload(claimed)).retry
        (result,) = step(self.world.end(interrupt(claimed, policy, NODE, now, self.world.random, lost=True)))
        if task is None or (task.lease_until > now and task.incarnation == self.world.incarnation):
            assert result.state is None
            return
        task.interruptions += 1
        task.rows += 1
        task.fence = max(task.fence + 1, now)
        if task.once or task.interruptions >= POISON_PUSH:
            self.ended(task, S.DEAD)
        else:
            self.ended(task, S.RETRYING, now + (0 if task.interruptions == 1 else DELAY_MS))
        assert result.state is task.state

    @rule(claimed=claims, sent=st.booleans())
    def give_back(self, claimed: Claimed, sent: bool) -> None:
        task = self.live(claimed)
        (result,) = step(self.world.end(release(claimed, NODE, self.world.now, sent=sent)))
        if task is None:
            assert result.state is None
            return
        if sent:
            task.rows += 1
            self.ended(task, S.DEAD if task.once else S.SCHEDULED, task.due_at)
        else:
            task.attempt -= 1
            self.ended(task, task.before, task.due_at)
        assert result.state is task.state

    @rule(task_id=ids, action=st.sampled_from(sorted(change.ACTIONS)))
    def act(self, task_id: str, action: str) -> None:
        task = self.tasks.get(task_id)
        if task is None:
            return
        legal = {
            "cancel": WAITING | {S.PAUSED, S.RUNNING},
            "pause": WAITING,
            "resume": {S.PAUSED},
            "run": WAITING | {S.PAUSED} | TERMINAL,
            "retry": {S.DEAD, S.CANCELLED, S.EXPIRED, S.RETRYING},
        }[action]
        row = step(self.world.state(task_id))
        if task.state not in legal:
            with pytest.raises(IllegalTransition):
                change.ACTIONS[action](row, self.world.now)
            return
        made = change.ACTIONS[action](row, self.world.now)
        if task.state in TERMINAL and self.held(task.key):
            with pytest.raises(Refused):
                step(self.world.write(made))
            return
        assert step(self.world.write(made)) == [task_id]
        task.version += 1
        self.changed(task, action)

    def changed(self, task: Task, action: str) -> None:
        now = self.world.now
        if action == "cancel":
            task.cancel = task.state is S.RUNNING
            task.state = S.RUNNING if task.cancel else S.CANCELLED
        elif action == "pause":
            task.state = S.PAUSED
        elif action == "resume":
            task.state, task.wake_at = S.SCHEDULED, task.due_at
        elif task.state in TERMINAL:
            task.state, task.due_at, task.wake_at = S.SCHEDULED, now, now
            task.expires_at, task.series = None, task.series + 1
            task.counted = task.interruptions = 0
        else:
            task.state, task.due_at, task.wake_at = S.SCHEDULED, min(task.due_at, now), now

    @rule(task_id=ids, later_ms=st.sampled_from([-5_000, 0, 30_000]))
    def park(self, task_id: str, later_ms: int) -> None:
        task = self.tasks.get(task_id)
        wake_at = self.world.now + later_ms
        parked = step(self.database.write(lambda tx: due.park(tx, {task_id: wake_at})))
        may = task is not None and task.state in WAITING and task.wake_at <= wake_at
        assert parked == int(may)
        if task is not None and may:
            task.wake_at = wake_at

    @rule(target=stale, task_id=ids, priority=st.integers(0, 9))
    def intend(self, task_id: str, priority: int) -> MultipleResults[Change] | Change:
        """Make a change, to be written only later."""
        if task_id not in self.tasks:
            return multiple()
        row = step(self.world.state(task_id))
        if row.state in TERMINAL or row.state is S.RUNNING:
            return multiple()
        return change.patch(row, self.world.now, priority=priority)

    @rule(made=consumes(stale))
    def write_what_was_intended(self, made: Change) -> None:
        task = self.tasks.get(made.after.id)
        fresh = task is not None and task.version == made.before.version and task.state is made.before.state
        assert step(self.world.write(made)) == ([made.after.id] if fresh else [])
        if task is not None and fresh:
            task.version += 1
            task.wake_at = made.after.wake_at

    @rule()
    def expire(self) -> None:
        now = self.world.now
        late = step(self.database.read(lambda tx: due.expired(tx, now, 100)))
        wanted = {
            task.id
            for task in self.tasks.values()
            if task.state in WAITING and task.expires_at is not None and task.expires_at <= now
        }
        assert {row.id for row in late} == wanted
        assert set(step(self.world.write(*(change.expire(row, now) for row in late)))) == wanted
        for task_id in wanted:
            self.tasks[task_id].state = S.EXPIRED
            self.tasks[task_id].version += 1

    @rule()
    def restart(self) -> None:
        self.incarnations += 1
        epochs = self.world.epochs
        step(self.world.start(f"incarnation-{self.incarnations}"))
        assert all(self.world.epochs[partition] > epoch for partition, epoch in epochs.items())
        step(self.database.write(lambda tx: leases.forget_nodes(tx, self.world.now + 1)))

    @rule(limit=st.integers(1, 3))
    def forget(self, limit: int) -> None:
        removed = step(self.database.write(lambda tx: retention.remove_finished(tx, self.world.now, limit)))
        finished = [task for task in self.tasks.values() if task.state in TERMINAL]
        assert removed == min(limit, len(finished))
        self.purged += removed
        rows = {row.id for row in step(self.database.read(lambda tx: states(tx, list(self.tasks))))}
        for task in finished:
            if task.id not in rows:
                del self.tasks[task.id]

    @invariant()
    def rows_agree(self) -> None:
        rows = {row.id: row for row in step(self.database.read(lambda tx: states(tx, list(self.tasks))))}
        assert rows.keys() == self.tasks.keys()
        for task in self.tasks.values():
            row = rows[task.id]
            seen = (row.state, row.attempt, row.fence, row.due_at, row.wake_at, row.version, row.cancel_requested)
            assert seen == (
                task.state, task.attempt, task.fence, task.due_at, task.wake_at, task.version, task.cancel
            )  # fmt: skip
            assert (row.series, row.interruptions) == (task.series, task.interruptions)
            assert (row.completed_at is not None) == (task.state in TERMINAL)
            assert (row.lease_until is not None) == (task.state is S.RUNNING)

    @invariant()
    def counts_agree(self) -> None:
        wanted = Counter((TENANT, int(task.state)) for task in self.tasks.values())
        wanted[TENANT, PURGED] += self.purged
        assert step(self.world.counted()) == +wanted

    @invariant()
    def attempts_agree(self) -> None:
        for task in self.tasks.values():
            rows = step(self.world.attempts(task.id))
            assert len(rows) == task.rows
            assert [row.fence for row in rows] == sorted({row.fence for row in rows}), "a fence is issued once"


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(max_examples=150, stateful_step_count=60)
TestStoreAgainstModel = pytest.mark.slow(TestStoreAgainstModel)
