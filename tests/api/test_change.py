"""PUT, PATCH, DELETE and the actions: what they change, when they may, and under which version."""

import asyncio
from typing import Any

import pytest

from tasktick.errors import Refused
from tasktick.model.state import State
from tasktick.store import tasks
from tasktick.store.protocol import Transaction
from tests.api.served import URL, Served

OTHER_URL = "https://other.example:8443/x"


async def act(served: Served, task: dict[str, Any], word: str) -> Any:
    """The task as the action answers it."""
    answer = await served.ask("POST", f"/v1/tasks/{task['id']}/{word}")
    assert answer.status == 200, answer.raw
    assert answer.headers["ETag"] == f'"{answer.json["version"]}"'
    read = (await served.ask("GET", f"/v1/tasks/{task['id']}")).json
    read.pop("attempts_count")
    assert read == answer.json
    assert served.changed[-1].version == answer.json["version"]
    return answer.json


async def test_a_patch_replaces_what_it_names(served: Served) -> None:
    made = await served.create(name="a", delay=60, tags={"x": "y"}, retry={"max_attempts": 2}, expires_in=10)
    answer = await served.ask(
        "PATCH",
        f"/v1/tasks/{made['id']}",
        {
            "name": "b",
            "run_at": "2028-01-01T00:00:00Z",
            "priority": 1,
            "target": {"url": OTHER_URL, "body": [1]},
            "retry": None,
            "sla": None,
            "tags": None,
            "queue": "mail",
        },
    )

    assert answer.status == 200, answer.raw
    task = answer.json
    assert (task["name"], task["priority"], task["queue"], task["tags"], task["version"]) == ("b", 1, "mail", {}, 2)
    assert task["run_at"] == task["due_at"] == "2028-01-01T00:00:00.000Z"
    assert task["expires_at"] == "2028-01-01T00:00:10.000Z"
    assert task["max_attempts"] == 5
    assert task["target"]["body"] == [1]
    assert answer.headers["ETag"] == '"2"'
    [state] = served.changed
    assert (state.host, state.payload_version) == ("other.example:8443", 2)
    assert await served.world.state(state.id) == state
    read = (await served.ask("GET", f"/v1/tasks/{made['id']}")).json
    assert {name: value for name, value in read.items() if name != "attempts_count"} == task


async def test_an_earlier_payload_stays_for_whoever_claimed_it(served: Served) -> None:
    made = await served.create()
    await served.ask("PATCH", f"/v1/tasks/{made['id']}", {"target": {"url": OTHER_URL}})

    kept = await served.database.read(lambda tx: tasks.payloads(tx, [(made["id"][4:], 1), (made["id"][4:], 2)]))
    assert [one.payload.target.url for one in kept] == [URL, OTHER_URL]


async def test_a_patch_can_hold_and_free(served: Served) -> None:
    made = await served.create(delay=60)
    path = f"/v1/tasks/{made['id']}"

    assert (await served.ask("PATCH", path, {"state": "paused", "name": "held"})).json["state"] == "paused"
    assert (await served.ask("PATCH", path, {"state": "paused"})).json["version"] == 2
    assert (await served.ask("PATCH", path, {"delay": 120})).json["state"] == "paused"
    freed = (await served.ask("PATCH", path, {"state": "scheduled"})).json
    assert (freed["state"], freed["name"], freed["version"]) == ("scheduled", "held", 4)


async def test_a_patch_of_nothing_changes_nothing(served: Served) -> None:
    made = await served.create()
    answer = await served.ask("PATCH", f"/v1/tasks/{made['id']}", {})

    assert (answer.status, answer.json["version"]) == (200, 1)
    assert served.changed == []


@pytest.mark.parametrize(
    ("patch", "pointers"),
    [
        ({"type": "x"}, {"/type"}),
        ({"key": "x"}, {"/key"}),
        ({"id": "x", "version": 3}, {"/id", "/version"}),
        ({"target": None}, {"/target"}),
        ({"target": {"url": URL, "headers": {"Cookie": "***abcd"}}}, {"/target/headers/Cookie"}),
        ({"state": "dead"}, {"/state"}),
        ({"run_at": 3, "delay": 3}, {"/delay"}),
        ({"priority": 99, "sla": "x"}, {"/priority", "/sla"}),
    ],
)
async def test_a_patch_that_is_wrong(served: Served, patch: dict[str, Any], pointers: set[str]) -> None:
    made = await served.create()
    answer = await served.ask("PATCH", f"/v1/tasks/{made['id']}", patch)

    assert (answer.status, answer.pointers) == (422, pointers), answer.raw


async def test_a_secret_as_we_show_it_is_never_taken_for_one(served: Served) -> None:
    target = {"url": URL, "headers": {"x-mine": "abcdefghijklmnop"}, "sensitive_headers": ["x-mine"]}
    made = await served.create(delay=60, target=target)
    answer = await served.ask("PATCH", f"/v1/tasks/{made['id']}", {"target": made["target"]})

    assert (answer.status, answer.pointers) == (422, {"/target/headers/x-mine"})


