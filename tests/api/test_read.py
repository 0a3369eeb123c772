"""GET of tasks and attempts: what is shown, in which state, page by page."""

from typing import Any

import pytest

from tasktick.api.faults import Faults
from tasktick.api.paging import page_of
from tasktick.model.state import State
from tests.api.served import URL, Served, ids_of


async def pages(served: Served, path: str, limit: int) -> list[dict[str, Any]]:
    """Every row of a list, read page by page."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        joint = "&" if "?" in path else "?"
        answer = await served.ask("GET", f"{path}{joint}limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status == 200, answer.raw
        assert len(answer.json["data"]) <= limit
        rows += answer.json["data"]
        cursor = answer.json["next_cursor"]
        if cursor is None:
            return rows


async def test_a_task_that_ran_shows_how_it_went(served: Served) -> None:
    made = await served.create(delay=1)
    served.world.now += 1_003
    [claimed] = await served.world.claim(made["id"][4:])
    running = (await served.ask("GET", f"/v1/tasks/{made['id']}")).json
    assert (running["state"], running["attempt"], running["attempts_count"]) == ("running", 1, 1)
    assert running["stages"] == {"pickup": 0.003, "queue": None, "request": None}
    served.world.now += 7
    end = await served.world.answered(
        claimed,
        200,
        started_at=served.world.now,
        completed_at=served.world.now + 40,
        headers=(("x-a", "b"),),
        body=b"ok",
    )
    await served.world.end(end)

    done = (await served.ask("GET", f"/v1/tasks/{made['id']}")).json
    assert done["state"] == "succeeded"
    assert done["stages"] == {"pickup": 0.003, "queue": 0.007, "request": 0.04}
    assert (done["lateness"], done["sla_met"], done["version"]) == (0.01, True, 3)
    assert done["result"] == {"status": 200, "headers": {"x-a": "b"}, "body": "ok", "truncated": False}
    assert done["attempts_count"] == 1


async def test_attempts_with_the_one_that_runs(served: Served) -> None:
    made = await served.create()
    assert await served.run(made, 500) is State.RETRYING
    failed = (await served.ask("GET", f"/v1/tasks/{made['id']}")).json
    assert failed["state"] == "retrying"
    assert failed["error"]["class"] == "receiver"
    assert failed["error"]["code"] == "http_500"
    served.world.now += 3_600_000
    assert (await served.ask("GET", f"/v1/tasks/{made['id']}")).json["state"] == "ready"
    await served.world.claim(made["id"][4:])

    rows = (await served.ask("GET", f"/v1/tasks/{made['id']}/attempts")).json["data"]
    assert [(row["attempt"], row["state"], row["status"]) for row in rows] == [(1, "failed", 500), (2, "running", None)]
    assert rows[1]["fence"] > rows[0]["fence"]
    assert rows[0]["error"]["code"] == "http_500"
    assert rows[1]["node"] == "node-a"
    assert await pages(served, f"/v1/tasks/{made['id']}/attempts", 1) == rows


@pytest.mark.parametrize("name", ["tsk_" + "0" * 32, "tsk_x", "nothing", "key:none", "sch_" + "0" * 32, "%00", "%ff"])
async def test_what_is_not_there(served: Served, name: str) -> None:
    for path in (f"/v1/tasks/{name}", f"/v1/tasks/{name}/attempts"):
        answer = await served.ask("GET", path)
        assert (answer.status, answer.code) == (404, "not_found")


async def test_another_tenants_task_is_not_there(served: Served) -> None:
    made = await served.create(key="mine")
    other = await served.add_key(tenant="other")
    there = await served.ask("GET", f"/v1/tasks/{made['id']}", key=other)
    nowhere = await served.ask("GET", f"/v1/tasks/tsk_{'0' * 32}", key=other)

    told = there.json["detail"].replace(made["id"], "ID")
    assert told == nowhere.json["detail"].replace(f"tsk_{'0' * 32}", "ID")
    assert there.status == nowhere.status == 404
    for method, path in (("DELETE", ""), ("POST", "/cancel"), ("PATCH", "")):
        body = {"name": "x"} if method == "PATCH" else None
        assert (await served.ask(method, f"/v1/tasks/{made['id']}{path}", body, key=other)).status == 404
    assert (await served.ask("GET", "/v1/tasks", key=other)).json["data"] == []
    assert (await served.ask("GET", "/v1/tasks/key:mine", key=other)).status == 404
    as_operator = await served.ask("GET", f"/v1/tasks/{made['id']}", headers={"TaskTick-Tenant": "other"})
    assert as_operator.status == 404


async def test_pages_have_every_row_once_under_inserts(served: Served) -> None:
    made = [await served.create(name=str(n)) for n in range(7)]
    first = (await served.ask("GET", "/v1/tasks?limit=3")).json
    late = [await served.create(name="late") for _ in range(3)]
    second = (await served.ask("GET", f"/v1/tasks?limit=3&cursor={first['next_cursor']}")).json
    third = (await served.ask("GET", f"/v1/tasks?limit=3&cursor={second['next_cursor']}")).json

    seen = ids_of([*first["data"], *second["data"], *third["data"]])
    assert seen == ids_of(made)[::-1]
    assert third["next_cursor"] is None
    assert ids_of(await pages(served, "/v1/tasks?order=asc", 2)) == ids_of([*made, *late])


async def test_lists_leave_bodies_out_unless_asked(served: Served) -> None:
    made = await served.create(target={"url": URL, "body": {"large": "x" * 1_000}})
    [claimed] = await served.world.claim(made["id"][4:])
    await served.world.end(await served.world.answered(claimed, 200, body=b"answer"))

    slim = (await served.ask("GET", "/v1/tasks")).json["data"][0]
    full = (await served.ask("GET", "/v1/tasks?fields=full")).json["data"][0]
    assert "body" not in slim["target"]
    assert "body" not in slim["result"]
    assert full["target"]["body"] == {"large": "x" * 1_000}
    assert full["result"]["body"] == "answer"


async def test_a_full_page_is_cut_where_it_is_large(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasktick.api.tasks.FULL_PAGE_BYTES", 2_000)
    monkeypatch.setattr("tasktick.api.tasks.FULL_SLICE", 2)
    made = [await served.create(name=str(n)) for n in range(9)]

    first = (await served.ask("GET", "/v1/tasks?fields=full")).json
    assert 0 < len(first["data"]) < 9
    assert ids_of(await pages(served, "/v1/tasks?fields=full", 1_000)) == ids_of(made)[::-1]


async def test_filters(served: Served) -> None:
    now = await served.create(name="now", type="a", queue="mail", tags={"team": "x", "k": "v:w"})
    later = await served.create(name="Later", key="the-key", delay=3600, tags={"team": "y"})
    held = await served.create(name="held", delay=7200)
    await served.ask("POST", f"/v1/tasks/{held['id']}/pause")
    failed = await served.create(name="failed", target={"url": "https://other.example/path"})
    await served.run(failed, 400)

    async def found(query: str) -> set[str]:
        answer = await served.ask("GET", f"/v1/tasks?{query}")
        assert answer.status == 200, answer.raw
        return {row["name"] for row in answer.json["data"]}

    assert await found("state=ready") == {"now"}
    assert await found("state=scheduled") == {"Later"}
    assert await found("state=scheduled&state=ready&state=dead") == {"now", "Later", "failed"}
    assert await found("state=paused") == {"held"}
    assert await found("queue=mail") == {"now"}
    assert await found("type=a") == {"now"}
    assert await found("name=held") == {"held"}
    assert await found("tag=team:x") == {"now"}
    assert await found("tag=k:v:w") == {"now"}
    assert await found(f"run_after={later['created_at']}") == {"Later", "held"}
    assert await found(f"run_before={later['run_at']}") == {"now", "failed"}
    assert await found("created_before=1") == set()
    assert await found("sla_met=true") == {"failed"}
    assert await found("q=LATER") == {"Later"}
    assert await found("q=the-k") == {"Later"}
    assert await found("q=other.example") == {"failed"}
    assert await found("q=http_400") == {"failed"}
    assert await found("schedule_id=sch_" + "0" * 32) == set()
    assert now["state"] == "ready"


@pytest.mark.parametrize(
    "query",
    [
        "nap=1",
        "state=asleep",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=1&limit=2",
        "order=up",
        "fields=some",
        "tag=x",
        "run_after=then",
        "run_after=1_0",
        "run_after=nan",
        "run_after=%EF%BC%91",
        "run_after=2027-01-01T00:00:00+01:00",
        "sla_met=perhaps",
        "schedule_id=tsk_1",
        "q=",
    ],
)
async def test_what_a_filter_does_not_know_is_refused(served: Served, query: str) -> None:
    answer = await served.ask("GET", f"/v1/tasks?{query}")

    assert (answer.status, answer.code) == (422, "validation_failed")
    assert answer.pointers == {"?" + query.partition("=")[0]}


async def test_a_cursor_belongs_to_its_filter(served: Served) -> None:
    for _ in range(3):
        await served.create(queue="mail")
    cursor = (await served.ask("GET", "/v1/tasks?limit=1&queue=mail")).json["next_cursor"]

    assert (await served.ask("GET", f"/v1/tasks?limit=2&queue=mail&cursor={cursor}")).status == 200
    for query in (f"cursor={cursor}", f"queue=mail&order=asc&cursor={cursor}", "cursor=nonsense", "cursor=%C3%A9"):
        answer = await served.ask("GET", f"/v1/tasks?{query}")
        assert (answer.status, answer.code) == (400, "malformed")
    other = await served.ask("GET", f"/v1/tasks?limit=1&queue=mail&cursor={cursor}", headers={"TaskTick-Tenant": "b"})
    assert other.status == 400


@pytest.mark.parametrize("last", ["x", "-1", "1_0", "9" * 19, "\0"])
async def test_a_cursor_that_was_made_up_is_refused(served: Served, last: str) -> None:
    name = f"attempts {(await served.create())['id']}"
    cursor = page_of(Faults(), {}, name, "default").next_cursor(last)
    answer = await served.ask("GET", f"/v1/tasks/{name.split()[1]}/attempts?cursor={cursor}")

    assert (answer.status, answer.code) == (400, "malformed")


async def test_one_task_takes_no_parameters(served: Served) -> None:
    made = await served.create()

    assert (await served.ask("GET", f"/v1/tasks/{made['id']}?fields=full")).status == 422


async def test_head_is_get_without_its_body(served: Served) -> None:
    made = await served.create()
    answer = await served.ask("HEAD", f"/v1/tasks/{made['id']}")

    assert answer.status == 200
    assert answer.raw == b""
    assert answer.headers["ETag"] == '"1"'
