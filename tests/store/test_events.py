"""What is told of each write, in which order, for how long; and that a wrong telling would be found."""

from itertools import pairwise
from typing import Any

import pytest

from tasktick.model.schedule import CatchUp, pause
from tasktick.model.state import State
from tasktick.store import events, tasks
from tasktick.store.counts import PURGED, Deltas
from tasktick.store.events import PAGE_CHARS_MAX, PAGE_ROWS_MAX, UNBORN, Edges, EventRow, Item
from tasktick.store.protocol import Database, Transaction
from tasktick.store.tasks import Create
from tests.store import told
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, TENANT, World

S = State


async def moves(world: World, tenant: str = TENANT) -> list[tuple[str, int, int]]:
    """What is told of a tenant: id, before, after."""
    await world.database.number_events()
    found = await world.database.read(told.items)
    return [(item.id, item.before, item.after) for one, item in found if one == tenant]


async def rows(store: Database, sequence: int = 0) -> list[EventRow]:
    await store.number_events()
    return await store.read(lambda tx: events.page(tx, sequence))


async def edges(store: Database) -> Edges:
    await store.number_events()
    return await store.read(events.edges)


async def purge(world: World, before: int = 0, events_max: int = 1_000, rows_max: int = 100) -> bool:
    return await world.database.write(lambda tx: events.purge(tx, before, events_max, rows_max))


async def test_what_changes_alike_is_told_together(store: Database) -> None:
    """And read one by one: with another attempt, or at another time, it is not alike, and nothing changes places."""
    a, b, c = (f"{n:032x}" for n in range(3))
    deltas = Deltas()
    for task_id, before, after, attempt in ((a, 2, 4, 1), (b, 2, 4, 1), (b, 4, 5, 1), (c, 2, 4, 1), (b, 5, 4, 2)):
        deltas.moved(TENANT, before, after, task_id, 7, attempt)
    deltas.moved(TENANT, 4, 10, a, 8, 1)
    deltas.moved(TENANT, 4, 10, c, 9, 1)
    given = deltas.parameters()
    assert [item[0] for item in given["items"][TENANT]] == [a + b, b, c, b, a, c]
    assert given["events"] == 7

    await store.write(deltas.write)
    (row,) = await rows(store)
    assert [(one.id, one.before, one.after, one.at, one.attempt) for one in row.of(TENANT)] == [
        *((a, 2, 4, 7, 1), (b, 2, 4, 7, 1), (b, 4, 5, 7, 1), (c, 2, 4, 7, 1), (b, 5, 4, 7, 2)),
        *((a, 4, 10, 8, 1), (c, 4, 10, 9, 1)),
    ]


async def test_births_of_one_time_are_told_together(store: Database) -> None:
    a, b, c = (f"{n:032x}" for n in range(3))
    deltas = Deltas()
    deltas.born(TENANT, S.SCHEDULED, [(a, 7)])
    deltas.born(TENANT, S.SCHEDULED, [(b, 7), (c, 8)])
    assert [item[0] for item in deltas.parameters()["items"][TENANT]] == [a + b, c]

    await store.write(deltas.write)
    (row,) = await rows(store)
    assert [(one.id, one.before, one.after, one.at) for one in row.of(TENANT)] == [
        *((a, UNBORN, S.SCHEDULED, 7), (b, UNBORN, S.SCHEDULED, 7), (c, UNBORN, S.SCHEDULED, 8)),
    ]


async def test_a_life_is_told_from_its_birth_to_its_end(world: World) -> None:
    claimed = await world.claimed()
    world.now += 5
    assert await world.finish(claimed, 503) is S.RETRYING
    world.now += HOUR_MS
    (again,) = await world.claim(claimed.id)
    assert await world.finish(again, 404) is S.DEAD

    await world.database.number_events()
    found = [item for _, item in await world.database.read(told.items)]
    assert [(item.before, item.after, item.attempt) for item in found] == [
        (UNBORN, S.SCHEDULED, 0),
        (S.SCHEDULED, S.RUNNING, 1),
        (S.RUNNING, S.RETRYING, 1),
        (S.RETRYING, S.RUNNING, 2),
        (S.RUNNING, S.DEAD, 2),
    ]
    assert {item.id for item in found} == {claimed.id}
    assert [item.at - found[0].at for item in found] == [0, 0, 5, HOUR_MS + 5, HOUR_MS + 5]


