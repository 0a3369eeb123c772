"""Keys: given, shown once, listed, revoked; by a manager within its tenant, by an operator everywhere."""

import re
from typing import Any

import pytest

from tasktick.access.key_use import KeyUse
from tasktick.access.roles import Role
from tasktick.errors import StoreFull
from tasktick.store import secrets as stored
from tests.api.served import URL, Served, ids_of

ACME = {"TaskTick-Tenant": "acme"}


async def made(served: Served, *, by: str | None = None, **fields: Any) -> dict[str, Any]:
    """A key that was made."""
    answer = await served.ask("POST", "/v1/keys", {"role": "viewer", **fields}, key=by)
    assert answer.status == 201, answer.raw
    return dict(answer.json)


async def listed(served: Served, query: str = "", *, by: str | None = None, **headers: str) -> list[dict[str, Any]]:
    answer = await served.ask("GET", f"/v1/keys{query}", key=by, headers=headers)
    assert answer.status == 200, answer.raw
    return list(answer.json["data"])


async def test_a_key_is_shown_once_and_opens_what_it_says(served: Served) -> None:
    key = await made(served, role="submitter", name="billing", tenant="acme", expires_in="1h")
    assert re.fullmatch(r"key_[0-9a-f]{32}", key["id"])
    assert key["secret"].startswith(key["prefix"] + "_")
    assert {name: key[name] for name in ("role", "name", "tenant", "last_used_at", "revoked_at")} == {
        "role": "submitter",
        "name": "billing",
        "tenant": "acme",
        "last_used_at": None,
        "revoked_at": None,
    }
    task = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, key=key["secret"])
    assert (task.status, task.json["tenant"]) == (201, "acme")
    newest = (await listed(served))[0]
    assert newest == {name: value for name, value in key.items() if name != "secret"}
    rows = await served.database.read(stored.keys)
    assert not any(key["secret"] in repr(row) for row in rows)


async def test_a_key_ends_when_it_says(served: Served) -> None:
    key = await made(served, expires_at=served.world.now / 1_000 + 60)
    assert (await served.ask("GET", "/v1/tasks", key=key["secret"])).status == 200
    served.world.now += 65_000
    assert (await served.ask("GET", "/v1/tasks", key=key["secret"])).status == 401
    assert key["id"] in ids_of(await listed(served)), "it is still there, to see what it was"


async def test_a_revoked_key_opens_nothing_after_five_seconds(served: Served) -> None:
    key = await made(served)
    assert (await served.ask("GET", "/v1/tasks", key=key["secret"])).status == 200
    for _ in range(2):
        assert (await served.ask("DELETE", f"/v1/keys/{key['id']}")).status == 204
    served.world.now += 5_000
    assert (await served.ask("GET", "/v1/tasks", key=key["secret"])).status == 401
    assert key["id"] not in ids_of(await listed(served))
    [gone] = await listed(served, "?revoked=true")
    assert (gone["id"], gone["revoked_at"] is None) == (key["id"], False)
    assert (await served.ask("DELETE", f"/v1/keys/key_{'0' * 32}")).code == "not_found"
    assert (await served.ask("DELETE", "/v1/keys/tsk_1")).code == "not_found"


async def test_the_last_operators_key_stays(served: Served) -> None:
    [first] = await listed(served)
    assert (await served.ask("DELETE", f"/v1/keys/{first['id']}")).code == "state_conflict"
    assert (await listed(served))[0]["revoked_at"] is None
    other = await made(served, role="operator")
    assert (await served.ask("DELETE", f"/v1/keys/{first['id']}")).status == 204
    assert ids_of(await listed(served, by=other["secret"])) == [other["id"]]


async def test_a_manager_has_its_own_tenants_keys_up_to_its_role(served: Served) -> None:
    manager = await served.add_key(Role.MANAGER, "acme")
    foreign = await made(served, tenant="other")
    above = await made(served, tenant="acme", role="operator")
    mine = await made(served, by=manager, role="submitter")

    assert mine["tenant"] == "acme"
    assert [one["role"] for one in await listed(served, by=manager)] == ["submitter", "manager"]
    for one in (foreign, above):
        assert (await served.ask("DELETE", f"/v1/keys/{one['id']}", key=manager)).code == "not_found"
    assert (await served.ask("POST", "/v1/keys", {"role": "operator"}, key=manager)).code == "forbidden"
    elsewhere = {"role": "viewer", "tenant": "other"}
    assert (await served.ask("POST", "/v1/keys", elsewhere, key=manager)).code == "forbidden"
    assert (await served.ask("DELETE", f"/v1/keys/{mine['id']}", key=manager)).status == 204


