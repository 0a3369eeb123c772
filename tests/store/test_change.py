"""Changes are guarded by the version and the state they were made from; what is illegal changes nothing."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tasktick.errors import IllegalTransition, Refused
from tasktick.model import change
from tasktick.model.change import Change
from tasktick.model.state import STORED, TERMINAL, TRANSITIONS, Event, State
from tasktick.model.task import TaskState
from tasktick.store import names, tasks
from tasktick.store.tasks import Create
from tests.store.world import HOUR_MS, TENANT, World

# Each change that no attempt makes, and the event that it is in the table.
CHANGES: dict[str, tuple[Event, Callable[[TaskState, int], Change]]] = {
    "cancel": (Event.CANCEL, change.cancel),
    "pause": (Event.PAUSE, change.pause),
    "resume": (Event.RESUME, change.resume),
    "run now": (Event.RUN_NOW, change.run_now),
    "expire": (Event.EXPIRE, change.expire),
    "reopen": (Event.REOPEN, change.reopen),
    "patch": (Event.CHANGE, lambda task, now: change.patch(task, now, priority=1)),
}


async def in_state(world: World, state: State) -> str:
    """The id of a task that got into this state as tasks do."""
    match state:
        case State.SCHEDULED | State.PAUSED | State.BLOCKED | State.SKIPPED | State.MISSED:
            done = world.now if state in TERMINAL else None
            return await world.create(state=state, completed_at=done)
        case State.CANCELLED:
            return (await world.act("cancel", await world.create())).id
        case State.EXPIRED:
            task_id = await world.create(expires_at=world.now)
            await world.write(change.expire(await world.state(task_id), world.now))
            return task_id
    claimed = await world.claimed()
    match state:
        case State.RETRYING:
            await world.finish(claimed, 500)
        case State.SUCCEEDED:
            await world.finish(claimed)
        case State.DEAD:
            await world.finish(claimed, 404)
        case State.AWAITING:
            before = await world.state(claimed.id)
            after = msgspec.structs.replace(before, state=State.AWAITING)
            await world.write(Change(Event.AWAIT, before, after))
        case _:
            assert state is State.RUNNING
    return claimed.id


@pytest.mark.parametrize("state", sorted(STORED), ids=lambda state: state.word)
@pytest.mark.parametrize("name", CHANGES)
async def test_every_change_in_every_state(world: World, name: str, state: State) -> None:
    event, make = CHANGES[name]
    task_id = await in_state(world, state)
    before = await world.state(task_id)
    assert before.state is state
    sources, result = TRANSITIONS[event]
    if name == "cancel" and state is State.RUNNING:
        assert await world.write(make(before, world.now)) == [task_id]
        assert (await world.state(task_id)).cancel_requested
    elif state in sources:
        assert await world.write(make(before, world.now)) == [task_id]
        row = await world.state(task_id)
        assert row.state is (state if event is Event.CHANGE else result)
        assert row.version == before.version + 1
        assert (row.completed_at is not None) == (row.state in TERMINAL)
    else:
        with pytest.raises(IllegalTransition, match=state.word):
            make(before, world.now)
        assert await world.state(task_id) == before


@pytest.mark.parametrize("state", sorted(STORED - {State.SCHEDULED, State.RETRYING}), ids=lambda state: state.word)
async def test_only_what_waits_is_claimed(world: World, state: State) -> None:
    task_id = await in_state(world, state)
    before = await world.state(task_id)
    world.now += HOUR_MS
    assert await world.claim(task_id) == []
    assert await world.state(task_id) == before


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_change_of_another_version_is_stale(world: World, steps: int) -> None:
    task_id = await world.create()
    stale = change.cancel(await world.state(task_id), world.now)
    for _ in range(steps):
        await world.write(change.patch(await world.state(task_id), world.now, priority=2))
    before = await world.state(task_id)
    assert await world.write(stale) == []
    assert await world.state(task_id) == before


async def test_a_change_made_before_the_claim_is_stale_and_counts_nothing(world: World) -> None:
    task_id = await world.create(key="k-1")
    stale = change.cancel(await world.state(task_id), world.now)
    await world.claim(task_id)
    assert await world.write(stale) == []
    assert (await world.state(task_id)).state is State.RUNNING
    assert await world.database.read(lambda tx: names.find(tx, TENANT, names.TASK, "k-1")) is not None
    await world.check_counts()


async def test_a_change_from_another_state_is_stale(world: World) -> None:
    task_id = await world.create()
    before = await world.state(task_id)
    foreign = msgspec.structs.replace(before, state=State.PAUSED)
    assert await world.write(change.resume(foreign, world.now)) == []
    assert await world.state(task_id) == before


async def test_stale_changes_do_not_hold_up_others(world: World) -> None:
    ids = [await world.create() for _ in range(4)]
    changes = [change.pause(await world.state(task_id), world.now) for task_id in ids]
    await world.claim(ids[0], ids[2])
    assert await world.write(*changes) == [ids[1], ids[3]]
    assert [(await world.state(task_id)).state for task_id in ids] == [State.RUNNING, State.PAUSED] * 2


async def test_of_two_changes_of_one_task_in_one_list_one_is_written(world: World) -> None:
    task_id = await world.create()
    before = await world.state(task_id)
    assert await world.write(change.pause(before, world.now), change.pause(before, world.now)) == [task_id]
    assert (await world.state(task_id)).version == before.version + 1


async def test_a_task_that_is_not_there_is_stale(world: World) -> None:
    nobody = world.task().state
    assert await world.write(change.pause(nobody, world.now)) == []
    assert await world.write() == []


async def test_paused_work_goes_on_at_its_time_or_at_once(world: World) -> None:
    task_id = await world.create(run_at=world.now + HOUR_MS)
    await world.act("pause", task_id)
    row = await world.act("resume", task_id)
    assert (row.due_at, row.wake_at) == (world.now + HOUR_MS, world.now + HOUR_MS)
    await world.act("pause", task_id)
    world.now += 2 * HOUR_MS
    await world.act("resume", task_id)
    assert [one.id for one in await world.claim(task_id)] == [task_id]


async def test_run_makes_it_due_and_keeps_its_nominal_time(world: World) -> None:
    run_at = world.now + HOUR_MS
    task_id = await world.create(run_at=run_at)
    row = await world.act("run", task_id)
    assert (row.run_at, row.due_at, row.wake_at) == (run_at, world.now, world.now)
    assert len(await world.claim(task_id)) == 1


async def test_run_of_a_finished_task_starts_a_new_series(world: World) -> None:
    claimed = await world.claimed()
    await world.finish(claimed)
    row = await world.act("run", claimed.id)
    assert (row.series, row.series_base, row.fence) == (2, 1, claimed.fence)
    (again,) = await world.claim(claimed.id)
    assert again.fence > claimed.fence


async def test_retry_is_for_what_gave_up(world: World) -> None:
    claimed = await world.claimed()
    await world.finish(claimed)
    with pytest.raises(IllegalTransition, match="succeeded cannot be retried"):
        await world.act("retry", claimed.id)


async def test_an_expired_task_that_is_retried_does_not_expire_again(world: World) -> None:
    task_id = await world.create(expires_at=world.now + 10)
    world.now += 10
    assert await world.claim(task_id) == []
    await world.write(change.expire(await world.state(task_id), world.now))
    assert (await world.act("retry", task_id)).expires_at is None
    assert len(await world.claim(task_id)) == 1


async def holder(world: World, key: str) -> str | None:
    found = await world.database.read(lambda tx: names.find(tx, TENANT, names.TASK, key))
    return found.object_id if found else None


@pytest.mark.parametrize("how", ["succeed", "die", "cancel", "expire", "cancel running"])
async def test_a_key_is_free_when_its_task_has_ended(world: World, how: str) -> None:
    task_id = await world.create(key="k-1", expires_at=world.now + 1)
    assert await holder(world, "k-1") == task_id
    if how == "expire":
        await world.write(change.expire(await world.state(task_id), world.now + 1))
    elif how == "cancel":
        await world.act("cancel", task_id)
    else:
        (claimed,) = await world.claim(task_id)
        if how == "cancel running":
            await world.act("cancel", task_id)
        assert await holder(world, "k-1") == task_id
        await world.finish(claimed, 200 if how == "succeed" else 404)
    assert await holder(world, "k-1") is None
    assert await world.create(key="k-1") != task_id


@pytest.mark.parametrize("how", ["retry", "pause", "release", "unclaim"])
async def test_a_key_stays_while_its_task_lives(world: World, how: str) -> None:
    task_id = await world.create(key="k-1")
    (claimed,) = await world.claim(task_id)
    match how:
        case "retry":
            await world.finish(claimed, 500)
        case "pause":
            await world.finish(claimed, 500)
            await world.act("pause", task_id)
        case _:
            await world.give_back(claimed, sent=how == "release")
    assert await holder(world, "k-1") == task_id


async def dead_with_key(world: World, key: str) -> str:
    (claimed,) = await world.claim(await world.create(key=key))
    await world.finish(claimed, 404)
    return claimed.id


async def test_a_task_that_is_taken_up_again_takes_its_key_again(world: World) -> None:
    task_id = await dead_with_key(world, "k-1")
    await world.act("retry", task_id)
    assert await holder(world, "k-1") == task_id
    (refused,) = await world.create_all([Create(world.task(key="k-1"))])
    assert refused.code == "key_taken"


async def test_a_task_whose_key_another_has_by_now_is_not_taken_up(world: World) -> None:
    old = await dead_with_key(world, "k-1")
    new = await world.create(key="k-1")
    before = await world.state(old)
    with pytest.raises(Refused, match="key") as caught:
        await world.act("retry", old)
    assert caught.value.code == "key_taken"
    assert (await world.state(old), await holder(world, "k-1")) == (before, new)


async def test_of_many_those_without_their_key_are_left_out(world: World) -> None:
    first, second = await dead_with_key(world, "k-1"), await dead_with_key(world, "k-1")
    other = await dead_with_key(world, "k-2")
    changes = [change.reopen(await world.state(one), world.now) for one in (first, second, other)]
    assert await world.write(*changes) == [first, other]
    assert (await world.state(second)).state is State.DEAD
    assert [await holder(world, key) for key in ("k-1", "k-2")] == [first, other]


async def test_a_payload_that_is_replaced_leaves_the_earlier_one(world: World) -> None:
    task_id = await world.create()
    before = await world.state(task_id)
    payload = msgspec.structs.replace(world.task().payload, traceparent="later")

    async def operation(tx: Any) -> list[str]:
        await tasks.add_payload(tx, task_id, 2, payload)
        return await tasks.change(tx, [change.patch(before, world.now, payload_version=2)])

    assert await world.database.write(operation) == [task_id]
    stored = await world.database.read(lambda tx: tasks.payloads(tx, [(task_id, 1), (task_id, 2)]))
    assert [one.payload.traceparent for one in sorted(stored, key=lambda one: one.version)] == [None, "later"]
    (latest,) = await world.database.read(lambda tx: tasks.latest_payloads(tx, [task_id]))
    assert (latest.version, latest.payload) == (2, payload)
    (claimed,) = await world.claim(task_id)
    assert await world.payload(claimed) == payload


async def test_payloads_are_read_up_to_a_bound_and_the_first_always(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [(await world.create(), 1) for _ in range(5)]
    chars = len(msgspec.json.encode(world.task().payload))
    read = world.database.read
    for bound, count in ((0, 1), (chars, 1), (3 * chars, 3), (100 * chars, 5)):
        monkeypatch.setattr(tasks, "PAYLOAD_CHARS_MAX", bound)
        stored = await read(lambda tx: tasks.payloads(tx, list(reversed(keys))))
        assert [one.owner_id for one in stored] == [owner_id for owner_id, _ in reversed(keys)][:count]