async def test_no_patch_moves_a_task_beyond_what_can_be_shown(served: Served) -> None:
    made = await served.create(expires_in="1h")
    answer = await served.ask("PATCH", f"/v1/tasks/{made['id']}", {"run_at": "9999-12-31T23:59:59Z"})

    assert (answer.status, answer.pointers) == (422, {"/run_at"})
    assert (await served.ask("GET", "/v1/tasks")).status == 200


@pytest.mark.parametrize("patch", [{}, {"state": "scheduled"}, {"state": "paused"}])
async def test_what_has_ended_takes_no_patch_at_all(served: Served, patch: dict[str, Any]) -> None:
    made = await served.create(delay=60)
    await act(served, made, "cancel")

    assert (await served.ask("PATCH", f"/v1/tasks/{made['id']}", patch)).code == "state_conflict"


async def test_only_what_has_not_run_is_changed(served: Served) -> None:
    made = await served.create()
    [claimed] = await served.world.claim(made["id"][4:])
    for method, path, body in (("PATCH", "", {"name": "x"}), ("DELETE", "", None), ("POST", "/pause", None)):
        answer = await served.ask(method, f"/v1/tasks/{made['id']}{path}", body)
        assert (answer.status, answer.code) == (409, "state_conflict")
    await served.world.finish(claimed)

    assert (await served.ask("PATCH", f"/v1/tasks/{made['id']}", {"name": "x"})).code == "state_conflict"


async def test_the_version_guards_every_change(served: Served) -> None:
    made = await served.create(delay=60)
    path = f"/v1/tasks/{made['id']}"
    stale, fresh = {"If-Match": '"7"'}, {"If-Match": 'W/"1", "1"'}

    for method, body in (("PATCH", {"name": "x"}), ("DELETE", None)):
        answer = await served.ask(method, path, body, headers=stale)
        assert (answer.status, answer.code) == (412, "version_mismatch")
    assert (await served.ask("PATCH", path, {"name": "x"}, headers=fresh)).status == 200
    assert (await served.ask("PATCH", path, {"name": "y"}, headers=fresh)).status == 412
    assert (await served.ask("DELETE", path, headers={"If-Match": "*"})).status == 204


async def test_put_creates_then_replaces(served: Served) -> None:
    path = "/v1/tasks/key:debounce"
    first = await served.ask("PUT", path, {"target": {"url": URL}, "delay": 5, "tags": {"a": "b"}})
    assert first.status == 201
    assert first.headers["Location"] == f"/v1/tasks/{first.json['id']}"
    second = await served.ask(
        "PUT", path, {"key": "debounce", "target": {"url": OTHER_URL}, "delay": 9, "delivery": "at_most_once"}
    )

    assert second.status == 200
    assert (second.json["id"], second.json["key"], second.json["version"]) == (first.json["id"], "debounce", 2)
    assert (second.json["tags"], second.json["delivery"]) == ({}, "at_most_once")
    assert second.json["created_at"] == first.json["created_at"]
    read = (await served.ask("GET", path)).json
    assert read["target"]["url"] == OTHER_URL
    assert read["delivery"] == "at_most_once"
    assert (await served.ask("PUT", path, {"target": {"url": URL}}, headers={"If-Match": '"1"'})).status == 412
    assert len(served.created) == len(served.changed) == 1


async def test_put_makes_a_new_task_once_the_old_one_ended(served: Served) -> None:
    path = "/v1/tasks/key:again"
    first = (await served.ask("PUT", path, {"target": {"url": URL}})).json
    await served.world.claim(first["id"][4:])
    running = await served.ask("PUT", path, {"target": {"url": URL}})
    assert (running.status, running.code) == (409, "state_conflict")
    assert (await served.ask("POST", f"{path}/cancel")).json["cancel_requested"] is True

    other = (await served.ask("PUT", "/v1/tasks/key:done", {"target": {"url": URL}})).json
    assert await served.run(other) is State.SUCCEEDED
    assert (
        await served.ask("PUT", "/v1/tasks/key:done", {"target": {"url": URL}}, headers={"If-Match": "*"})
    ).status == 412
    renewed = await served.ask("PUT", "/v1/tasks/key:done", {"target": {"url": URL}})
    assert renewed.status == 201
    assert renewed.json["id"] != other["id"]


async def test_put_that_is_wrong(served: Served) -> None:
    made = await served.create()

    by_id = await served.ask("PUT", f"/v1/tasks/{made['id']}", {"target": {"url": URL}})
    assert (by_id.status, by_id.code) == (405, "method_not_allowed")
    assert by_id.headers["Allow"] == "DELETE, GET, HEAD, PATCH"
    other = await served.ask("PUT", "/v1/tasks/key:a", {"key": "b", "target": {"url": URL}})
    assert (other.status, other.pointers) == (422, {"/key"})
    assert other.json["errors"][0]["detail"]
    odd = await served.ask("PUT", "/v1/tasks/key:a%20b", {"target": {"url": URL}})
    assert (odd.status, odd.pointers) == (422, {"/key"})


