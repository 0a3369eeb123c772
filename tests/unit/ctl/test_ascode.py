"""`plan` and `apply` against a server that is faster, too old, or gone."""

from pathlib import Path
from typing import Any

import pytest

from tasktick.ctl.ascode import commands
from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl

READING = {"key": "a", "every": 3_600, "tags": {}, "paused": False, "note": None}
READING |= {"task": {"target": {"url": "https://app.example/", "headers": {}}}}
FILE = 'owner = "me"\n[schedules.{}]\nevery = "1h"\ntask.target.url = "https://app.example/"\n'


def preview(**changed: Any) -> Told:
    return told({"fires": [], "schedule": {**READING, **changed}})


def file(tmp_path: Path, *keys: str) -> str:
    made = 'owner = "me"\n' + "".join(FILE.format(key).partition("\n")[2] for key in keys)
    (tmp_path / "s.toml").write_text(made)
    return "s.toml"


def empty() -> tuple[Told, ...]:
    return preview(), told({"data": [], "next_cursor": None})


def gone() -> Told:
    return refused(404, "not_found", "It is not there.")


def test_who_was_faster_is_not_overwritten(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    there = told({**READING, "every": 60, "version": 7})
    stub.tell(preview(), *empty(), there, refused(412, "version_mismatch", "Its version is 8 now."))
    result = ctl("apply", file(tmp_path, "a"), "--yes", "--force")
    assert result.exit_code == 1
    assert stub.asked[-1].headers["if-match"] == '"7"'
    assert "Somebody else was faster" in result.stderr
    assert "Stopped at schedule a. Done before it: nothing. Not done: 1." in result.stderr


def test_what_is_there_by_now_is_not_replaced(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    stub.tell(preview(), preview(key="b"), *empty(), gone(), gone())
    stub.tell(told({"version": 1}, 201), refused(409, "key_taken", "This key is taken."))
    result = ctl("apply", file(tmp_path, "a", "b"), "--yes")
    assert result.exit_code == 1
    assert [asked.method for asked in stub.asked[-2:]] == ["POST", "POST"]
    sent = stub.asked[-1].document
    assert (sent["key"], sent["tags"]["managed-by"], len(sent["tags"]["managed-digest"])) == ("b", "me", 32)
    assert "Stopped at schedule b. Done before it: 1 created. Not done: 1." in result.stderr


def test_a_server_that_goes_away_in_between(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    there = told({**READING, "every": 60, "version": 7})
    stub.tell(preview(), *empty(), there, Told(drop=True))
    result = ctl("apply", file(tmp_path, "a"), "--yes", "--force")
    assert result.exit_code == 3
    assert "nothing is done twice" in result.stderr


def test_a_server_that_is_too_old(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    stub.tell(told({"fires": []}))
    result = ctl("plan", file(tmp_path, "a"))
    assert result.exit_code == 1
    assert "older than this program" in result.stderr


def test_a_calendar_that_is_only_to_be_made_is_not_asked_for(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    text = FILE.format("a") + 'calendars = ["days", "other", { name = "only", mode = "include" }]\n'
    text = text.replace("task.target", 'calendars = ["days", "other"]\ntask.target').replace(text.splitlines()[-1], "")
    (tmp_path / "s.toml").write_text(text + '[calendars.days]\ndates = ["2026-12-25"]\n')
    calendar = told({"name": "days", "dates": ["2026-12-25"], "version": 1})
    stub.tell(calendar, preview(calendars=["other"]), *empty(), gone(), gone())
    result = ctl("plan", "s.toml", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path.endswith("/calendars/days?dry_run=true")
    assert stub.asked[1].document["calendars"] == ["other"]
    assert '"create":2' in result.stdout


def test_what_a_server_says_reaches_no_terminal_raw(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    there = told({**READING, "every": 60, "version": 7, "name": "\x1b[2J"})
    stub.tell(preview(name="x"), preview(name="x"), told({"data": [], "next_cursor": None}), there)
    result = ctl("plan", file(tmp_path, "a"), "--force")
    assert "\x1b" not in result.stdout


def test_a_person_is_asked(ctl: Ctl, stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_somebody_is_there", lambda: True)
    stub.tell(preview(), *empty(), gone())
    result = ctl("apply", file(tmp_path, "a"), stdin="n\n")
    assert result.exit_code == 1
    assert f"Do this to {stub.url}?" in result.stderr
    assert [asked.method for asked in stub.asked] == ["POST", "POST", "GET", "GET"]
    stub.tell(preview(), *empty(), gone(), told({"version": 1}, 201))
    assert ctl("apply", file(tmp_path, "a"), stdin="y\n").exit_code == 0