async def test_an_operator_sees_all_keys_or_those_of_the_tenant_it_acts_for(served: Served) -> None:
    here = await made(served)
    there = await made(served, tenant="acme")

    assert {here["id"], there["id"]} < set(ids_of(await listed(served)))
    assert ids_of(await listed(served, **ACME)) == [there["id"]]
    assert (await served.ask("DELETE", f"/v1/keys/{here['id']}", headers=ACME)).code == "not_found"
    assert (await served.ask("POST", "/v1/keys", {"role": "viewer"}, headers=ACME)).json["tenant"] == "acme"


async def test_keys_come_in_pages(served: Served) -> None:
    wanted = [(await made(served))["id"] for _ in range(3)][::-1]
    first = (await served.ask("GET", "/v1/keys?limit=2")).json
    rest = (await served.ask("GET", f"/v1/keys?limit=2&cursor={first['next_cursor']}")).json

    assert ids_of(first["data"] + rest["data"])[:3] == wanted
    assert rest["next_cursor"] is None
    assert (await served.ask("GET", f"/v1/keys?cursor={first['next_cursor']}", headers=ACME)).code == "malformed"


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/role"}),
        ({"role": "root"}, {"/role"}),
        ({"role": "viewer", "tenant": "No Such"}, {"/tenant"}),
        ({"role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}, {"/expires_at"}),
        ({"role": "viewer", "expires_at": 4e9, "expires_in": "1h"}, {"/expires_in"}),
        ({"role": "viewer", "expires_in": 0}, {"/expires_in"}),
        ({"role": "viewer", "name": "x" * 201}, {"/name"}),
        ({"role": "viewer", "scopes": []}, {"/scopes"}),
    ],
)
async def test_what_is_wrong_with_a_key_is_said(served: Served, body: Any, pointers: set[str]) -> None:
    answer = await served.ask("POST", "/v1/keys", body)
    assert (answer.status, answer.pointers) == (422, pointers)


async def test_a_repeated_request_makes_one_key_and_shows_it_to_the_same_asker_only(served: Served) -> None:
    other = await served.add_key(Role.MANAGER)
    body, again = {"role": "viewer"}, {"Idempotency-Key": "k-1"}
    first = await served.ask("POST", "/v1/keys", body, headers=again)
    second = await served.ask("POST", "/v1/keys", body, headers=again)

    assert second.raw == first.raw
    assert second.headers["Idempotency-Replayed"] == "true"
    assert (await served.ask("POST", "/v1/keys", body, headers=again, key=other)).code == "idempotency_key_reused"
    assert len(await listed(served)) == 3


async def test_keys_are_few(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasktick.api.keys.KEYS_MAX", 2)
    key = await made(served)
    assert (await served.ask("POST", "/v1/keys", {"role": "viewer"})).code == "state_conflict"
    await made(served, tenant="acme")
    await served.ask("DELETE", f"/v1/keys/{key['id']}")
    await made(served)


async def test_when_a_key_was_last_used(served: Served) -> None:
    key = await made(served)
    await served.ask("GET", "/v1/tasks", key=key["secret"])
    assert (await listed(served))[0]["last_used_at"] is None, "it is written now and then"
    assert await served.key_use.step() > 0
    used = (await listed(served))[0]["last_used_at"]
    assert used is not None
    served.world.now += 60_000
    await served.ask("GET", "/v1/tasks", key=key["secret"])
    await served.key_use.step()
    assert (await listed(served))[0]["last_used_at"] > used


async def test_use_that_finds_no_room_is_written_later() -> None:
    class Full:
        written = 0

        async def write(self, *_: object) -> None:
            self.written += 1
            if self.written == 1:
                raise StoreFull("The disk is full.")

    full = Full()
    use = KeyUse(full)  # type: ignore[arg-type] # of a writer, it needs this much
    use.note("key", 1)
    for _ in range(3):
        await use.step()
    assert full.written == 2