async def test_puts_that_race_make_one_task(served: Served) -> None:
    answers = await asyncio.gather(
        *(served.ask("PUT", "/v1/tasks/key:race", {"target": {"url": URL}, "name": str(n)}) for n in range(20))
    )

    assert sorted(one.status for one in answers) == [200] * 19 + [201]
    assert len({one.json["id"] for one in answers}) == 1


async def test_pause_and_resume(served: Served) -> None:
    made = await served.create(delay=60)

    assert (await act(served, made, "pause"))["state"] == "paused"
    assert (await act(served, made, "resume"))["state"] == "scheduled"


async def test_run_makes_it_due_and_keeps_its_nominal_time(served: Served) -> None:
    made = await served.create(delay=60)
    ran = await act(served, made, "run")

    assert (ran["state"], ran["run_at"]) == ("ready", made["run_at"])
    assert ran["due_at"] == made["created_at"]


async def test_cancel(served: Served) -> None:
    made = await served.create(delay=60, key="k")
    gone = await act(served, made, "cancel")

    assert (gone["state"], gone["reason"], gone["completed_at"]) == ("cancelled", "cancelled", made["created_at"])
    await served.create(delay=60, key="k")
    taken = await served.ask("POST", f"/v1/tasks/{made['id']}/retry")
    assert (taken.status, taken.code) == (409, "key_taken")


async def test_a_running_task_is_asked_to_cancel(served: Served) -> None:
    made = await served.create()
    [claimed] = await served.world.claim(made["id"][4:])
    asked = await act(served, made, "cancel")
    assert (asked["state"], asked["cancel_requested"]) == ("running", True)

    assert await served.world.finish(claimed, 500) is State.CANCELLED


@pytest.mark.parametrize("word", ["retry", "run"])
async def test_a_finished_task_begins_a_new_series(served: Served, word: str) -> None:
    made = await served.create(retry={"max_attempts": 1})
    letter = await served.kill(made)
    again = await act(served, made, word)

    assert (again["state"], again["series"], again["attempt"], again["id"]) == ("ready", 2, 1, made["id"])
    assert (await served.ask("GET", f"/v1/dlq/{letter['id']}")).json["resolution"] == "replayed"
    assert await served.run(made) is State.SUCCEEDED


@pytest.mark.parametrize(
    ("word", "status"), [("resume", 409), ("retry", 409), ("cancel", 200), ("run", 200), ("pause", 200)]
)
async def test_an_action_that_its_state_forbids(served: Served, word: str, status: int) -> None:
    made = await served.create(delay=60)
    answer = await served.ask("POST", f"/v1/tasks/{made['id']}/{word}")

    assert answer.status == status
    if status == 409:
        assert answer.code == "state_conflict"
        assert "Only one that is" in answer.json["detail"]


async def test_an_action_takes_an_empty_body(served: Served) -> None:
    made = await served.create(delay=60)

    assert (await served.ask("POST", f"/v1/tasks/{made['id']}/pause", {})).status == 200
    assert (await served.ask("POST", f"/v1/tasks/{made['id']}/resume", {"x": 1})).pointers == {"/x"}


@pytest.mark.parametrize("word", ["cancel", "replay"])
async def test_who_shares_a_commit_with_a_refused_one_is_told_once(
    served: Served, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """On a file the transaction is made again then, with what had been done."""
    made = await served.create()
    path = f"/v1/tasks/{made['id']}/cancel"
    if word == "replay":
        await served.kill(made)
        [letter] = (await served.ask("GET", "/v1/dlq")).json["data"]
        path = f"/v1/dlq/{letter['id']}/replay"
    write, others = served.database.write, list[asyncio.Future[Any]]()

    async def refused(tx: Transaction) -> None:
        raise Refused("state_conflict", "Not now.")

    def beside(*given: Any) -> Any:
        others.append(asyncio.ensure_future(write(refused)))
        return write(*given)

    monkeypatch.setattr(served.database, "write", beside)
    served.changed.clear()
    answer = await served.ask("POST", path)
    outcomes = await asyncio.gather(*others, return_exceptions=True)

    assert (answer.status, [type(one) for one in outcomes]) == (200, [Refused])
    assert len(served.changed) == 1


async def test_delete_removes_it_and_its_history(served: Served) -> None:
    made = await served.create(key="gone")
    await served.kill(made)
    answer = await served.ask("DELETE", f"/v1/tasks/{made['id']}")

    assert (answer.status, answer.raw) == (204, b"")
    for path in (f"/v1/tasks/{made['id']}", "/v1/tasks/key:gone", f"/v1/tasks/{made['id']}/attempts"):
        assert (await served.ask("GET", path)).status == 404
    assert (await served.ask("GET", "/v1/dlq")).json["data"] == []
    assert (await served.ask("DELETE", f"/v1/tasks/{made['id']}")).status == 404
    assert served.changed[-1].state is State.CANCELLED
    assert (await served.create(key="gone"))["id"] != made["id"]
