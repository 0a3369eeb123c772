"""Rules that only look: every filter and page, what is due, events."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tasktick.model.state import State
from tasktick.store import attempts, dlq, due, events, listing, retention, schedules, tasks
from tasktick.store.dlq import DeadLetterFilter
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import ScheduleFilter
from tests.beside.keeping import HEX
from tests.beside.pair import KEYS, TENANTS, WORDS, Pair
from tests.store.world import HOUR_MS, NOW

TEXTS = (*WORDS, "RECEIVER.example", "reset", "4", "%", "_", "\\", "HOOK", "é", "SS", "i̇")
texts = st.sampled_from(TEXTS)
instants = st.sampled_from([NOW - NOW % HOUR_MS + one for one in (-1, 0, 1, 20_000, HOUR_MS)])
pages = st.fixed_dictionaries({"limit": st.sampled_from([1, 2, 5]), "oldest_first": st.booleans()})
shared: dict[str, Any] = {
    "queue": st.sampled_from(["default", "q", "Q"]),
    "type": st.sampled_from(["t", "T"]),
    "name": texts,
    "text": texts,
    "workflow_id": st.just("w" * 32),
    "run_after": instants,
    "run_before": instants,
    "created_after": instants,
    "created_before": instants,
    "sla_met": st.booleans(),
}
states = st.lists(st.sampled_from([int(one) for one in State]), min_size=1, max_size=4)
# A few filters together: all of them would find nothing.
few = st.lists(st.sampled_from([*shared, "states", "tag"]), max_size=2, unique=True)


@st.composite
def filters(draw: st.DrawFn) -> dict[str, Any]:
    """What a client may ask for."""
    found: dict[str, Any] = {}
    for name in draw(few):
        match name:
            case "tag":
                found |= {"tag_name": draw(st.sampled_from(["team", "a.b", 'q"q', "n"])), "tag_value": draw(texts)}
            case "states":
                found["states"] = draw(states)
            case _:
                found[name] = draw(shared[name])
    return found


class ListRules(Pair):
    """What can be asked for."""

    @rule(tenant=st.sampled_from(TENANTS), by=filters(), page=pages)
    def list_tasks(self, tenant: str, by: dict[str, Any], page: dict[str, Any]) -> None:
        wanted = TaskFilter(now=self.now, **by)

        async def look(tx: Transaction) -> list[str]:
            found: list[str] = []
            beyond = None
            while rows := await listing.ids_page(tx, tenant, wanted, beyond=beyond, **page):
                found += rows
                beyond = rows[-1]
            assert len(set(found)) == len(found)
            return found

        found = self.read(look) or []
        self.read(lambda tx: listing.matching(tx, tenant, wanted, found[::-1]))
        self.read(lambda tx: listing.matching(tx, tenant, TaskFilter(now=self.now), found[:2]))

    @rule(tenant=st.sampled_from(TENANTS), by=filters(), page=pages, unresolved=st.sampled_from([None, True, False]))
    def list_dead_letters(self, tenant: str, by: dict[str, Any], page: dict[str, Any], unresolved: bool | None) -> None:
        by.pop("states", None)
        wanted = DeadLetterFilter(unresolved=unresolved, **by)

        async def look(tx: Transaction) -> list[Any]:
            found: list[Any] = []
            beyond = None
            while rows := await dlq.page(tx, tenant, wanted, beyond=beyond, **page):
                found += rows
                beyond = rows[-1].id
            ids = [one.id for one in found]
            return [found, await dlq.matching(tx, tenant, wanted, ids), await dlq.by_ids(tx, tenant, sorted(ids))]

        self.read(look)
        self.read(lambda tx: dlq.page(tx, tenant, DeadLetterFilter(class_="receiver"), beyond=None, limit=5))

    @rule(
        tenant=st.sampled_from(TENANTS),
        page=pages,
        paused=st.none() | st.booleans(),
        name=st.none() | texts,
        text=st.none() | texts,
        tag=st.none() | texts,
    )
    def list_schedules(
        self,
        tenant: str,
        page: dict[str, Any],
        paused: bool | None,
        name: str | None,
        text: str | None,
        tag: str | None,
    ) -> None:
        wanted = ScheduleFilter(name, paused, None if tag is None else "n", tag, text)

        async def look(tx: Transaction) -> list[str]:
            found: list[str] = []
            beyond = None
            while rows := await schedules.ids_page(tx, tenant, wanted, beyond=beyond, **page):
                found += rows
                beyond = rows[-1]
            return found

        self.read(look)

    @rule(tenant=st.sampled_from(TENANTS), task_id=Pair.ids, key=st.sampled_from(KEYS))
    def look_one_up(self, tenant: str, task_id: str, key: str) -> None:
        self.read(lambda tx: tasks.view(tx, tenant, f"tsk_{task_id}", bodies=False))
        self.read(lambda tx: tasks.view(tx, tenant, f"key:{key}"))
        self.read(lambda tx: tasks.holder(tx, tenant, key))
        self.read(lambda tx: schedules.find(tx, tenant, f"key:{key}"))
        self.read(lambda tx: attempts.of_task(tx, task_id, 1, 1))
        self.read(lambda tx: attempts.count(tx, task_id))
        self.read(lambda tx: attempts.last(tx, [task_id], bodies=False))
        self.read(lambda tx: tasks.payloads(tx, [(task_id, 2), (task_id, 1), (task_id, 9)]))

    @rule(limit=st.integers(1, 3), ahead_ms=st.sampled_from([-60_000, 0, HOUR_MS]), partitions=st.none() | st.just(HEX))
    def look_ahead(self, limit: int, ahead_ms: int, partitions: list[str] | None) -> None:
        async def look(tx: Transaction) -> list[Any]:
            found: list[Any] = []
            until = self.now + ahead_ms
            whole = left = due.Stretch(due.BEGINNING, until)
            while rows := await due.between(tx, left, limit, partitions):
                found += rows
                left = left.beyond(rows)
            ids = [one.id for one in found]
            waiting = sorted(await due.by_ids(tx, ids), key=lambda one: one.id)
            timers = await due.timers(tx, whole, 100, partitions)
            late = await due.expired(tx, until, limit, partitions)
            look_at = await schedules.next_look(tx, self.now, partitions)
            return [found, waiting, timers, late, await schedules.due(tx, until, limit, partitions), look_at]

        self.read(look)

    @rule(events_max=st.sampled_from([0, 5, 1_000]), age_ms=st.sampled_from([0, 60_000]), limit=st.integers(1, 3))
    def forget_events(self, events_max: int, age_ms: int, limit: int) -> None:
        async def operation(tx: Transaction) -> list[Any]:
            more = await retention.remove_events(tx, self.now - age_ms, events_max, limit)
            return [more, await events.edges(tx)]

        self.write(operation)
