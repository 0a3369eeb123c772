"""What the loader reads: all that waits, in order, page by page, each once; and what is parked or too late."""

from collections.abc import Iterable

import pytest

from tasktick.model import change
from tasktick.model.ids import PARTITIONS, partition_of
from tasktick.model.state import STORED, State
from tasktick.model.task import Due, Timers, due_of
from tasktick.store import due
from tasktick.store.due import Stretch
from tasktick.store.tasks import Create
from tests.store.test_change import in_state
from tests.store.world import HOUR_MS, World


async def pages(world: World, until: int, limit: int, partitions: list[str] | None = None) -> list[Due]:
    """Everything up to `until`, as the loader pages it."""
    return await paged(world, Stretch(due.BEGINNING, until), limit, partitions)


async def paged(world: World, stretch: Stretch, limit: int, partitions: list[str] | None = None) -> list[Due]:
    found: list[Due] = []
    left = stretch
    while True:
        page = await world.database.near.read(lambda tx, left=left: due.between(tx, left, limit, partitions))  # type: ignore[misc] # bound
        found += page
        if len(page) < limit:
            return found
        left = left.beyond(page)


async def timers(world: World, stretch: Stretch, limit: int, partitions: list[str] | None = None) -> Timers:
    return await world.database.near.read(lambda tx: due.timers(tx, stretch, limit, partitions))


def read_off(timers: Timers) -> list[tuple[int, str]]:
    """Their times and ids; as numbers the ids are the same."""
    assert timers.keys() == [int(one, 16) for one in timers.ids]
    return list(zip(timers.times, timers.ids, strict=True))


