"""Many new tasks at once are the same as few, and one that is at fault fails alone."""

import re
from random import Random
from typing import Any

import msgspec
import pytest

from bench.limit_store import new_task
from tasktick.model.ids import IdMaker
from tasktick.model.schedule import NewFire
from tasktick.model.task import Payload, TaskDetail, TaskState
from tasktick.store import tasks
from tasktick.store.queries import load
from tasktick.store.task_rows import (
    DETAIL_COLUMNS,
    NEW_DETAIL_COLUMNS,
    NEW_STATE_COLUMNS,
    ROW,
    SHAPE,
    STATE_COLUMNS,
    detail_row,
)
from tasktick.store.tasks import CREATE, Create
from tests.store.world import TENANT, World

MANY = CREATE.rows_max + 50


@pytest.mark.slow
async def test_many_are_as_few_are(world: World) -> None:
    made = [
        world.task(detail={"name": "Übung", "tags": {"a": "1"}}, at_most_once=n % 2 == 0, expires_at=world.now + n)
        for n in range(MANY)
    ]
    few, many = made[:20], made[20:]
    for part in (few, many):
        assert await world.create_all([Create(one) for one in part]) == [None] * len(part)
    ids = [one.state.id for one in made]
    views = await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [(view.state, view.detail, view.payload) for view in views] == [
        (one.state, one.detail, one.payload) for one in made
    ]


@pytest.mark.slow
async def test_one_of_many_that_is_at_fault_fails_alone(world: World) -> None:
    made = [world.task() for _ in range(200)]
    twice = msgspec.structs.replace(made[7])
    results = await world.create_all([Create(one) for one in [*made, twice]])
    assert sum(one is None for one in results) >= len(made) - 1


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [1, 2, 7, MANY])
async def test_whatever_they_share_each_is_as_it_was_given(world: World, kinds: int) -> None:
    """Of one kind, of few, or each of its own: in turn, so that neighbours differ."""
    made = [
        world.task(
            detail={
                "name": f"n-{n}",
                "type": ("a", None)[n % kinds % 2],
                "tags": {"n": str(n)},
                "sla_ms": n % kinds + 1,
            },
            queue=f"q-{n % kinds}",
            host=f"h-{n % kinds}:80",
            priority=n % kinds % 10,
            max_attempts=n % kinds + 1,
            timeout_ms=n % kinds + 1_000,
            at_most_once=n % kinds % 2 == 0,
            run_at=world.now + n,
        )
        for n in range(MANY)
    ]
    assert await world.create_all([Create(one) for one in made]) == [None] * MANY
    ids = [one.state.id for one in made]
    views = await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [(view.state, view.detail, view.payload) for view in views] == [
        (one.state, one.detail, one.payload) for one in made
    ]
    await world.check_counts()


def test_a_shape_and_a_row_are_all_that_a_plain_task_brings() -> None:
    derived = {"wake_at", "keyed", "created_at"}  # as the due time, as the key, as the last change
    assert {*ROW, "payload", *SHAPE} | derived == {*NEW_STATE_COLUMNS, *NEW_DETAIL_COLUMNS}
    assert not set(ROW) & set(SHAPE)


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
@pytest.mark.parametrize(
    ("statement", "states", "details"),
    [
        ("task_insert", NEW_STATE_COLUMNS, NEW_DETAIL_COLUMNS),
        ("task_insert_alike", NEW_STATE_COLUMNS, NEW_DETAIL_COLUMNS),
        ("task_insert_whole", STATE_COLUMNS, DETAIL_COLUMNS),
    ],
)
def test_rows_have_the_columns_of_their_statement_in_its_order(
    dialect: str, statement: str, states: tuple[str, ...], details: tuple[str, ...]
) -> None:
    said = "\n".join(load(dialect)[statement])
    for table, columns in (("tasks", states), ("task_details", details)):
        (listed,) = re.findall(rf"INSERT INTO {table} \((.*?)\)", said, re.DOTALL)
        names = tuple(listed.replace("\n", " ").replace(" ", "").split(","))
        assert (names[1:] if dialect == "postgres" else names) == columns


def test_a_detail_row_has_every_field_in_its_order() -> None:
    assert set(STATE_COLUMNS) <= set(TaskState.__struct_fields__)
    assert set(DETAIL_COLUMNS) == {*TaskDetail.__struct_fields__, "payload"}
    values: dict[str, Any] = {name: name for name in TaskDetail.__struct_fields__}
    made = new_task(IdMaker(Random(1)), Random(2), 1)
    fire = detail_row(NewFire(made.state, TaskDetail(**values | {"tags": {}})))
    assert fire == tuple({"tags": "{}", "payload": None}.get(name, name) for name in DETAIL_COLUMNS)
    assert msgspec.json.decode(detail_row(made)[DETAIL_COLUMNS.index("payload")], type=Payload) == made.payload
