"""`ctl key`, `ctl tenant`, `ctl secret`, and whom a command acts for."""

from typing import Any

import pytest

from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl

ID = "key_0190a7c1d2e37f0081c2d3e4f5061707"
KEY: dict[str, Any] = {
    "id": ID,
    "prefix": "tt_abcdefgh",
    "tenant": "acme",
    "role": "viewer",
    "name": "billing",
    "expires_at": None,
    "last_used_at": "2026-02-10T08:00:00.000Z",
    "revoked_at": None,
}
TENANT: dict[str, Any] = {"name": "acme", "max_pending": 5, "create_rate": "10/1m", "pending": 2, "running": 1}


def test_key_list(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"data": [KEY], "next_cursor": "c"}), told({"data": [], "next_cursor": None}))
    result = ctl("key", "list", "--limit", "1")
    assert result.stdout.splitlines()[1].split() == [
        *(ID, "tt_abcdefgh", "acme", "viewer", "billing", "-", "2026-02-10T08:00:00.000Z")
    ]
    assert "--cursor c" in result.stderr
    assert "No key was revoked." in ctl("key", "list", "--revoked", "--all").stderr
    assert [asked.path for asked in stub.asked] == ["/v1/keys?limit=1", "/v1/keys?revoked=true&limit=1000"]


def test_key_create(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({**KEY, "secret": "tt_abcdefgh_secret"}, 201), told(KEY, 201))
    result = ctl("key", "create", "--role", "viewer", "--name", "billing", "--expires-in", "90d", "--tenant", "acme")
    assert result.exit_code == 0, result.stderr
    assert "tt_abcdefgh_secret" in result.stdout
    assert "not shown again" in result.stderr
    [asked] = stub.asked
    assert (asked.path, asked.headers["tasktick-tenant"]) == ("/v1/keys", "acme")
    assert asked.document == {"role": "viewer", "name": "billing", "expires_in": "90d"}
    assert asked.headers["idempotency-key"]
    assert ctl("key", "create", "--role", "viewer", "-o", "json").stdout.startswith('{"id"')
    assert "tasktick-tenant" not in stub.asked[1].headers
    assert ctl("key", "create", "--role", "root").exit_code == 2
    assert ctl("key", "create").exit_code == 2


def test_key_revoke(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(204), refused(404, "not_found", "There is no key 'key_2' here."))
    result = ctl("key", "revoke", ID, "key_2")
    assert result.exit_code == 1
    assert [(asked.method, asked.path) for asked in stub.asked] == [
        ("DELETE", f"/v1/keys/{ID}"),
        ("DELETE", "/v1/keys/key_2"),
    ]
    assert "key_2: There is no key" in result.stderr


def test_tenant_list_and_show(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"data": [TENANT], "next_cursor": None}), told(TENANT), told(TENANT))
    assert ctl("tenant", "list").stdout.splitlines()[1].split() == ["acme", "2", "5", "1", "10/1m", "-"]
    assert ["max_pending", "5"] in [line.split() for line in ctl("tenant", "show", "acme").stdout.splitlines()]
    assert '"pending":2' in ctl("tenant", "show", "acme", "-o", "json").stdout.replace(" ", "")
    assert [asked.path for asked in stub.asked] == ["/v1/tenants", "/v1/tenants/acme", "/v1/tenants/acme"]


def test_tenant_set_keeps_what_is_not_given(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(TENANT), told(TENANT), refused(404, "not_found", "None."), told(TENANT, 201))
    assert ctl("tenant", "set", "acme", "--max-pending", "9").exit_code == 0
    assert (stub.asked[1].method, stub.asked[1].path) == ("PUT", "/v1/tenants/acme")
    assert stub.asked[1].document == {"max_pending": 9, "create_rate": "10/1m"}
    assert ctl("tenant", "set", "new", "--max-pending", "none", "--create-rate", "5/1s").exit_code == 0
    assert stub.asked[3].document == {"max_pending": None, "create_rate": "5/1s"}


def test_tenant_set_that_cannot_be(ctl: Ctl, stub: ApiStub) -> None:
    assert ctl("tenant", "set", "acme").exit_code == 2
    assert ctl("tenant", "set", "acme", "--max-pending", "-1").exit_code == 2
    assert not stub.asked
    stub.tell(refused(403, "forbidden", "A viewer may not do that."))
    assert ctl("tenant", "set", "acme", "--max-pending", "1").exit_code == 1


def test_tenant_delete(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(204), refused(409, "state_conflict", "It has 2 unfinished tasks."))
    assert ctl("tenant", "delete", "acme").exit_code == 0
    assert (stub.asked[0].method, stub.asked[0].path) == ("DELETE", "/v1/tenants/acme")
    result = ctl("tenant", "delete", "acme")
    assert (result.exit_code, "2 unfinished" in result.stderr) == (1, True)


def test_secret_create_rotate_retire(ctl: Ctl, stub: ApiStub) -> None:
    secret: dict[str, Any] = {"id": "sec_1", "secret": "whsec_" + "A" * 44, "created_at": "2026", "retired_at": None}
    stub.tell(told(secret, 201), told(secret, 201), told(secret, 201), Told(204))
    assert secret["secret"] in ctl("secret", "create").stdout
    assert secret["secret"] in ctl("secret", "rotate", "--retire-after", "7d").stdout
    assert ctl("secret", "rotate", "-o", "json").stdout.startswith('{"id"')
    assert ctl("secret", "retire", "sec_1").exit_code == 0
    assert [(asked.method, asked.path) for asked in stub.asked] == [
        ("POST", "/v1/secrets"),
        ("POST", "/v1/secrets/rotate"),
        ("POST", "/v1/secrets/rotate"),
        ("DELETE", "/v1/secrets/sec_1"),
    ]
    assert stub.asked[1].document == {"retire_after": "7d"}
    assert stub.asked[2].body == b""


def test_whom_a_command_acts_for(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(*(told({"data": [], "next_cursor": None}) for _ in range(3)))
    ctl("--tenant", "acme", "task", "list")
    ctl("--tenant", "acme", "task", "list", "--tenant", "other")
    ctl("task", "list")
    assert [asked.headers.get("tasktick-tenant") for asked in stub.asked] == ["acme", "other", None]


@pytest.mark.parametrize("name", ["", " ", "a\r\nX: y", "ä"])
def test_a_tenant_that_no_header_can_name(ctl: Ctl, stub: ApiStub, name: str) -> None:
    assert ctl("task", "list", "--tenant", name).exit_code == 2
    assert not stub.asked
