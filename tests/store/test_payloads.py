"""What a task sends is found wherever it lies: with its details as it was made, in a row of its own as older versions
made it, or in that of a later version; and what a fire sends with its schedule."""

import inspect
from typing import Any

import msgspec
import pytest

from tasktick.model import change
from tasktick.model.task import Foreseen, Payload, Taken
from tasktick.store import claims, dlq, listing, tasks
from tasktick.store.claims import PAYLOAD_CHARS_SURE
from tasktick.store.dlq import DeadLetterFilter
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Transaction
from tests.store.calendar import Calendar
from tests.store.world import TENANT, World

URLS = ("https://one.example/a", "https://two.example/b")
APART = {
    True: """INSERT INTO payloads (partition_id, task_id, version, payload)
        SELECT partition_id, id, 1, payload FROM task_details WHERE payload IS NOT NULL;
        UPDATE task_details SET payload = NULL""",
    False: """INSERT INTO payloads (task_id, version, payload)
        SELECT id, 1, payload FROM task_details WHERE payload IS NOT NULL;
        UPDATE task_details SET payload = NULL""",
}


async def apart(world: World) -> None:
    """Have all that was made so far as versions before 23 made it."""

    async def operation(tx: Any) -> None:
        for statement in APART[type(tx).__name__ == "PostgresTransaction"].split(";"):
            done = tx._raw.execute(statement)
            if inspect.isawaitable(done):
                await done

    await world.database.write(operation)


async def replace(world: World, task_id: str, version: int, payload: Payload) -> None:
    """Have it send this from now on."""
    before = await world.state(task_id)

    async def operation(tx: Transaction) -> list[str]:
        await tasks.add_payload(tx, task_id, version, payload)
        return await tasks.change(tx, [change.patch(before, world.now, payload_version=version)])

    assert await world.database.write(operation) == [task_id]


async def check(world: World) -> list[str]:
    """Whose payload the checks miss."""
    (found,) = await world.database.read(lambda tx: tx.rows("check_payloads", list[Any]))
    return [found[1]] if found[0] else []


async def foreseen(world: World, ids: list[str], chars_max: int = PAYLOAD_CHARS_SURE) -> list[Foreseen]:
    """As it is read ahead of a claim."""
    given = {"ids": ids, "chars_max": chars_max}
    return await world.database.read(lambda tx: tx.rows("task_foreseen", Foreseen, **given))


async def matching(world: World, text: str) -> list[str]:
    by = TaskFilter(text=text)
    return await world.database.read(lambda tx: listing.ids_page(tx, TENANT, by, beyond=None, limit=10))


@pytest.fixture(params=["as they are made", "as older versions made them", "changed", "made and changed before"])
async def sent(request: pytest.FixtureRequest, world: World) -> dict[str, Payload]:
    """Tasks, and what each of them sends."""
    made = {}
    for url in URLS:
        task = world.task(url=url if "changed" not in request.param else "https://old.example/")
        await world.create_all([tasks.Create(task)])
        made[task.state.id] = world.task(url=url).payload
    if "before" in request.param or "older" in request.param:
        await apart(world)
    if "changed" in request.param:
        for task_id, payload in made.items():
            await replace(world, task_id, 2, payload)
    return made


async def test_what_is_sent_is_told_wherever_it_lies(world: World, sent: dict[str, Payload]) -> None:
    read, ids = world.database.read, list(sent)
    assert {one.owner_id: one.payload for one in await read(lambda tx: tasks.latest_payloads(tx, ids))} == sent
    keys = [(one, (await world.state(one)).payload_version) for one in ids]
    stored = await read(lambda tx: tasks.payloads(tx, keys))
    assert [(one.owner_id, one.version) for one in stored] == keys
    assert [one.payload for one in stored] == list(sent.values())
    views = await read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [one.payload for one in views] == list(sent.values())
    bare = await read(lambda tx: tasks.views(tx, TENANT, ids, bodies=False))
    assert [one.payload.target.url for one in bare] == list(URLS)
    assert {one.payload.target.body for one in bare} == {""}
    assert await check(world) == []


