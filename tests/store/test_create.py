"""Creates: whole or not at all, once for each key, and one bad row alone."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasktick.errors import Refused
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import Target
from tasktick.store import names, tasks
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.rows import TaskView
from tasktick.store.tasks import Create
from tests.store.drivers import InlineDatabase
from tests.store.world import HOUR_MS, TENANT, World


async def test_a_task_is_read_as_it_was_written(world: World) -> None:
    task = world.task(
        key="k-1",
        retry=RetryPolicy(3, "list", 1_000, 1.5, 60_000, 0.25, (1_000, 2_000)),
        detail={"name": "n", "type": "t", "tags": {"a": "1"}, "sla_ms": 5, "expires_in_ms": 7, "step": "s"},
        run_at=world.now + 5,
        due_at=world.now + 6,
        wake_at=world.now + 7,
        priority=9,
        at_most_once=True,
        expires_at=world.now + HOUR_MS,
        queue="q",
        host="h",
    )
    assert await world.create_all([Create(task)]) == [None]
    found = await view(world, f"tsk_{task.state.id}")
    assert (found.state, found.detail, found.payload) == (task.state, task.detail, task.payload)


async def test_many_are_created_at_once(world: World) -> None:
    made = [world.task() for _ in range(1_200)]
    assert await world.create_all([Create(task) for task in made]) == [None] * len(made)
    assert await world.counted() == {(TENANT, State.SCHEDULED): len(made)}


async def test_a_bad_row_fails_alone(world: World) -> None:
    taken = await world.create()
    made = [world.task() for _ in range(8)]
    made[3] = msgspec.structs.replace(made[3], state=msgspec.structs.replace(made[3].state, id=taken))
    results = await world.create_all([Create(task) for task in made])
    assert isinstance(results[3], Exception)
    assert [one for one in results if one is None] == [None] * 7
    assert await world.counted() == {(TENANT, State.SCHEDULED): 8}
    ids = [one.state.id for one in made if one.state.id != taken]
    assert len(await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))) == 7


async def test_a_bad_caller_fails_alone(world: World) -> None:
    taken = await world.create()
    made = [world.task() for _ in range(6)]
    bad = msgspec.structs.replace(made[2], state=msgspec.structs.replace(made[2].state, id=taken))
    results = await asyncio.gather(*(world.create_all([Create(bad if n == 2 else made[n])]) for n in range(6)))
    assert [one == [None] for one in results] == [n != 2 for n in range(6)]


async def test_a_key_is_one_tasks_at_a_time(world: World) -> None:
    first = await world.create(key="k-1")
    (refused,) = await world.create_all([Create(world.task(key="k-1"))])
    assert isinstance(refused, Refused)
    assert (refused.code, refused.errors) == ("key_taken", [("/key", f"taken by tsk_{first}")])
    assert await world.create(key="k-1", tenant="other") != first, "another tenant's key is another key"
    assert await world.create(key="k-2") != first


async def test_of_two_in_one_batch_the_first_has_the_key(world: World) -> None:
    results = await world.create_all([Create(world.task(key=key)) for key in ("a", "b", "a", "c", "a")])
    assert [None if one is None else one.code for one in results] == [None, None, "key_taken", None, "key_taken"]
    assert await world.counted() == {(TENANT, State.SCHEDULED): 3}


async def test_a_key_leads_to_its_task_and_then_to_the_last_that_had_it(world: World) -> None:
    async def led() -> str:
        return await world.database.read(lambda tx: tasks.resolve(tx, TENANT, "key:k-1"))

    first = await world.create(key="k-1")
    assert await led() == first
    await world.act("cancel", first)
    assert await led() == first
    second = await world.create(key="k-1")
    assert await led() == second
    await world.act("cancel", second)
    assert await led() == second
    with pytest.raises(Refused, match="no task 'key:k-2'"):
        await world.database.read(lambda tx: tasks.resolve(tx, TENANT, "key:k-2"))


async def view(world: World, name: str) -> TaskView:
    return await world.database.read(lambda tx: tasks.view(tx, TENANT, name))


async def test_another_tenants_task_is_not_there(world: World) -> None:
    theirs = await world.create(tenant="other", key="k-1")
    for name in (f"tsk_{theirs}", "key:k-1", f"tsk_{'0' * 32}", "tsk_nonsense", f"sch_{theirs}"):
        with pytest.raises(Refused, match="There is no task") as caught:
            await view(world, name)
        assert caught.value.code == "not_found"


async def test_the_same_key_and_body_is_the_first_answer_again(world: World) -> None:
    first = world.idempotent(world.task(), "i-1")
    assert await world.create_all([first]) == [None]
    (again,) = await world.create_all([world.idempotent(world.task(), "i-1")])
    assert first.answer is not None
    assert again == msgspec.structs.replace(first.answer, replayed=True)
    assert await world.counted() == {(TENANT, State.SCHEDULED): 1}


async def test_the_same_key_and_another_body_is_refused(world: World) -> None:
    await world.create_all([world.idempotent(world.task(), "i-1")])
    (refused,) = await world.create_all([world.idempotent(world.task(), "i-1", fingerprint="body-2")])
    assert (type(refused), refused.code) == (Refused, "idempotency_key_reused")
    (theirs,) = await world.create_all([world.idempotent(world.task(tenant="other"), "i-1", fingerprint="body-2")])
    assert theirs is None


async def test_a_replay_is_told_from_a_key_that_is_taken(world: World) -> None:
    await world.create_all([world.idempotent(world.task(key="k-1"), "i-1")])
    (again,) = await world.create_all([world.idempotent(world.task(key="k-1"), "i-1")])
    assert isinstance(again, StoredAnswer)
    (refused,) = await world.create_all([world.idempotent(world.task(key="k-1"), "i-2")])
    assert refused.code == "key_taken"
    await world.act("cancel", await world.database.read(lambda tx: tasks.resolve(tx, TENANT, "key:k-1")))
    assert await world.create_all([world.idempotent(world.task(key="k-1"), "i-2")]) == [None], "a refusal is not kept"


async def test_a_window_that_has_closed_is_a_new_request(world: World) -> None:
    await world.create_all([world.idempotent(world.task(), "i-1", window_ms=1_000)])
    world.now += 999
    assert isinstance((await world.create_all([world.idempotent(world.task(), "i-1")]))[0], StoredAnswer)
    world.now += 1
    assert await world.create_all([world.idempotent(world.task(), "i-1", fingerprint="body-2")]) == [None]
    (again,) = await world.create_all([world.idempotent(world.task(), "i-1", fingerprint="body-2")])
    assert again.replayed
    assert await world.counted() == {(TENANT, State.SCHEDULED): 2}


async def test_of_two_in_one_batch_the_second_replays_the_first(world: World) -> None:
    creates = [world.idempotent(world.task(), "i-1") for _ in range(3)]
    results = await world.create_all(creates)
    assert results[0] is None
    assert [one.body for one in results[1:]] == [creates[0].answer.body] * 2  # type: ignore[union-attr] # it has one
    assert await world.counted() == {(TENANT, State.SCHEDULED): 1}


async def test_of_many_at_once_one_creates(world: World) -> None:
    creates = [world.idempotent(world.task(), "i-1") for _ in range(20)]
    results = [one for (one,) in await asyncio.gather(*(world.create_all([create]) for create in creates))]
    assert sum(one is None for one in results) == 1
    assert len({one.body for one in results if one is not None}) == 1


async def test_any_request_is_done_once(world: World) -> None:
    done: list[int] = []

    async def operation(tx: Any) -> tuple[str, StoredAnswer]:
        done.append(1)
        return "object", StoredAnswer(200, f'{{"n": {len(done)}}}')

    async def ask(name: str | None, fingerprint: str = "f") -> StoredAnswer:
        key = None if name is None else IdempotencyKey(TENANT, name, fingerprint, world.now, world.now + 1_000)
        return await world.database.write(lambda tx: names.once(tx, key, operation))

    assert [(await ask("i-1")).body, (await ask("i-1")).body] == ['{"n": 1}', '{"n": 1}']
    assert (await ask(None)).body == '{"n": 2}'
    with pytest.raises(Refused, match="different request"):
        await ask("i-1", "g")
    world.now += 1_000
    assert (await ask("i-1", "g")).body == '{"n": 3}'


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.sampled_from(
    ["null", "true", "0", "1e5", "[]", "{}", '"', "\\", "a\0b", "\u2028", "NaN", "'; DROP TABLE tasks; --"]
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=texts, key=texts, tag=texts, body=texts, header=texts)
async def test_text_comes_back_as_it_went(name: str, key: str, tag: str, body: str, header: str) -> None:
    world = World(InlineDatabase())
    task = world.task(key=key, detail={"name": name, "type": tag, "tags": {tag: name}})
    target = Target("https://x.example", headers={"x-a": header}, body_kind="text", body=body)
    task = msgspec.structs.replace(task, payload=msgspec.structs.replace(task.payload, target=target))
    await world.create_all([world.idempotent(task, name)])
    found = await view(world, f"key:{key}")
    assert (found.detail, found.payload) == (task.detail, task.payload)
