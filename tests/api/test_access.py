"""Who may ask: keys, roles, tenants, and addresses that are wrong too often."""

import pytest

from tasktick.access.roles import Role
from tasktick.api.routes import table
from tasktick.api.routing import Router
from tasktick.store import secrets as stored
from tests.api.served import URL, Served

LETTER = f"/v1/dlq/dlq_{'0' * 32}"
ASKS: list[tuple[str, str, Role]] = [
    ("GET", "/v1/tasks/key:x", Role.VIEWER),
    ("GET", "/v1/tasks/key:x/attempts", Role.VIEWER),
    ("GET", "/v1/tasks/key:x/explain", Role.VIEWER),
    ("GET", "/v1/schedules/key:x/explain?at=1800000000", Role.VIEWER),
    ("GET", "/v1/forecast?hours=1", Role.VIEWER),
    ("GET", LETTER, Role.VIEWER),
    ("POST", f"{LETTER}/archive", Role.MANAGER),
    ("POST", "/v1/tasks/key:x/pause", Role.MANAGER),
    ("POST", "/v1/tasks/key:x/resume", Role.MANAGER),
    ("POST", "/v1/tasks/key:x/retry", Role.MANAGER),
    ("GET", "/v1/tasks", Role.VIEWER),
    ("GET", "/v1/stats", Role.VIEWER),
    # Whoever may is told that this is none: a stream would not end.
    ("GET", "/v1/events?after=none", Role.VIEWER),
    ("GET", "/v1/dlq", Role.VIEWER),
    ("POST", "/v1/tasks", Role.SUBMITTER),
    ("POST", "/v1/tasks/batch", Role.SUBMITTER),
    ("PUT", "/v1/tasks/key:x", Role.SUBMITTER),
    ("POST", "/v1/tasks/key:x/cancel", Role.SUBMITTER),
    ("POST", "/v1/tasks/key:x/run", Role.MANAGER),
    ("PATCH", "/v1/tasks/key:x", Role.MANAGER),
    ("DELETE", "/v1/tasks/key:x", Role.MANAGER),
    ("POST", f"{LETTER}/replay", Role.MANAGER),
    ("POST", "/v1/tasks/cancel", Role.SUBMITTER),
    ("POST", "/v1/tasks/retry", Role.MANAGER),
    ("POST", "/v1/tasks/run", Role.MANAGER),
    ("POST", "/v1/tasks/delete", Role.MANAGER),
    ("POST", "/v1/dlq/replay", Role.MANAGER),
    ("POST", "/v1/dlq/archive", Role.MANAGER),
    ("POST", "/v1/dlq/purge", Role.MANAGER),
    ("POST", "/v1/schedules/preview", Role.VIEWER),
    ("GET", "/v1/schedules", Role.VIEWER),
    ("GET", "/v1/schedules/key:x", Role.VIEWER),
    ("GET", "/v1/schedules/key:x/upcoming", Role.VIEWER),
    ("GET", "/v1/schedules/key:x/fires", Role.VIEWER),
    ("POST", "/v1/schedules/key:x/trigger", Role.SUBMITTER),
    ("POST", "/v1/schedules", Role.MANAGER),
    ("PUT", "/v1/schedules/key:x", Role.MANAGER),
    ("PATCH", "/v1/schedules/key:x", Role.MANAGER),
    ("DELETE", "/v1/schedules/key:x", Role.MANAGER),
    ("POST", "/v1/schedules/key:x/pause", Role.MANAGER),
    ("POST", "/v1/schedules/key:x/resume", Role.MANAGER),
    ("POST", "/v1/schedules/key:x/skip", Role.MANAGER),
    ("POST", "/v1/schedules/key:x/unskip", Role.MANAGER),
    ("POST", "/v1/schedules/key:x/backfill", Role.MANAGER),
    ("GET", "/v1/calendars", Role.VIEWER),
    ("GET", "/v1/calendars/x", Role.VIEWER),
    ("PUT", "/v1/calendars/x", Role.MANAGER),
    ("DELETE", "/v1/calendars/x", Role.MANAGER),
    ("GET", "/v1/checks", Role.VIEWER),
    ("GET", "/v1/checks/key:x", Role.VIEWER),
    ("GET", "/v1/checks/key:x/pings", Role.VIEWER),
    ("POST", "/v1/checks", Role.MANAGER),
    ("PUT", "/v1/checks/key:x", Role.MANAGER),
    ("PATCH", "/v1/checks/key:x", Role.MANAGER),
    ("DELETE", "/v1/checks/key:x", Role.MANAGER),
    ("POST", "/v1/checks/key:x/pause", Role.MANAGER),
    ("POST", "/v1/checks/key:x/resume", Role.MANAGER),
    ("POST", "/v1/checks/key:x/rotate", Role.MANAGER),
    ("GET", "/v1/secrets", Role.MANAGER),
    ("POST", "/v1/secrets", Role.MANAGER),
    ("GET", "/v1/secrets?reveal=1", Role.OPERATOR),
    ("POST", "/v1/secrets/rotate", Role.MANAGER),
    ("DELETE", f"/v1/secrets/sec_{'0' * 32}", Role.MANAGER),
    ("GET", "/v1/keys", Role.MANAGER),
    ("POST", "/v1/keys", Role.MANAGER),
    ("DELETE", f"/v1/keys/key_{'0' * 32}", Role.MANAGER),
    ("GET", "/v1/tenants", Role.OPERATOR),
    ("GET", "/v1/tenants/acme", Role.OPERATOR),
    ("PUT", "/v1/tenants/acme", Role.OPERATOR),
    ("DELETE", "/v1/tenants/acme", Role.OPERATOR),
    ("GET", "/v1/cluster", Role.OPERATOR),
    ("POST", "/v1/cluster/rebalance", Role.OPERATOR),
    ("POST", "/v1/cluster/nodes/node-a/drain", Role.OPERATOR),
    ("POST", "/v1/cluster/nodes/node-a/undrain", Role.OPERATOR),
]


