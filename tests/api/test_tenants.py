"""Tenants: their limits as an operator sets them and as clients meet them; and that none sees another's."""

import json
from typing import Any

import pytest

from tasktick.access.roles import Role
from tasktick.store import tenants
from tests.api.served import URL, Answer, Served, ids_of

ACME = {"TaskTick-Tenant": "acme"}
TASK = {"target": {"url": URL}}


async def limit(served: Served, tenant: str = "default", **limits: Any) -> Answer:
    answer = await served.ask("PUT", f"/v1/tenants/{tenant}", limits)
    assert answer.status in {200, 201}, answer.raw
    return answer


async def test_a_tenants_limits(served: Served) -> None:
    made = await limit(served, "acme", max_pending=5, create_rate="10/1m")
    assert (made.status, made.headers["Location"]) == (201, "/v1/tenants/acme")
    document = made.json
    assert {name: document[name] for name in ("name", "max_pending", "create_rate", "pending", "running")} == {
        "name": "acme",
        "max_pending": 5,
        "create_rate": "10/1m",
        "pending": 0,
        "running": 0,
    }
    changed = await limit(served, "acme", max_pending=6)
    assert (changed.status, changed.json["create_rate"]) == (200, None)
    assert (await served.ask("GET", "/v1/tenants/acme")).json == changed.json
    listed = (await served.ask("GET", "/v1/tenants")).json
    assert [one["name"] for one in listed["data"]] == ["acme", "default"]


async def test_tenants_come_in_pages(served: Served) -> None:
    for name in ("a", "b", "c"):
        await limit(served, name)
    first = (await served.ask("GET", "/v1/tenants?limit=3")).json
    rest = (await served.ask("GET", f"/v1/tenants?limit=3&cursor={first['next_cursor']}")).json
    assert [one["name"] for one in first["data"] + rest["data"]] == ["a", "b", "c", "default"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("acme", {"weight": 3}, "/weight"),
        ("acme", {"max_running": 3}, "/max_running"),
        ("acme", {"allowed_hosts": ["x"]}, "/allowed_hosts"),
        ("acme", {"payload_schemas": {}}, "/payload_schemas"),
        ("acme", {"retention": "1d"}, "/retention"),
        ("acme", {"max_pending": -1}, "/max_pending"),
        ("acme", {"max_pending": "many"}, "/max_pending"),
        ("acme", {"create_rate": "often"}, "/create_rate"),
        ("acme", {"name": "acme"}, "/name"),
        ("No%20Such", {}, "/name"),
    ],
)
async def test_what_is_wrong_with_a_tenant_is_said(served: Served, name: str, body: Any, pointer: str) -> None:
    answer = await served.ask("PUT", f"/v1/tenants/{name}", body)
    assert (answer.status, answer.pointers) == (422, {pointer})
    assert (await served.ask("GET", f"/v1/tenants/{name}")).code == "not_found"


async def test_a_quota_holds_for_every_way_to_make_a_task(served: Served) -> None:
    await limit(served, max_pending=2)
    dead = await served.kill(await served.create())
    await served.create()
    batch = (await served.ask("POST", "/v1/tasks/batch", {"tasks": [TASK, TASK]})).json["data"]
    assert ["id" in one for one in batch] == [True, False]
    assert batch[1]["error"]["code"] == "quota_exceeded"

    for answer in (
        await served.ask("POST", "/v1/tasks", TASK),
        await served.ask("PUT", "/v1/tasks/key:k", TASK),
        await served.ask("POST", f"/v1/dlq/{dead['id']}/replay"),
        await served.ask("POST", f"/v1/tasks/{dead['task_id']}/retry"),
        await served.ask("POST", f"/v1/tasks/{dead['task_id']}/run"),
    ):
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (429, "quota_exceeded", "10")
    assert (await served.ask("POST", "/v1/tasks", TASK, headers=ACME)).status == 201
    await limit(served)
    assert (await served.ask("POST", f"/v1/dlq/{dead['id']}/replay")).status == 200


async def test_a_task_that_is_there_is_replaced_within_a_full_quota(served: Served) -> None:
    await limit(served, max_pending=1)
    assert (await served.ask("PUT", "/v1/tasks/key:k", {**TASK, "delay": "1h"})).status == 201
    assert (await served.ask("PUT", "/v1/tasks/key:k", {**TASK, "delay": "2h"})).status == 200


async def test_a_rate_lets_a_burst_through_and_then_one_at_a_time(served: Served) -> None:
    assert "RateLimit" not in (await served.ask("POST", "/v1/tasks", TASK)).headers
    await limit(served, create_rate="3/3s")
    first = await served.ask("POST", "/v1/tasks", TASK)
    assert (first.headers["RateLimit-Policy"], first.headers["RateLimit"]) == ('"create";q=3;w=3', '"create";r=2;t=1')
    assert (await served.ask("PUT", "/v1/tasks/key:k", TASK)).headers["RateLimit"] == '"create";r=1;t=2'
    lines = "\n".join(json.dumps(TASK) for _ in range(2)).encode()
    batch = await served.ask("POST", "/v1/tasks/batch", raw=lines, headers={"Content-Type": "application/x-ndjson"})
    assert batch.headers["RateLimit"] == '"create";r=0;t=3'
    assert [one.get("error", {}).get("code") for one in batch.json["data"]] == [None, "rate_limited"]

    refused = await served.ask("POST", "/v1/tasks", TASK)
    assert (refused.code, refused.headers["Retry-After"]) == ("rate_limited", "1")
    assert refused.headers["RateLimit"] == '"create";r=0;t=3'
    assert (await served.ask("POST", "/v1/tasks", TASK, headers=ACME)).status == 201
    served.world.now += 1_000
    assert (await served.ask("POST", "/v1/tasks", TASK)).status == 201
    await limit(served)
    assert (await served.ask("POST", "/v1/tasks", TASK)).status == 201


