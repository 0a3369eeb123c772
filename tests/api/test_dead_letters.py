"""Dead letters: listed, shown with every attempt, tried again perhaps otherwise, laid aside."""

from typing import Any

import pytest

from tasktick.access.vault import header_context
from tasktick.model.state import State
from tasktick.store import tasks
from tests.api.served import URL, Served, ids_of


async def dead(served: Served, **fields: Any) -> dict[str, Any]:
    """The letter of a task that died."""
    return await served.kill(await served.create(**fields))


async def test_a_letter_has_the_task_and_every_attempt(served: Served) -> None:
    made = await served.create(target={"url": URL, "body": {"n": 1}})
    assert await served.run(made, 500) is State.RETRYING
    served.world.now += 3_600_000
    letter = await served.kill(made)
    answer = await served.ask("GET", f"/v1/dlq/{letter['id']}")

    shown = answer.json
    assert answer.status == 200
    assert shown["id"].startswith("dlq_")
    assert (shown["class"], shown["reason"], shown["attempts_count"]) == ("receiver", "rejected", 2)
    assert shown["final_error"]["code"] == "http_400"
    assert shown["task"]["target"]["body"] == {"n": 1}
    assert (shown["task"]["id"], shown["task"]["state"]) == (made["id"], "dead")
    assert [(one["attempt"], one["status"]) for one in shown["attempts"]] == [(1, 500), (2, 400)]
    assert "body" not in letter["task"]["target"]


async def test_letters_by_page_and_filter(served: Served) -> None:
    letters = [await dead(served, name=str(n), queue="mail" if n else "default", tags={"n": str(n)}) for n in range(3)]
    await served.ask("POST", f"/v1/dlq/{letters[0]['id']}/archive")

    async def found(query: str) -> list[str]:
        answer = await served.ask("GET", f"/v1/dlq?{query}")
        assert answer.status == 200, answer.raw
        return ids_of(answer.json["data"])

    ids = ids_of(letters)
    assert await found("") == [ids[2], ids[1]]
    assert await found("order=asc") == [ids[1], ids[2]]
    assert await found("unresolved=false") == [ids[0]]
    assert await found("unresolved=true&tag=n:2") == [ids[2]]
    assert await found("queue=mail&name=1") == [ids[1]]
    assert await found("class=network") == []
    assert await found("q=HTTP_400") == [ids[2], ids[1]]
    assert await found("q=receiver.example&name=2&sla_met=true") == [ids[2]]
    assert await found("q=nowhere") == []
    first = (await served.ask("GET", "/v1/dlq?limit=1")).json
    assert await found(f"limit=1&cursor={first['next_cursor']}") == [ids[1]]
    assert (await served.ask("GET", "/v1/dlq?class=odd")).pointers == {"?class"}
    assert (await served.ask("GET", "/v1/dlq?state=dead")).pointers == {"?state"}


async def test_replay_keeps_the_task_and_begins_a_series(served: Served) -> None:
    letter = await dead(served, target={"url": URL, "headers": {"X-Api-Key": "the-long-secret"}, "body": [1]})
    answer = await served.ask("POST", f"/v1/dlq/{letter['id']}/replay", headers={"Idempotency-Key": "r"})

    assert answer.status == 200, answer.raw
    assert (answer.json["id"], answer.json["resolution"]) == (letter["id"], "replayed")
    task = answer.json["task"]
    assert (task["id"], task["state"], task["series"], task["attempt"]) == (letter["task_id"], "ready", 2, 1)
    again = await served.ask("POST", f"/v1/dlq/{letter['id']}/replay", headers={"Idempotency-Key": "r"})
    assert again.raw == answer.raw
    twice = await served.ask("POST", f"/v1/dlq/{letter['id']}/replay")
    assert (twice.status, twice.code) == (409, "state_conflict")
    assert await served.run(task) is State.SUCCEEDED