@pytest.mark.parametrize(("method", "path", "least"), ASKS)
async def test_roles(served: Served, method: str, path: str, least: Role) -> None:
    roles = list(Role)
    for role in roles:
        key = await served.add_key(role)
        answer = await served.ask(method, path, key=key)
        allowed = roles.index(role) >= roles.index(least)
        assert (answer.status != 403) == allowed, (role, answer.raw)
        if not allowed:
            assert answer.code == "forbidden"
            assert "it takes a key with the role" in answer.json["detail"]


async def test_without_a_valid_key(served: Served) -> None:
    altered = served.key[:-1] + ("0" if served.key[-1] != "0" else "1")
    expired = await served.add_key()
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {served.key}"},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": f"Bearer {altered}"},
    ):
        answer = await served.ask("GET", "/v1/tasks", headers=headers)
        assert (answer.status, answer.code) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        is_sent = headers["Authorization"].startswith("Bearer ")
        assert ("unknown, expired or revoked" in answer.json["detail"]) == is_sent
    assert (
        await served.ask("GET", "/v1/tasks", key=expired, headers={"Authorization": f"bearer  {expired}"})
    ).status == 200


async def test_a_body_is_not_read_without_a_key(served: Served) -> None:
    raw = b"POST /v1/tasks/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 16000000\r\n\r\n"

    assert b" 401 " in (await served.wire(raw)).split(b"\r\n")[0]


async def test_an_address_may_not_be_wrong_without_end(served: Served) -> None:
    other = await served.add_key()
    assert (await served.ask("GET", "/v1/tasks")).status == 200
    answers = [await served.ask("GET", "/v1/tasks", key="tt_wrong") for _ in range(25)]
    assert [answer.status for answer in answers] == [401] * 20 + [429] * 5
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"wrong-keys";q=20;w=60'}
    assert answers[0].headers["RateLimit"] == '"wrong-keys";r=19;t=3'
    assert answers[19].headers["RateLimit"] == '"wrong-keys";r=0;t=60'

    limited = await served.ask("GET", "/v1/tasks", key=other)
    assert (limited.code, limited.headers["Retry-After"]) == ("rate_limited", "3")
    assert limited.headers["RateLimit"] == '"wrong-keys";r=0;t=60'
    assert (await served.ask("GET", "/v1/tasks")).status == 200  # a key that was right before is heard
    served.world.now += 3_000
    assert (await served.ask("GET", "/v1/tasks", key=other)).status == 200


async def test_a_revoked_key_works_for_seconds_at_most(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await served.ask("GET", "/v1/tasks")).status == 200

    async def gone(*_: object) -> None:
        return None

    monkeypatch.setattr(stored, "key_by_prefix", gone)
    assert (await served.ask("GET", "/v1/tasks")).status == 200
    served.world.now += 5_000
    assert (await served.ask("GET", "/v1/tasks")).status == 401


async def test_only_an_operator_acts_for_another_tenant(served: Served) -> None:
    manager = await served.add_key(Role.MANAGER, "acme")
    there = {"TaskTick-Tenant": "acme"}
    made = (await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, headers=there)).json

    assert made["tenant"] == "acme"
    assert (await served.ask("GET", f"/v1/tasks/{made['id']}", key=manager)).status == 200
    assert (await served.ask("GET", "/v1/tasks", key=manager, headers=there)).status == 200
    other = await served.ask("GET", "/v1/tasks", key=manager, headers={"TaskTick-Tenant": "default"})
    assert (other.status, other.code) == (403, "forbidden")
    for name in ("-", "Acme", "a" * 65, "a b", "../x"):
        assert (await served.ask("GET", "/v1/tasks", headers={"TaskTick-Tenant": name})).status == 422


def test_every_route_that_takes_a_key_is_asked_here() -> None:
    """The list above knows them all, whichever it is that a path names."""
    asked = {(method, Router(table()).find(method, path.partition("?")[0])[0].path) for method, path, _ in ASKS}
    assert {(one.method, one.path) for one in table() if one.permission is not None} - asked == set()