async def test_what_counts_says_what_is_left_whatever_comes_of_it(served: Served) -> None:
    await limit(served, create_rate="9/9s")
    for path, body in (("/v1/tasks", {**TASK, "key": "k"}), ("/v1/tasks/batch", {"tasks": [TASK]})):
        headers = {"Idempotency-Key": path}
        first, again = [await served.ask("POST", path, body, headers=headers) for _ in range(2)]
        assert (first.status, first.json) == (again.status, again.json)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.headers["RateLimit-Policy"] == first.headers["RateLimit-Policy"] == '"create";q=9;w=9'
    assert again.headers["RateLimit"] == first.headers["RateLimit"]  # a batch that is repeated makes nothing

    for status, answer in (
        (200, await served.ask("POST", "/v1/tasks/batch", {"tasks": [{}]})),
        (409, await served.ask("POST", "/v1/tasks", {**TASK, "key": "k"})),
        (422, await served.ask("POST", "/v1/tasks", TASK, headers={"Idempotency-Key": "/v1/tasks"})),
        (412, await served.ask("PUT", "/v1/tasks/key:k", TASK, headers={"If-Match": '"77"'})),
    ):
        assert (answer.status, "RateLimit" in answer.headers) == (status, True)
    assert "RateLimit" not in (await served.ask("GET", "/v1/tasks")).headers


async def test_a_rate_that_was_set_elsewhere_is_heard_of(served: Served) -> None:
    assert (await served.ask("POST", "/v1/tasks", TASK)).status == 201
    await served.database.write(
        lambda tx: tenants.put(tx, "default", max_pending=None, create_rate="1/1d", now=served.world.now)
    )
    served.world.now += 5_000
    statuses = [(await served.ask("POST", "/v1/tasks", TASK)).status for _ in range(2)]
    assert statuses == [201, 429]


async def test_a_tenant_is_removed_when_it_has_nothing_to_do(served: Served) -> None:
    await limit(served, "acme", max_pending=5)
    key = (await served.ask("POST", "/v1/keys", {"role": "manager", "tenant": "acme"})).json["secret"]
    await served.ask("POST", "/v1/secrets", key=key)
    task = (await served.ask("POST", "/v1/tasks", TASK, key=key)).json
    busy = await served.ask("DELETE", "/v1/tenants/acme")
    assert (busy.code, "tenant: 1." in busy.json["detail"]) == ("state_conflict", True)

    assert (await served.ask("POST", f"/v1/tasks/{task['id']}/cancel", key=key)).status == 200
    assert (await served.ask("DELETE", "/v1/tenants/acme")).status == 204
    served.world.now += 5_000
    assert (await served.ask("GET", "/v1/tasks", key=key)).status == 401
    assert (await served.ask("GET", "/v1/tenants/acme")).code == "not_found"
    assert (await served.ask("DELETE", "/v1/tenants/acme")).code == "not_found"
    [secret] = (await served.ask("GET", "/v1/secrets", headers=ACME)).json["data"]
    assert secret["retired_at"] is not None
    assert served.signing_changed == ["acme", "acme"]


async def test_what_is_not_removed_with_a_tenant(served: Served) -> None:
    assert (await served.ask("DELETE", "/v1/tenants/default")).code == "state_conflict"
    await served.ask("POST", "/v1/keys", {"role": "operator", "tenant": "acme"})
    assert "operator" in (await served.ask("DELETE", "/v1/tenants/acme")).json["detail"]


async def test_nothing_of_one_tenant_is_there_for_another(served: Served) -> None:
    other = await served.add_key(Role.MANAGER, "other")
    task = (await served.ask("POST", "/v1/tasks", {**TASK, "key": "mine"}, headers=ACME)).json
    secret = (await served.ask("POST", "/v1/secrets", headers=ACME)).json
    key = (await served.ask("POST", "/v1/keys", {"role": "viewer"}, headers=ACME)).json
    await served.run(task, 400)
    letter = (await served.ask("GET", "/v1/dlq", headers=ACME)).json["data"][0]

    for name in (task["id"], "key:mine"):
        for method, path in (
            ("GET", ""),
            ("GET", "/attempts"),
            ("PATCH", ""),
            ("DELETE", ""),
            *(("POST", f"/{word}") for word in ("cancel", "pause", "resume", "run", "retry")),
        ):
            answer = await served.ask(method, f"/v1/tasks/{name}{path}", {} if method == "PATCH" else None, key=other)
            assert answer.code == "not_found", (method, path)
    for method, path in (
        ("GET", f"/v1/dlq/{letter['id']}"),
        ("POST", f"/v1/dlq/{letter['id']}/replay"),
        ("POST", f"/v1/dlq/{letter['id']}/archive"),
        ("DELETE", f"/v1/secrets/{secret['id']}"),
        ("DELETE", f"/v1/keys/{key['id']}"),
    ):
        assert (await served.ask(method, path, key=other)).code == "not_found", path
    for path in ("tasks", "dlq", "secrets"):
        assert (await served.ask("GET", f"/v1/{path}", key=other)).json["data"] == [], path
    assert key["id"] not in ids_of((await served.ask("GET", "/v1/keys", key=other)).json["data"])
    assert not any((await served.ask("GET", "/v1/stats", key=other)).json["tasks"].values())
    assert (await served.ask("PUT", "/v1/tasks/key:mine", TASK, key=other)).status == 201, "a key of its own"