async def test_changes_that_clients_make_are_told(world: World) -> None:
    one = await world.create()
    for name, state in (("pause", S.PAUSED), ("resume", S.SCHEDULED), ("cancel", S.CANCELLED), ("retry", S.SCHEDULED)):
        assert (await world.act(name, one)).state is state
    await world.act("run", one)  # it is due sooner, and in the same state
    rows = [(one, TENANT, int(S.SCHEDULED))]
    await world.database.write(lambda tx: tasks.delete(tx, rows, at=world.now))

    states = [UNBORN, S.SCHEDULED, S.PAUSED, S.SCHEDULED, S.CANCELLED, S.SCHEDULED, PURGED]
    assert await moves(world) == [(one, *pair) for pair in pairwise(states)]


async def test_a_batch_is_one_row_and_a_tenant_reads_its_own(world: World) -> None:
    made = [world.task(tenant=name) for name in ("a", "b", "a", "c", "b")]
    await world.create_all([Create(one) for one in made])

    (row,) = await rows(world.database)
    ids = {name: sorted(one.state.id for one in made if one.state.tenant == name) for name in "abc"}
    assert {name: [item.id for item in row.of(name)] for name in row.tenants} == ids
    assert row.of("nobody") == []


async def test_what_becomes_of_fires_is_told(world: World) -> None:
    world.now -= world.now % HOUR_MS
    calendar = Calendar(world)
    name = await calendar.create(catch_up=CatchUp("none"))
    ahead = (await calendar.ahead(name)).id
    await calendar.pass_ms(3 * MINUTE_MS, seen=False)
    later = (await calendar.ahead(name)).id
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, None))

    missed = [
        one for one, state in ((row.row.task_id, row.state) for row in await calendar.ledger(name)) if state == S.MISSED
    ]
    found = await moves(world)
    assert (ahead, S.SCHEDULED, S.MISSED) in found
    assert [one for one, before, after in found if (before, after) == (UNBORN, S.MISSED)] == sorted(
        {*map(str, missed)} - {ahead}
    )
    assert (later, S.SCHEDULED, PURGED) in found


async def test_what_changes_nothing_is_not_told(world: World) -> None:
    claimed = await world.claimed(key="k")
    await world.finish(claimed)
    before = await edges(world.database)
    assert await world.finish(claimed) is None, "stale"
    assert await world.claim(claimed.id) == []
    assert (await world.create_all([Create(world.task(key="k2"))])) == [None]
    (refused,) = await world.create_all([Create(world.task(key="k2"))])
    assert refused is not None
    assert await edges(world.database) == Edges(before.oldest, before.newest + 1)


async def test_a_claim_that_is_asked_for_again_is_told_once(world: World) -> None:
    one = await world.create()
    for _ in range(2):
        assert [claimed.id for claimed in await world.claim(one, claim_id=77)] == [one]
    assert await moves(world) == [(one, UNBORN, S.SCHEDULED), (one, S.SCHEDULED, S.RUNNING)]


async def test_what_is_undone_is_not_told_and_takes_no_number(world: World) -> None:
    async def fails(tx: Transaction) -> None:
        await tasks.insert(tx, [world.task()])
        raise ValueError("after all")

    await world.create()
    with pytest.raises(ValueError, match="after all"):
        await world.database.write(fails)
    await world.create()
    assert [row.sequence for row in await rows(world.database)] == [1, 2]


