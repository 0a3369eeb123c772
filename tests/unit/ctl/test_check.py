"""`ctl check`: made, listed, shown with the address to ping, paused, removed."""

from typing import Any

from tests.fakes.api_stub import ApiStub, told
from tests.unit.ctl.conftest import Ctl
from tests.unit.ctl.schedules import page

CHECK: dict[str, Any] = {
    "id": "chi_" + "0" * 32,
    "key": "backup",
    "state": "up",
    "cron": "0 2 * * *",
    "period": None,
    "every": None,
    "ping_id": "chk_" + "1" * 32,
    "ping_path": "/ping/chk_" + "1" * 32,
    "failures": 0,
    "version": 1,
}
PING: dict[str, Any] = {"number": 2, "kind": "fail", "exit_code": 7, "body": "disk\n full", "body_bytes": 10}


def test_add_says_what_was_given_and_where_to_ping(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(CHECK, status=201), told(CHECK))
    flags = ["--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--grace", "15m", "--tag", "team=a", "--paused"]
    result = ctl("check", "add", "--key", "backup", *flags)
    assert result.exit_code == 0, result.stderr
    assert (stub.asked[0].method, stub.asked[0].path) == ("PUT", "/v1/checks/key:backup")
    assert stub.asked[0].document == {
        "cron": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "grace": "15m",
        "tags": {"team": "a"},
        "paused": True,
    }
    assert f"{CHECK['ping_path']}/$?" in result.stderr
    assert ctl("check", "add", "--period", "60", "--max-runtime", "1h").exit_code == 0
    assert (stub.asked[1].method, stub.asked[1].document) == ("POST", {"period": 60, "max_runtime": "1h"})


def test_lists_and_pings(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(page(CHECK), page(PING), page())
    listed = ctl("check", "list", "--status", "up", "--tag", "team=a", "--not-paused")
    assert "0 2 * * *" in listed.stdout
    assert stub.asked[0].path.partition("?")[0] == "/v1/checks"
    assert "disk full" in ctl("check", "pings", "key:backup", "--kind", "fail").stdout
    assert "There are no checks" in ctl("check", "list").stderr


def test_the_others(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(CHECK), told(CHECK), told(CHECK), told(CHECK), told(None, status=204))
    assert "backup" in ctl("check", "show", "key:backup").stdout
    for word in ("pause", "resume", "rotate"):
        assert ctl("check", word, "key:backup").exit_code == 0
    assert [one.path.rpartition("/")[2] for one in stub.asked[1:]] == ["pause", "resume", "rotate"]
    assert ctl("check", "delete", "key:backup", "--yes").exit_code == 0
