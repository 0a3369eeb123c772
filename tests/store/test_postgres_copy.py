"""Many new tasks go in by COPY and are the same as few that do not; one that is at fault fails alone."""

import msgspec
import pytest

from tasktick.model.task import TaskDetail, TaskState
from tasktick.store import tasks
from tasktick.store.postgres import dialect
from tasktick.store.postgres_copy import COPIES, ROWS_LEAST
from tasktick.store.tasks import INSERTED, Create
from tests import postgres
from tests.store.world import TENANT, World

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not postgres.installed(), reason="there is no PostgreSQL here"),
]


@pytest.mark.slow
async def test_many_are_as_few_are(world: World) -> None:
    made = [
        world.task(detail={"name": "Übung", "tags": {"a": "1"}}, at_most_once=n % 2 == 0, expires_at=world.now + n)
        for n in range(ROWS_LEAST + 50)
    ]
    few, many = made[:50], made[50:]
    for part in (few, many):
        assert await world.create_all([Create(one) for one in part]) == [None] * len(part)
    ids = [one.state.id for one in made]
    views = await world.database.read(lambda tx: tasks.views(tx, TENANT, ids))
    assert [(view.state, view.detail, view.payload) for view in views] == [
        (one.state, one.detail, one.payload) for one in made
    ]


@pytest.mark.slow
async def test_one_of_many_that_is_at_fault_fails_alone(world: World) -> None:
    made = [world.task() for _ in range(ROWS_LEAST)]
    twice = msgspec.structs.replace(made[7])
    results = await world.create_all([Create(one) for one in [*made, twice]])
    assert sum(one is None for one in results) >= ROWS_LEAST - 1


def test_what_is_copied_is_what_the_statement_inserts() -> None:
    assert set(COPIES["task_insert"].columns) == {*INSERTED, "state"} <= set(TaskState.__struct_fields__)
    assert set(COPIES["task_detail_insert"].columns) == set(TaskDetail.__struct_fields__)
    for name, copy in COPIES.items():
        [statement] = dialect()[name]
        assert statement.text.startswith(f"INSERT INTO {copy.table} (")
        listed = statement.text.split("(")[1].split(")")[0].replace("\n", " ").replace(" ", "")
        assert set(listed.split(",")) == {"partition_id", *copy.columns}
