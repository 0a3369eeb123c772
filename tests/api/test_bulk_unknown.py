"""What may have arrived, and must not twice, is sent again only if it is named."""

from typing import Any

import pytest

from tasktick.api import bulk
from tasktick.model.state import State
from tests.api.served import Served

UNKNOWN = {"reason": "outcome_unknown"}


async def counts(served: Served, path: str, **body: Any) -> tuple[int, int, int]:
    """Matched, changed, left."""
    answer = await served.ask("POST", f"/v1/{path}", body)
    assert answer.status == 200, answer.raw
    return answer.json["matched"], answer.json["changed"], answer.json["left"]


async def dead(served: Served) -> tuple[list[str], str]:
    """Three that nobody knows of whether they arrived, and one between them that was refused."""
    unknown = []
    refused = await served.create(name="refused")
    for n in range(3):
        made = await served.create(name=f"unknown {n}", delivery="at_most_once")
        [claimed] = await served.world.claim(made["id"].removeprefix("tsk_"))
        assert await served.world.give_back(claimed, sent=True) is State.DEAD
        unknown.append(made["id"])
        if n == 1:
            await served.kill(refused)
    return unknown, refused["id"]


async def states(served: Served, ids: list[str]) -> list[str]:
    return [(await served.ask("GET", f"/v1/tasks/{one}")).json["state"] for one in ids]


@pytest.fixture(params=[1, 2, 200], autouse=True)
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that end before, with and after what there is."""
    monkeypatch.setattr(bulk, "SLICE", request.param)


async def test_a_replay_by_filter(served: Served) -> None:
    unknown, refused = await dead(served)

    assert await counts(served, "dlq/replay", filter={"unresolved": True}, dry_run=True) == (4, 0, 3)
    assert await counts(served, "dlq/replay", filter={"unresolved": True}) == (4, 1, 3)
    assert await states(served, [*unknown, refused]) == ["dead"] * 3 + ["ready"]
    assert await counts(served, "dlq/replay", filter={"class": "platform"}) == (3, 0, 3)
    assert await counts(served, "dlq/replay", filter=UNKNOWN | {"name": "unknown 0"}) == (1, 1, 0)
    assert await counts(served, "dlq/replay", filter=UNKNOWN, dry_run=True) == (2, 0, 0)
    assert await counts(served, "dlq/replay", filter=UNKNOWN) == (2, 2, 0)
    assert await states(served, unknown) == ["ready"] * 3


@pytest.mark.parametrize("action", ["retry", "run"])
async def test_a_retry_or_a_run_by_filter(served: Served, action: str) -> None:
    unknown, refused = await dead(served)

    assert await counts(served, f"tasks/{action}", filter={"state": "dead"}, dry_run=True) == (4, 0, 3)
    assert await counts(served, f"tasks/{action}", filter={"state": "dead"}) == (4, 1, 3)
    assert await states(served, [*unknown, refused]) == ["dead"] * 3 + ["ready"]
    assert await counts(served, f"tasks/{action}", ids=unknown[:1]) == (1, 1, 0)
    assert await counts(served, f"tasks/{action}", ids=unknown, filter={"state": "dead"}) == (2, 2, 0)
    assert await states(served, unknown) == ["ready"] * 3


async def test_by_its_id_each_goes_again(served: Served) -> None:
    unknown, _ = await dead(served)
    letters = (await served.ask("GET", "/v1/dlq?reason=outcome_unknown")).json["data"]

    assert {one["task_id"] for one in letters} == set(unknown)
    assert (await served.ask("POST", f"/v1/dlq/{letters[0]['id']}/replay")).status == 200
    assert (await served.ask("POST", f"/v1/tasks/{letters[1]['task_id']}/retry")).status == 200
    assert sorted(await states(served, unknown)) == ["dead", "ready", "ready"]


async def test_nothing_else_leaves_them(served: Served) -> None:
    await dead(served)

    assert await counts(served, "dlq/archive", filter=UNKNOWN, dry_run=True) == (3, 0, 0)
    assert await counts(served, "dlq/archive", filter=UNKNOWN) == (3, 3, 0)
    assert await counts(served, "tasks/delete", filter={"state": "dead"}) == (4, 4, 0)
    assert (await served.ask("GET", "/v1/dlq?reason=odd")).pointers == {"?reason"}