async def test_replay_with_another_target(served: Served) -> None:
    letter = await dead(
        served,
        target={
            "url": URL,
            "method": "PUT",
            "headers": {"X-Api-Key": "the-long-secret", "x-a": "b"},
            "body": [1],
            "timeout": 7,
        },
    )
    answer = await served.ask(
        "POST", f"/v1/dlq/{letter['id']}/replay", {"target": {"url": f"{URL}/fixed", "success": [404]}}
    )

    target = answer.json["task"]["target"]
    assert (target["url"], target["method"], target["body"], target["timeout"]) == (
        f"{URL}/fixed",
        "PUT",
        [1],
        7,
    )
    assert (target["success"], target["headers"]) == (["404"], {"x-a": "b", "X-Api-Key": "***cret"})
    [kept] = await served.database.read(lambda tx: tasks.latest_payloads(tx, [letter["task_id"][4:]]))
    sealed = kept.payload.target.sealed_headers["X-Api-Key"]
    assert served.vault.open(sealed, header_context("default", "X-Api-Key")) == "the-long-secret"
    assert kept.version == 2
    assert served.changed[-1].host == "receiver.example:443"


@pytest.mark.parametrize("url", ["https://elsewhere.example/", URL.replace("https:", "http:")])
async def test_secret_headers_go_to_no_other_host(served: Served, url: str) -> None:
    letter = await dead(served, target={"url": URL, "headers": {"Authorization": "Bearer the-long-secret"}})
    path = f"/v1/dlq/{letter['id']}/replay"
    refused = await served.ask("POST", path, {"target": {"url": url}})
    given = await served.ask("POST", path, {"target": {"url": url, "headers": {"x-a": "b"}}})

    assert (refused.status, refused.pointers) == (422, {"/target/headers"})
    assert given.status == 200
    assert given.json["task"]["target"]["headers"] == {"x-a": "b"}


@pytest.mark.parametrize(
    ("overrides", "pointers"),
    [
        ({"target": {"url": "http://127.0.0.1"}}, {"/target/url"}),
        ({"target": {"headers": {"X-Api-Key": "***cret"}}}, {"/target/headers/X-Api-Key"}),
        ({"target": {"nap": 1}}, {"/target/nap"}),
        ({"tags": {}}, {"/tags"}),
    ],
)
async def test_replay_that_is_wrong(served: Served, overrides: Any, pointers: set[str]) -> None:
    letter = await dead(served)
    answer = await served.ask("POST", f"/v1/dlq/{letter['id']}/replay", overrides)

    assert (answer.status, answer.pointers) == (422, pointers)


async def test_a_body_can_be_replaced_by_another_kind(served: Served) -> None:
    letter = await dead(served, target={"url": URL, "body": [1]})
    answer = await served.ask("POST", f"/v1/dlq/{letter['id']}/replay", {"target": {"body_text": "x"}})

    assert answer.json["task"]["target"]["body_text"] == "x"


async def test_archive_once(served: Served) -> None:
    letter = await dead(served)
    answer = await served.ask("POST", f"/v1/dlq/{letter['id']}/archive")

    assert (answer.json["resolution"], answer.json["task"]["state"]) == ("archived", "dead")
    assert (await served.ask("POST", f"/v1/dlq/{letter['id']}/archive")).code == "state_conflict"
    assert (await served.ask("GET", f"/v1/dlq/{letter['id']}")).json["resolution"] == "archived"


async def test_what_is_not_there(served: Served) -> None:
    letter = await dead(served)
    other = await served.add_key(tenant="other")

    for name in ("dlq_" + "0" * 32, "dlq_x", letter["task_id"]):
        assert (await served.ask("GET", f"/v1/dlq/{name}")).code == "not_found"
    for method, path in (("GET", ""), ("POST", "/replay"), ("POST", "/archive")):
        assert (await served.ask(method, f"/v1/dlq/{letter['id']}{path}", key=other)).code == "not_found"


async def test_a_page_that_is_cut_leaves_no_letter_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies_and_is_archived(task: dict[str, Any]) -> str:
        letter = await served.kill(task)
        await served.ask("POST", f"/v1/dlq/{letter['id']}/archive")
        served.world.now += 1_000
        return str(letter["id"])

    twice, once = await served.create(), await served.create()
    ids = [await dies_and_is_archived(twice), await dies_and_is_archived(once)]
    await served.ask("POST", f"/v1/tasks/{twice['id']}/retry")
    ids.append(await dies_and_is_archived(twice))
    monkeypatch.setattr("tasktick.api.tasks.FULL_PAGE_BYTES", 1)
    monkeypatch.setattr("tasktick.api.tasks.FULL_SLICE", 1)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await served.ask("GET", f"/v1/dlq?unresolved=false&fields=full{cursor and f'&cursor={cursor}'}")).json
        seen += ids_of(page["data"])
        cursor = page["next_cursor"]

    assert seen == ids[::-1]
