"""New tasks that are written as one are the same as those that are written each by itself, or nothing is written."""

from typing import Any, cast

import pytest

from tasktick.model.state import State
from tasktick.model.task import NewTask
from tasktick.store import tasks
from tasktick.store.plain_tasks import CREATE_SLICE, Slice, slice_of
from tasktick.store.protocol import ServingDatabase, Transaction
from tasktick.store.task_rows import new_row
from tasktick.store.tasks import Create
from tests.store.test_quota import limit
from tests.store.world import TENANT, World


def sliced(world: World, made: list[NewTask]) -> Slice:
    """These as one."""
    rows = [row for one in made if (row := new_row(one)) is not None]
    assert len(rows) == len(made)
    return slice_of(rows, cast(ServingDatabase, world.database).bind)


async def write(world: World, *slices: Slice) -> list[Any]:
    """What became of each."""
    return await world.database.write_batch(CREATE_SLICE, list(slices))


async def views(world: World, made: list[NewTask]) -> list[Any]:
    """What is there of these."""
    ids = [one.state.id for one in made]
    found = await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    return [(view.state, view.detail, view.payload) for view in found]


@pytest.mark.parametrize("kinds", [1, 3])
async def test_a_slice_is_what_its_tasks_are(world: World, kinds: int) -> None:
    made = [
        world.task(
            detail={"name": f"Übung ' \\ {n}", "type": "a", "tags": {"n": str(n)}, "sla_ms": n % kinds + 1},
            queue=f"q-{n % kinds}",
            run_at=world.now + 10 - n,
            expires_at=world.now + 1_000 + n if n % 2 else None,
        )
        for n in range(12)
    ]
    assert await write(world, sliced(world, made)) == [True]

    assert await views(world, made) == [(one.state, one.detail, one.payload) for one in made]
    await world.check_counts()


async def test_they_go_as_others_do(world: World) -> None:
    made = [world.task() for _ in range(3)]
    await write(world, sliced(world, made))
    claimed = await world.claim(*(one.state.id for one in made))

    assert {one.id for one in claimed} == {one.state.id for one in made}
    await world.check_counts()


async def test_several_that_come_together(world: World) -> None:
    made = [[world.task() for _ in range(n)] for n in (2, 1, 4)]
    assert await write(world, *(sliced(world, some) for some in made)) == [True] * 3

    for some in made:
        assert len(await views(world, some)) == len(some)
    await world.check_counts()


async def test_what_several_count_as_is_written_in_one_order(world: World) -> None:
    """In that of tenants, whoever came first: two such transactions do not wait for each other in a circle."""
    counted: list[list[Any]] = []

    class Noting:
        def __init__(self, tx: Transaction) -> None:
            self._tx = tx

        async def run(self, query: str, /, **parameters: Any) -> int:
            if query == "counts_add":
                counted.extend(parameters["rows"])
            return await self._tx.run(query, **parameters)

    slices = [sliced(world, [world.task(tenant=tenant)]) for tenant in ("b", "a", "b")]
    written = await world.database.write(lambda tx: CREATE_SLICE.operation(cast(Transaction, Noting(tx)), slices))

    assert written == [True] * 3
    assert counted == [["a", State.SCHEDULED, 1], ["b", State.SCHEDULED, 2]]
    await world.check_counts()


async def test_of_a_tenant_with_a_quota_nothing_is_written(world: World) -> None:
    """Whoever asked judges each by itself then."""
    await limit(world, 100, tenant="limited")
    made, free = [world.task(tenant="limited") for _ in range(3)], [world.task()]

    assert await write(world, sliced(world, made), sliced(world, free)) == [False, True]
    assert await world.database.read(lambda tx: tasks.views(tx, "limited", [one.state.id for one in made])) == []
    assert len(await views(world, free)) == 1
    await world.check_counts()


async def test_one_that_is_at_fault_takes_its_slice_and_no_other(world: World) -> None:
    there, free = world.task(), [world.task()]
    assert await world.create_all([Create(there)]) == [None]
    made = [world.task(), there]

    bad, good = await write(world, sliced(world, made), sliced(world, free))
    assert isinstance(bad, Exception)
    assert good is True
    assert len(await views(world, made)) == 1, "what was there before"
    await world.check_counts()


def test_its_rows_are_what_a_commit_counts() -> None:
    assert CREATE_SLICE.rows_of is not None
    assert CREATE_SLICE.rows_of(Slice("insert", "create", {}, [], 7)) == 7


async def test_nothing_is_put_together_in_a_transaction(world: World) -> None:
    """What is bound are texts, numbers, and the columns of arrays."""
    given = sliced(world, [world.task(), world.task()]).parameters
    assert not [name for name, value in given.items() if isinstance(value, dict)]
    assert {"items", "at", "events", "unlimited"} <= given.keys()
    assert "rows" not in given or isinstance(given["rows"], str)
