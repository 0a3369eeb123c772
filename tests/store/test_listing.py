"""Lists: every filter, whole pages whatever the size, never another tenant's."""

from typing import Any

import pytest

from tasktick.model import change
from tasktick.model.state import State
from tasktick.store import dlq, listing, tasks
from tasktick.store.listing import TaskFilter
from tests.store.world import HOUR_MS, TENANT, World


async def listed(world: World, tenant: str = TENANT, limit: int = 100, oldest: bool = False, **by: Any) -> list[str]:
    """Ids over all pages."""
    found: list[str] = []
    beyond: str | None = None
    while True:
        page = await _page(world, tenant, TaskFilter(now=world.now, **by), beyond, limit, oldest)
        found += page
        if len(page) < limit:
            return found
        beyond = page[-1]


async def _page(world: World, tenant: str, by: TaskFilter, beyond: str | None, limit: int, oldest: bool) -> list[str]:
    return await world.database.read(
        lambda tx: listing.ids_page(tx, tenant, by, beyond=beyond, limit=limit, oldest_first=oldest)
    )


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
async def test_pages_are_whole_in_both_orders(world: World, limit: int) -> None:
    ids = []
    for _ in range(5):
        ids.append(await world.create())
        await world.create(tenant="other")
        world.now += 1
    assert await listed(world, limit=limit, oldest=True) == ids
    assert await listed(world, limit=limit) == ids[::-1]
    assert len(await listed(world, tenant="other")) == 5
    assert await listed(world, tenant="nobody") == []


@pytest.mark.parametrize(
    "by",
    [
        {"queue": "q"},
        {"type": "t"},
        {"name": "Näme 1"},
        {"tag_name": "team", "tag_value": "billing"},
        {"schedule_id": "s" * 32},
        {"workflow_id": "w" * 32},
        {"text": "näme"},
        {"text": "NÄME"[0]},
        {"text": "K-1"},
        {"text": "invoices.example/HOOK"},
    ],
    ids=str,
)
async def test_each_filter_finds_the_one(world: World, by: dict[str, Any]) -> None:
    details = {"type": "t", "name": "Näme 1", "tags": {"team": "billing"}}
    more = {"schedule_id": "s" * 32, "workflow_id": "w" * 32}
    wanted = await world.create(key="k-1", url="https://invoices.example/hook", queue="q", detail={**details, **more})
    await world.create(detail={"tags": {"team": "other", "billing": "team"}})
    assert await listed(world, **by) == [wanted]
    assert await listed(world, tenant="other", **by) == []


async def test_text_finds_errors(world: World) -> None:
    claimed = await world.claimed()
    await world.finish(claimed, None)
    await world.create()
    assert await listed(world, text="connection was RESET") == [claimed.id]


async def test_text_beyond_ascii_is_found_as_it_was_written(world: World) -> None:
    task_id = await world.create(detail={"name": "ÄRGER"})
    assert await listed(world, text="Ärger") == [task_id]


@pytest.mark.parametrize("prefix", ["run", "created"])
async def test_times_are_strictly_between(world: World, prefix: str) -> None:
    ids = []
    for _ in range(5):
        ids.append(await world.create())
        world.now += 1_000
    start = world.now - 5_000
    between: dict[str, Any] = {f"{prefix}_after": start, f"{prefix}_before": start + 3_000}
    assert await listed(world, oldest=True, **between) == ids[1:3]


async def test_a_state_is_as_clients_see_it(world: World) -> None:
    far, ready = await world.create(run_at=world.now + HOUR_MS), await world.create()
    retrying, again, done = [await world.claimed() for _ in range(3)]
    for claimed, status in ((retrying, 500), (again, 500), (done, 200)):
        await world.finish(claimed, status)
    await world.database.write(_wake(again.id, world.now))
    cancelled = (await world.act("cancel", await world.create(run_at=world.now + HOUR_MS))).id

    async def in_states(*states: State) -> set[str]:
        return set(await listed(world, states=[int(state) for state in states]))

    assert await in_states(State.SCHEDULED) == {far}
    assert await in_states(State.READY) == {ready, again.id}
    assert await in_states(State.RETRYING) == {retrying.id}
    assert await in_states(State.SUCCEEDED, State.READY) == {ready, again.id, done.id}
    assert await in_states(State.CANCELLED, State.READY) == {ready, again.id, cancelled}