async def test_other_things_may_be_told_too(world: World) -> None:
    item = ("sch_1", 0, 0, world.now, None, "schedule.paused", {"by": "hand"})
    await world.database.write(lambda tx: events.record(tx, {TENANT: [item]}, world.now))
    await world.database.write(lambda tx: events.record(tx, {}, world.now))
    (row,) = await rows(world.database)
    assert row.of(TENANT) == [Item("sch_1", 0, 0, world.now, None, "schedule.paused", {"by": "hand"})]


async def test_a_page_has_a_bound_and_always_a_row(store: Database) -> None:
    text = "x" * (PAGE_CHARS_MAX // 2)

    async def fill(tx: Transaction) -> None:
        for size in (1, 3, 1, 1, 1):
            await events.record(tx, {"a": [("id", 0, 0, 0, None, "t", {"text": text * size})]}, 0)
        for _ in range(PAGE_ROWS_MAX + 5):
            await events.record(tx, {"a": [("id", 1, 2, 3, 4)]}, 0)

    await store.write(fill)
    at, pages = 1, []
    while page := await rows(store, at):
        assert [row.sequence for row in page] == list(range(at, at + len(page)))
        pages.append(len(page))
        at += len(page)
    assert pages == [1, 1, 1, 1, PAGE_ROWS_MAX, 6]


async def test_a_store_that_never_told_anything(store: Database) -> None:
    assert await edges(store) == Edges(1, 0)
    assert await rows(store) == []
    assert await store.write(lambda tx: events.purge(tx, 10**15, 1, 10)) is False


async def test_what_is_old_goes_in_batches_from_its_old_end(world: World) -> None:
    for _ in range(10):
        await world.create()
        world.now += 1_000
    cut = world.now - 4_000
    assert [await purge(world, cut, rows_max=3) for _ in range(3)] == [True, True, False]
    assert await edges(world.database) == Edges(8, 10)
    assert await purge(world, world.now) is False
    assert await edges(world.database) == Edges(10, 10), "the newest stays: the next number follows it"
    await world.create()
    assert await edges(world.database) == Edges(10, 11)


async def test_a_clock_that_was_set_back_leaves_no_hole(world: World) -> None:
    for step_ms in (1_000, 1_000, -60_000, 1_000, 1_000):
        await world.create()
        world.now += step_ms
    assert await purge(world, world.now - 1_000) is False  # only the fourth is as old as that
    assert await edges(world.database) == Edges(5, 5)


async def test_too_many_go_however_young_they_are(world: World) -> None:
    for size in (4, 4, 1, 4, 4):
        await world.create_all([Create(world.task()) for _ in range(size)])
    assert await purge(world, events_max=9) is False
    assert await edges(world.database) == Edges(3, 5)
    assert await purge(world, events_max=9) is False
    assert await purge(world, events_max=1) is False
    assert await edges(world.database) == Edges(5, 5)


async def test_a_batch_of_a_purge_has_a_bound_in_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PURGED_AT_ONCE", 5)
    for _ in range(6):
        await world.create_all([Create(world.task()) for _ in range(3)])
    assert [await purge(world, world.now) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("tell", "said"),
    [
        (lambda deltas, one: deltas.moved(TENANT, S.PAUSED, S.SCHEDULED, one, 1, 0), "to have been 6, and was 2"),
        (lambda deltas, one: deltas.moved(TENANT, S.SCHEDULED, S.PAUSED, one, 1, 0), "told to be 6, and is 2"),
    ],
)
async def test_a_wrong_telling_would_be_found(store: Database, tell: Any, said: str) -> None:
    world = World(store)
    one = await world.create()
    await store.number_events()
    assert await store.read(told.faults) == []
    deltas = Deltas()
    tell(deltas, one)
    await store.write(deltas.write)
    await store.number_events()
    assert said in " ".join(await store.read(told.faults))


async def test_a_task_that_nothing_is_told_of_would_be_found(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deltas, "born", lambda *_: None)
    await World(store).create()
    assert await store.read(told.faults) == ["there are tasks that nothing is told of"]