def in_order(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """These times and ids in the order in which they are read."""
    return sorted(rows, key=lambda row: (due.slot_begins(row[0]), row[1]))


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_pages_are_whole_and_in_order_whatever_the_ties(world: World, limit: int) -> None:
    offsets = [0, 5, 5, 5, 5, 5, 1, -HOUR_MS, 5, 9, 10, 10, 11, HOUR_MS]
    ids = [await world.create(run_at=world.now + offset) for offset in offsets]
    wanted = in_order(
        (world.now + offset, task_id) for offset, task_id in zip(offsets, ids, strict=True) if offset <= 10
    )
    assert [(one.wake_at, one.id) for one in await pages(world, world.now + 10, limit)] == wanted


@pytest.mark.parametrize("own", [None, [f"{one:02x}" for one in range(PARTITIONS)]], ids=["all", "each"])
@pytest.mark.parametrize("limit", [1, 7, 50, 1_000])
async def test_a_slot_of_many_pages_is_read_once_and_whole(world: World, limit: int, own: list[str] | None) -> None:
    """More are due in one slot than a page takes, at instants that have nothing to do with their ids."""
    begin = due.slot_begins(world.now + HOUR_MS)
    offsets = [-1, 0, 1_023, 1_024, 1_025, 2_047, 2_048, *(number * 389 % 1_024 for number in range(120))]
    tasks = [world.task(run_at=begin + offset) for offset in offsets]
    assert set(await world.create_all([Create(one) for one in tasks])) == {None}
    for since, until in ((-1, 2_048), (0, 1_023), (100, 900), (1_023, 1_024), (500, 500), (1_024, 2_047), (900, 100)):
        rows = [(one.state.wake_at, one.state.id) for one in tasks]
        wanted = in_order(row for row in rows if begin + since <= row[0] <= begin + until)
        found = await paged(world, Stretch(begin + since, begin + until), limit, own)
        assert [(one.wake_at, one.id) for one in found] == wanted
        first = await timers(world, Stretch(begin + since, begin + until), limit, own)
        assert read_off(first) == wanted[:limit]
        if len(first) == limit:
            # Whoever stops here knows all that is due before this slot.
            known = {row for row in rows if begin + since <= row[0] < due.slot_begins(first.times[-1])}
            assert known <= set(wanted[:limit])


MANY = set(range(0, 256, 2)) | {3}


@pytest.mark.parametrize("entries", [1, 7, 50_000])
@pytest.mark.parametrize("limit", [1, 3, 10, 1_000])
async def test_pages_of_some_partitions_are_whole_and_in_order_however_uneven(
    world: World, limit: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one are all due before those of the others, some in one slot and some in many, and of what others own no
    more is read over at once than so many."""
    monkeypatch.setattr(due, "ENTRIES_MAX", entries)
    counts = {3: 40, 17: 2, 200: 20, 201: 1}
    tasks = [
        world.task(partition=one, run_at=world.now + (number // 3 if one == 3 else 701 * number))
        for one, count in counts.items()
        for number in range(count)
    ]
    assert set(await world.create_all([Create(one) for one in tasks])) == {None}
    for owned in ({3, 17}, {17, 200}, {3, 17, 200, 5}, {5}, MANY, set[int]()):
        rows = [(one.state.wake_at, one.state.id) for one in tasks if partition_of(one.state.id) in owned]
        partitions = [f"{one:02x}" for one in owned]
        for since, until in ((world.now - 100, world.now + HOUR_MS), (world.now + 5, world.now + 7_011)):
            wanted = in_order(row for row in rows if since <= row[0] <= until)
            found = await paged(world, Stretch(since, until), limit, partitions)
            assert [(one.wake_at, one.id) for one in found] == wanted
            assert read_off(await timers(world, Stretch(since, until), limit, partitions)) == wanted[:limit]


async def test_timers_are_the_same_by_time_and_id(world: World) -> None:
    for offset in (3, 1, 2, 1):
        await world.create(run_at=world.now + offset)
    found = await timers(world, Stretch(due.BEGINNING, world.now + HOUR_MS), 10)
    assert read_off(found) == [(one.wake_at, one.id) for one in await pages(world, world.now + HOUR_MS, 10)]


async def test_what_is_read_is_what_the_memory_needs(world: World) -> None:
    task_id = await world.create(queue="q", host="h", priority=3, due_at=world.now - 5, wake_at=world.now - 1)
    (found,) = await pages(world, world.now, 10)
    assert found == due_of(await world.state(task_id))
    assert await world.database.near.read(lambda tx: due.by_ids(tx, [task_id, "0" * 32])) == [found]


@pytest.mark.parametrize("state", sorted(STORED), ids=lambda state: state.word)
async def test_only_what_waits_is_read(world: World, state: State) -> None:
    task_id = await in_state(world, state)
    found = [one.id for one in await pages(world, world.now + HOUR_MS, 10)]
    assert found == ([task_id] if state in (State.SCHEDULED, State.RETRYING) else [])
    assert [one.id for one in await world.database.near.read(lambda tx: due.by_ids(tx, [task_id]))] == found


async def test_what_is_parked_is_looked_at_later_and_keeps_its_order(world: World) -> None:
    parked, other = await world.create(), await world.create()
    before = await world.state(parked)
    later = world.now + 30_000
    assert await world.database.write(lambda tx: due.park(tx, {parked: later})) == 1
    assert [one.id for one in await pages(world, world.now, 10)] == [other]
    row = await world.state(parked)
    assert (row.wake_at, row.due_at, row.version) == (later, before.due_at, before.version)
    assert await world.claim(parked) == []
    world.now = later
    (claimed,) = await world.claim(parked)
    assert claimed.due_at == before.due_at


async def test_parking_only_ever_defers_what_waits(world: World) -> None:
    far, running = await world.create(run_at=world.now + HOUR_MS), (await world.claimed()).id
    rows = {far: world.now + 1, running: world.now + HOUR_MS}
    before = [await world.state(far), await world.state(running)]
    assert await world.database.write(lambda tx: due.park(tx, rows)) == 0
    assert [await world.state(far), await world.state(running)] == before


async def test_a_change_made_before_it_was_parked_still_holds(world: World) -> None:
    task_id = await world.create()
    made = change.cancel(await world.state(task_id), world.now)
    await world.database.write(lambda tx: due.park(tx, {task_id: world.now + 30_000}))
    assert await world.write(made) == [task_id]


async def test_what_is_too_late_is_found_oldest_first(world: World) -> None:
    expiring = {offset: await world.create(expires_at=world.now + offset) for offset in (30, 10, 20, 40)}
    paused = await world.create(expires_at=world.now)
    await world.act("pause", paused)
    await world.create()
    late = await world.database.read(lambda tx: due.expired(tx, world.now + 30, 10))
    assert {row.id for row in late} == {expiring[offset] for offset in (10, 20, 30)}
    (first,) = await world.database.read(lambda tx: due.expired(tx, world.now + 30, 1))
    assert first.id == expiring[10]
    since = await world.database.read(lambda tx: due.expired(tx, world.now + 30, 10, since=world.now + 10))
    assert {row.id for row in since} == {expiring[20], expiring[30]}
    world.now += 30
    assert len(await world.write(*(change.expire(row, world.now) for row in late))) == 3
    assert (await world.state(expiring[10])).reason == "expired"
    assert await world.database.read(lambda tx: due.expired(tx, world.now, 10)) == []