def _wake(task_id: str, at: int) -> Any:
    async def operation(tx: Any) -> list[str]:
        (row,) = await tasks.states(tx, [task_id])
        return await tasks.change(tx, [change.patch(row, at, due_at=at, wake_at=at)])

    return operation


async def test_whether_it_started_in_time(world: World) -> None:
    good, bad = await world.claimed(detail={"sla_ms": 0}), await world.claimed(detail={"sla_ms": 0})
    await world.create()
    await world.finish(good)
    world.now += 1
    await world.finish(bad)
    assert await listed(world, sla_met=True) == [good.id]
    assert await listed(world, sla_met=False) == [bad.id]


async def dead(world: World, status: int | None = 404, **columns: Any) -> str:
    claimed = await world.claimed(**columns)
    while await world.finish(claimed, status) is State.RETRYING:
        world.now += HOUR_MS
        (claimed,) = await world.claim(claimed.id)
    world.now += 1
    return claimed.id


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_dead_letters_page_whole_in_both_orders(world: World, limit: int) -> None:
    ids = [await dead(world) for _ in range(5)]
    await dead(world, tenant="other")

    async def letters(oldest: bool) -> list[str]:
        found: list[Any] = []
        while True:
            page = await _letters(world, found[-1].id if found else None, limit, oldest)
            found += page
            if len(page) < limit:
                return [one.task_id for one in found]

    assert await letters(oldest=True) == ids
    assert await letters(oldest=False) == ids[::-1]


async def _letters(world: World, beyond: str | None, limit: int, oldest: bool) -> list[Any]:
    by = dlq.DeadLetterFilter()
    return await world.database.read(
        lambda tx: dlq.page(tx, TENANT, by, beyond=beyond, limit=limit, oldest_first=oldest)
    )


async def test_dead_letters_are_filtered_like_tasks_and_by_class(world: World) -> None:
    rejected = await dead(world, queue="q", detail={"tags": {"a": "b"}})
    cut = await dead(world, None)
    assert {one.task_id for one in await world.dead_letters()} == {rejected, cut}
    for by, wanted in (
        ({"class": "receiver"}, rejected),
        ({"class": "network"}, cut),
        ({"reason": "rejected"}, rejected),
        ({"queue": "q"}, rejected),
        ({"tag_name": "a", "tag_value": "b"}, rejected),
        ({"text": "HTTP_404"}, rejected),
        ({"text": "connection was RESET"}, cut),
    ):
        named = {"class_" if name == "class" else name: value for name, value in by.items()}
        assert [one.task_id for one in await world.dead_letters(**named)] == [wanted]


async def test_a_dead_letter_is_dealt_with_once(world: World) -> None:
    await dead(world)
    (letter,) = await world.dead_letters()
    assert (letter.class_, letter.reason, letter.error_code, letter.attempts) == ("receiver", "rejected", "http_404", 1)

    async def resolve(resolution: str) -> int:
        return await world.database.write(lambda tx: dlq.resolve(tx, [letter.id], resolution, world.now))

    assert [await resolve("archived"), await resolve("replayed")] == [1, 0]
    assert await world.dead_letters() == []
    (resolved,) = await world.dead_letters(unresolved=False)
    assert (resolved.resolution, resolved.resolved_at) == ("archived", world.now)
    assert len(await world.dead_letters(unresolved=None)) == 1


async def test_dead_letters_are_their_tenants(world: World) -> None:
    task_id = await dead(world)
    (letter,) = await world.dead_letters()
    assert await world.database.read(lambda tx: dlq.by_ids(tx, "other", [letter.id])) == []
    assert await world.database.read(lambda tx: dlq.by_ids(tx, TENANT, [letter.id])) == [letter]
    assert await world.database.write(lambda tx: dlq.resolve_tasks(tx, [task_id], "replayed", world.now)) == 1
    assert await world.dead_letters() == []
