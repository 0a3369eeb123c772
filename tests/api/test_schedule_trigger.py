"""A trigger, and what may be different about it: a task beside the ledger."""

from typing import Any

import pytest

from tasktick.access.roles import Role
from tasktick.model.state import State
from tests.api.calendar import ALL, act, ledger, made, read
from tests.api.served import Served


async def test_a_trigger_has_in_place_what_is_given(served: Served) -> None:
    schedule = await made(served)
    body = {"queue": "urgent", "priority": 0, "name": "by hand", "tags": {"by": "hand"}, "target": {"body": [1]}}

    task = (await act(served, schedule, "trigger", body)).json

    assert (task["queue"], task["priority"], task["name"], task["tags"]) == ("urgent", 0, "by hand", {"by": "hand"})
    assert (task["target"]["body"], task["target"]["url"]) == ([1], schedule["task"]["target"]["url"])
    assert task["schedule_id"] == schedule["id"]
    plain = (await act(served, schedule, "trigger", {"priority": 9})).json
    assert (plain["priority"], plain["queue"], plain["target"]["body"]) == (9, "default", {"n": 1})


async def test_a_trigger_is_in_no_count_and_in_no_row(served: Served) -> None:
    schedule = await made(served)
    task = (await act(served, schedule, "trigger")).json
    [claimed] = await served.world.claim(task["id"].removeprefix("tsk_"))
    assert await served.world.finish(claimed, 404) is State.DEAD

    assert await ledger(served, schedule) == []
    assert (await read(served, schedule))["counts"] == {"fired": 0, "skipped": 0, "missed": 0, "failed": 0}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"priority": 10}, "/priority"), ({"queue": "no/such"}, "/queue"), ({"tags": {"": "x"}}, "/tags")],
)
async def test_what_cannot_be_is_refused(served: Served, body: dict[str, Any], pointer: str) -> None:
    answer = await act(served, await made(served), "trigger", body)

    assert answer.status == 422
    assert any(one.startswith(pointer) for one in answer.pointers)


async def test_who_submits_may_trigger_and_not_fill(served: Served) -> None:
    schedule = await made(served)
    key = await served.add_key(Role.SUBMITTER)

    triggered = await served.ask("POST", f"{ALL}/{schedule['id']}/trigger", {}, key=key)
    filled = await served.ask("POST", f"{ALL}/{schedule['id']}/backfill", {"from": 100, "to": 200}, key=key)

    assert (triggered.status, filled.status) == (201, 403)
