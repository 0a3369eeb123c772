"""Rules about tasks: made, claimed, ended in every way, and changed by hand."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, rule

from tasktick.model import change
from tasktick.model.attempt import End, release
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import Claimed, TaskDetail
from tasktick.store import due, tasks
from tasktick.store.endings import is_plain
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import Create
from tests.beside.pair import KEYS, NAMES, TENANTS, WORDS, Pair
from tests.store.world import EARLY_MS, HOUR_MS, NODE, World

MAX_ATTEMPTS = 3
DELAY_MS = 10_000
words = st.sampled_from(WORDS)
BODIES = (b"", b"thanks", "Ärger 💥".encode(), b"\xff\xfe", b"a\0b", b'{"n": 1}', b"%_\\", b"x" * 20_000)
ANSWERS = (
    {"status": 200},
    {"status": 204, "body": BODIES[2]},
    {"status": 404, "body": BODIES[3]},
    {"status": 410},
    {"status": 429, "headers": (("Retry-After", "30"), ("x-b", "\x7f ü"))},
    {"status": 500, "body": BODIES[4], "truncated": True},
    {"status": 503, "body": BODIES[7], "headers": (("tasktick-control", "no-retry"),)},
    {"status": None, "byte_left": True},
    {"status": None, "byte_left": False},
)
ENDS = (*range(len(ANSWERS)), "rescue", "unclaim", "release")

new_task = st.fixed_dictionaries(
    {
        "key": st.sampled_from([None, None, *KEYS]),
        "tenant": st.sampled_from([TENANTS[0], TENANTS[0], TENANTS[1]]),
        "queue": st.sampled_from(["default", "default", "q"]),
        "priority": st.integers(0, 9),
        "partition": st.sampled_from([17, 17, 42, 0, 255]),
        "ahead_ms": st.sampled_from([0, 0, EARLY_MS, EARLY_MS + 1, 20_000, HOUR_MS]),
        "expires_ms": st.sampled_from([None, None, 1, 60_000]),
        "once": st.booleans(),
        "detail": st.fixed_dictionaries(
            {},
            optional={
                "name": words,
                "type": st.sampled_from(["t", "T"]),
                "tags": st.dictionaries(st.sampled_from(["team", "a.b", 'q"q']), words, max_size=2),
                "sla_ms": st.sampled_from([0, 60_000]),
                "expires_in_ms": st.just(60_000),
                "workflow_id": st.just("w" * 32),
                "step": words,
            },
        ),
        "shown": st.none() | st.tuples(st.sampled_from(NAMES), st.sampled_from(["body-1", "body-2"])),
    }
)


def made(world: World, fields: dict[str, Any]) -> Create:
    """A create of that world."""
    left = dict(fields)
    ahead_ms, expires_ms, shown = left.pop("ahead_ms"), left.pop("expires_ms"), left.pop("shown")
    task = world.task(
        retry=RetryPolicy(MAX_ATTEMPTS, "fixed", DELAY_MS, jitter=0.0),
        run_at=world.now + ahead_ms,
        expires_at=None if expires_ms is None else world.now + ahead_ms + expires_ms,
        at_most_once=left.pop("once"),
        **left,
    )
    return Create(task) if shown is None else world.idempotent(task, shown[0], shown[1], window_ms=HOUR_MS)


async def claimed(world: World, *ids: str, **fields: Any) -> list[Claimed]:
    """A claim, in an order; the store promises none."""
    return sorted(await world.claim(*ids, **fields), key=lambda one: one.id)


class TaskRules(Pair):
    """What becomes of tasks."""

    @rule(target=Pair.ids, items=st.lists(new_task, min_size=1, max_size=4))
    def create(self, items: list[dict[str, Any]]) -> MultipleResults[str]:
        async def work(world: World) -> tuple[list[str], list[Any]]:
            creates = [made(world, one) for one in items]
            results = await world.create_all(creates)
            fresh = zip(creates, results, strict=True)
            return [one.task.state.id for one, result in fresh if result is None], results

        found = self.both(work)
        return multiple(*(found[0] if found else ()))

    @rule(target=Pair.claims, ids=st.lists(Pair.ids, max_size=4), early_ms=st.sampled_from([0, EARLY_MS]))
    def claim(self, ids: list[str], early_ms: int) -> MultipleResults[Claimed]:
        return multiple(*(self.both(lambda world: claimed(world, *ids, early_ms=early_ms)) or ()))

    @rule(target=Pair.claims)
    def claim_what_is_due(self) -> MultipleResults[Claimed]:
        async def work(world: World) -> list[Claimed]:
            found = await world.database.near.read(lambda tx: due.between(tx, due.Stretch(due.BEGINNING, world.now), 3))
            return await claimed(world, *(one.id for one in found))

        return multiple(*(self.both(work) or ()))

    @rule(target=Pair.claims, task_id=Pair.ids)
    def claim_what_was_due(self, task_id: str) -> MultipleResults[Claimed]:
        async def work(world: World) -> list[Claimed]:
            return await world.claim(task_id, was_due={task_id: (await world.state(task_id)).wake_at})

        return multiple(*(self.both(work) or ()))

    @rule(ids=st.lists(Pair.ids, min_size=1, max_size=2), how=st.sampled_from(["epoch", "incarnation"]))
    def claim_under_a_dead_term(self, ids: list[str], how: str) -> None:
        async def work(world: World) -> list[Claimed]:
            if how == "incarnation":
                return await world.claim(*ids, incarnation="nobody")
            return await world.claim(*ids, epochs={one: epoch - 1 for one, epoch in world.epochs.items()})

        assert self.both(work) == []

    @rule(ends=st.lists(st.tuples(Pair.claims, st.sampled_from(ENDS)), min_size=1, max_size=4))
    def end(self, ends: list[tuple[Claimed, int | str]]) -> None:
        async def work(world: World) -> list[Any]:
            made = [await self._end_of(world, one, how) for one, how in ends]
            # One after the other: of two batches that are written at once either may be first, and of two ends of one
            # attempt the first alone counts.
            parts = [one for one in made if is_plain(one)], [one for one in made if not is_plain(one)]
            return [await world.end(*part) for part in parts]

        self.both(work)

    async def _end_of(self, world: World, claimed: Claimed, how: int | str) -> End:
        if isinstance(how, int):
            return await world.answered(claimed, **ANSWERS[how])
        if how == "rescue":
            return await world.interrupted(claimed)
        return release(claimed, NODE, world.now, sent=how == "release")

    @rule(ids=st.lists(Pair.ids, min_size=1, max_size=3, unique=True), name=st.sampled_from(sorted(change.ACTIONS)))
    def act(self, ids: list[str], name: str) -> None:
        async def operation(tx: Transaction, now: int) -> list[str]:
            rows = await tasks.states(tx, ids)
            return await tasks.change(tx, [change.ACTIONS[name](row, now) for row in rows])

        self.both(lambda world: world.database.write(lambda tx: operation(tx, world.now)))

    @rule(
        task_id=Pair.ids,
        ahead_ms=st.sampled_from([0, 1, 20_000, HOUR_MS]),
        columns=st.fixed_dictionaries(
            {}, optional={"priority": st.integers(0, 9), "queue": st.sampled_from(["default", "q"])}
        ),
        body=st.none() | words,
        name=st.none() | words,
    )
    def reschedule(
        self, task_id: str, ahead_ms: int, columns: dict[str, Any], body: str | None, name: str | None
    ) -> None:
        async def operation(tx: Transaction) -> list[str]:
            row = (await tasks.states(tx, [task_id]))[0]
            [view] = await tasks.views(tx, row.tenant, [task_id])
            at = self.now + ahead_ms
            # The nominal time of a fire is its schedule's.
            moved = columns if view.detail.schedule_id is not None else {**columns, "run_at": at}
            version = row.payload_version + (body is not None)
            patched = change.patch(
                row, self.now, due_at=at, wake_at=at, payload_version=version, template_id=None, **moved
            )
            [stored] = await tasks.latest_payloads(tx, [task_id])
            if row.template_id is not None and body is None:
                return []
            changed = await tasks.change(tx, [patched])
            if body is not None:
                await tasks.add_payload(tx, task_id, version, stored.payload)
            if name is not None:
                tenant = row.tenant
                await tasks.change_detail(
                    tx, TaskDetail(task_id, tenant, view.detail.created_at, view.detail.key, name, tags={"n": name})
                )
            return changed

        self.write(operation)

    @rule(ids=st.lists(Pair.ids, min_size=1, max_size=3), later_ms=st.sampled_from([-5_000, 0, 30_000]))
    def park(self, ids: list[str], later_ms: int) -> None:
        self.write(lambda tx: due.park(tx, dict.fromkeys(ids, self.now + later_ms)))

    @rule()
    def expire(self) -> None:
        async def operation(tx: Transaction) -> list[str]:
            late = await due.expired(tx, self.now, 100)
            return await tasks.change(tx, [change.expire(row, self.now) for row in late])

        self.write(operation)

    @rule(ids=st.lists(Pair.ids, min_size=1, max_size=2, unique=True), told=st.booleans())
    def delete(self, ids: list[str], told: bool) -> None:
        async def operation(tx: Transaction) -> int:
            rows = [row for row in await tasks.states(tx, ids) if row.state in TERMINAL and row.template_id is None]
            gone = [(row.id, row.tenant, int(row.state)) for row in rows]
            await tasks.delete(tx, gone, at=self.now if told else None)
            return len(gone)

        self.write(operation)

    @rule(task_id=Pair.ids, priority=st.integers(0, 9), again=st.booleans())
    def write_what_is_stale(self, task_id: str, priority: int, again: bool) -> None:
        """Two changes from one row: the second is left out, in one list or in two."""

        async def work(world: World) -> list[list[str]]:
            row = await world.state(task_id)
            if row.state in TERMINAL or row.state is State.RUNNING:
                return []
            first, second = (change.patch(row, world.now, priority=one) for one in (priority, 9 - priority))
            return (
                [await world.write(first), await world.write(second)] if again else [await world.write(first, second)]
            )

        self.both(work)