async def test_it_is_found_by_what_it_sends_now(world: World, sent: dict[str, Payload]) -> None:
    for task_id, url in zip(sent, URLS, strict=True):
        assert await matching(world, url[8:].upper()) == [task_id]
    assert await matching(world, "old.example") == []


async def test_a_claim_brings_it(world: World, sent: dict[str, Payload]) -> None:
    ids = list(sent)
    assert {one.id: one.taken.payload for one in await foreseen(world, ids)} == sent
    request = world.request()
    (taken,) = await world.database.write_batch(claims.CLAIM, [claims.Asked(ids, request, {})])
    assert {one.claimed.id: one.payload for one in taken} == sent
    again = {"ids": ids, "claim_id": request.claim_id, "chars_max": PAYLOAD_CHARS_SURE}
    found = await world.database.read(lambda tx: tx.rows("task_claimed", Taken, **again))
    assert {one.claimed.id: one.payload for one in found} == sent


async def test_one_that_is_large_is_left_for_later(world: World, sent: dict[str, Payload]) -> None:
    assert [one.taken.payload for one in await foreseen(world, list(sent), 10)] == [None, None]


async def test_it_is_found_when_it_has_ended_and_sent_again(world: World, sent: dict[str, Payload]) -> None:
    ids = list(sent)
    for one in await world.claim(*ids):
        await world.finish(one)
    views = await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [one.payload for one in views] == list(sent.values())
    await test_it_is_found_by_what_it_sends_now(world, sent)
    assert await check(world) == []
    world.now += 1
    again = [change.reopen(await world.state(one), world.now) for one in ids]
    assert sorted(await world.write(*again)) == sorted(ids)
    await test_a_claim_brings_it(world, sent)
    await test_what_is_sent_is_told_wherever_it_lies(world, sent)


async def test_a_dead_letter_is_found_by_what_was_sent(world: World, sent: dict[str, Payload]) -> None:
    for task_id in sent:
        (claimed,) = await world.claim(task_id)
        await world.finish(claimed, 404)
    for task_id, url in zip(sent, URLS, strict=True):
        by = DeadLetterFilter(text=url[8:])
        letters = await world.database.read(lambda tx, by=by: dlq.page(tx, TENANT, by, beyond=None, limit=5))  # type: ignore[misc] # bound
        assert [one.task_id for one in letters] == [task_id]
    old = DeadLetterFilter(text="old.example")
    assert await world.database.read(lambda tx: dlq.page(tx, TENANT, old, beyond=None, limit=5)) == []


async def test_a_later_version_that_is_missing_is_not_what_it_was_made_with(world: World) -> None:
    task_id = await world.create()
    await world.write(change.patch(await world.state(task_id), world.now, payload_version=2))
    assert await world.database.read(lambda tx: tasks.latest_payloads(tx, [task_id])) == []
    assert await world.database.read(lambda tx: tasks.views(tx, TENANT, [task_id])) == []
    assert await world.database.read(lambda tx: tasks.payloads(tx, [(task_id, 2)])) == []
    assert await check(world) == [task_id]
    assert [one.taken.payload for one in await foreseen(world, [task_id])] == [None]


async def test_a_fire_sends_what_its_schedule_does(world: World) -> None:
    calendar = Calendar(world)
    schedule = await calendar.row(await calendar.create())
    fire_id = str(schedule.next_id)
    payload = Payload(msgspec.structs.replace(world.task().payload.target, body="{}"), world.task().payload.retry)
    (latest,) = await world.database.read(lambda tx: tasks.latest_payloads(tx, [fire_id]))
    assert (latest.owner_id, latest.payload) == (fire_id, payload)
    (stored,) = await world.database.read(lambda tx: tasks.payloads(tx, [(schedule.id, 1)]))
    assert (stored.owner_id, stored.payload) == (schedule.id, payload)
    assert await world.database.read(lambda tx: tasks.payloads(tx, [(fire_id, 1)])) == []
    (view,) = await world.database.read(lambda tx: tasks.views(tx, TENANT, [fire_id]))
    assert view.payload == payload
    assert await matching(world, "receiver.example/hook") == [fire_id]
    assert [one.taken.payload for one in await foreseen(world, [fire_id])] == [payload]
    assert await check(world) == []
