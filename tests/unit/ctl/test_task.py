"""`ctl task`: what it asks for, and what it prints."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tasktick.ctl import task_add
from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl

ID = "tsk_0190a7c1d2e37f0081c2d3e4f5061707"
TASK: dict[str, Any] = {
    "id": ID,
    "key": "invoice-771",
    "name": "Invoice",
    "state": "scheduled",
    "attempt": 0,
    "max_attempts": 5,
    "run_at": "2026-02-10T08:00:00.000Z",
    "due_at": "2026-02-10T08:00:00.000Z",
    "target": {"url": "https://app.example/hook", "method": "POST"},
    "tags": {"team": "billing"},
    "error": None,
}


def _task(**more: Any) -> dict[str, Any]:
    return {**TASK, **more}


def test_add_asks_for_what_was_given_and_no_more(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(_task(), 201))
    result = ctl("task", "add", "https://app.example/hook")
    assert result.exit_code == 0
    assert ID in result.stdout
    assert stub.asked[0].document == {"target": {"url": "https://app.example/hook"}}
    assert re.fullmatch("[0-9a-f]{32}", stub.asked[0].headers["idempotency-key"])


def test_add_knows_every_field(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(_task(), 201))
    flags = "--in 5m --method PUT --timeout 10s --key k-1 --name N --type t --queue q --priority 0 --retry-max 3"
    more = ["--header", "X-Team: bill: ing", "--tag", "a=b=c", "--tag", "d=", "--body", '{"n": 1.00}']
    end = "--sla 90s --expires-in 1h --at-most-once --idempotency-key once-1"
    result = ctl("task", "add", "http://x/", *flags.split(), *more, *end.split())
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == {
        "target": {"url": "http://x/", "method": "PUT", "headers": {"X-Team": "bill: ing"}, "timeout": "10s"}
        | {"body": {"n": 1.0}},
        "delay": "5m",
        "key": "k-1",
        "name": "N",
        "type": "t",
        "queue": "q",
        "priority": 0,
        "retry": {"max_attempts": 3},
        "tags": {"a": "b=c", "d": ""},
        "sla": "90s",
        "expires_in": "1h",
        "delivery": "at_most_once",
    }
    assert b'{"n": 1.00}' in stub.asked[0].body
    assert stub.asked[0].headers["idempotency-key"] == "once-1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((same, same) for same in ("2026-12-01T09:00:00+01:00", "nan", "inf", "1e400", "1_0", "tomorrow")),
        ("1770000000.5", 1_770_000_000.5),
    ],
)
def test_add_at(ctl: Ctl, stub: ApiStub, text: str, value: Any) -> None:
    stub.tell(told(_task(), 201))
    ctl("task", "add", "http://x/", "--at", text)
    assert stub.asked[0].document["run_at"] == value


@pytest.mark.parametrize(
    ("data", "header", "field", "value"),
    [
        (b'{"a": 1}', None, "body", {"a": 1}),
        (b'{"a": 1}', "Content-Type: application/vnd.x+json", "body", {"a": 1}),
        ("käse".encode(), "Content-Type: text/plain", "body_text", "käse"),
        (b"\xff\x00", "content-type: image/png", "body_base64", "/wA="),
    ],
)
def test_add_reads_a_body_from_standard_input(
    ctl: Ctl, stub: ApiStub, data: bytes, header: str | None, field: str, value: Any
) -> None:
    stub.tell(told(_task(), 201))
    headers = ["--header", header] if header else []
    ctl("task", "add", "http://x/", "--body-file", "-", *headers, stdin=data)
    assert stub.asked[0].document["target"][field] == value


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--in", "5m", "--at", "1770000000"], "--in and --at"),
        (["--body", "1", "--body-file", "-"], "--body and --body-file"),
        (["--body", '{"a": 1'], "content-type: text/plain"),
        (["--header", "X-Team"], "is not 'NAME: VALUE'"),
        (["--tag", "team"], "is not NAME=VALUE"),
        (["--priority", "10"], "0<=x<=9"),
    ],
)
def test_add_used_wrongly(ctl: Ctl, stub: ApiStub, flags: list[str], said: str) -> None:
    result = ctl("task", "add", "http://x/", *flags)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not stub.asked


def test_add_waits_through_a_restart(ctl: Ctl, stub: ApiStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_add, "POLL_FIRST_MS", 1)
    stub.tell(told(_task(), 201), told(_task(state="running", attempt=1)), Told(drop=True), Told(drop=True))
    stub.tell(refused(503, "draining", "On its way out."))
    stub.tell(told(_task(state="succeeded", attempt=1, result={"status": 200})))
    result = ctl("task", "add", "http://x/", "--wait")
    assert result.exit_code == 0, result.stderr
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        "scheduled, attempt 0",
        "running, attempt 1",
        "succeeded, attempt 1",
    ]
    assert re.search(r"^result\.status +200$", result.stdout, re.MULTILINE)


def test_add_that_waits_for_a_failure(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(_task(), 201), told(_task(state="dead", reason="http_404")))
    result = ctl("task", "add", "http://x/", "--wait", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["state"] == "dead"


def test_a_refusal_says_where_the_fault_is(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(422, "validation_failed", "One fault.", errors=[{"pointer": "/delay", "detail": "no duration"}]))
    result = ctl("task", "add", "http://x/", "--in", "soon")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == ("Error: One fault. (validation_failed)\n  /delay (--in): no duration\n  Request req-7\n")


def test_a_bare_number_is_seconds(ctl: Ctl, stub: ApiStub) -> None:
    for given, sent in (("10", 10), ("1.5", 1.5), ("-5", -5), ("10s", "10s"), ("-5s", "-5s")):
        stub.tell(told(_task(), 201))
        flags = ["--in", given, "--timeout", given, "--expires-in", given]
        assert ctl("task", "add", "http://x/", *flags).exit_code == 0
        document = stub.asked[-1].document
        assert [document["delay"], document["target"]["timeout"], document["expires_in"]] == [sent] * 3


def test_a_fault_is_said_once(ctl: Ctl, stub: ApiStub) -> None:
    two = [{"pointer": "/delay", "detail": "no duration"}, {"pointer": "/key", "detail": "too long"}]
    stub.tell(refused(422, "validation_failed", "no duration", errors=two[:1]))
    stub.tell(refused(422, "validation_failed", "The request has 2 faults. The first: no duration", errors=two))
    said = [ctl("task", "add", "http://x/").stderr for _ in range(2)]
    assert said[0] == "Error: /delay: no duration (validation_failed)\n  Request req-7\n"
    assert said[1].splitlines()[:3] == [
        "Error: The request has 2 faults. (validation_failed)",
        "  /delay: no duration",
        "  /key: too long",
    ]


def test_overload_says_when_to_try_again(ctl: Ctl, stub: ApiStub) -> None:
    answer = refused(503, "overloaded", "Too much to do.")
    stub.tell(Told(503, answer.body, {"Retry-After": "7"}))
    assert "Try again in 7 s." in ctl("stats").stderr


def test_list(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"data": [_task(), _task(name=None, state="dead", attempt=5)], "next_cursor": "abc"}))
    flags = "--state dead --state expired --queue q --type t --name n --tag a=b --q x --sla-missed --order asc"
    times = "--schedule sch_1 --run-after 1 --run-before 2 --created-after 3 --created-before 4 --limit 2 --cursor c"
    result = ctl("task", "list", *flags.split(), *times.split())
    assert result.exit_code == 0
    assert stub.asked[0].path == (
        "/v1/tasks?queue=q&name=n&schedule_id=sch_1&run_after=1&run_before=2&created_after=3&created_before=4&type=t&tag=a:b"
        "&order=asc&limit=2&cursor=c&state=dead&state=expired&q=x&sla_met=false"
    )
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["ID", "STATE", "TRIES", "DUE_AT", "NAME", "TARGET"]
    assert first.split()[:3] == [ID, "scheduled", "0/5"]
    assert "invoice-771" in second
    assert second.endswith("https://app.example/hook")
    assert result.stderr == "There are more: --all, or --cursor abc\n"


def test_list_all_as_json_is_what_the_api_said(ctl: Ctl, stub: ApiStub) -> None:
    pages = [b'{"data":[{"id":"tsk_1","n":1.00}],"next_cursor":"c"}', b'{"data":[],"next_cursor":null}']
    stub.tell(*(Told(200, page) for page in pages))
    result = ctl("task", "list", "--all", "-o", "json")
    assert result.stdout.encode() == pages[0] + b"\n" + pages[1] + b"\n"
    assert result.stderr == ""
    assert [asked.path for asked in stub.asked] == ["/v1/tasks?limit=1000", "/v1/tasks?limit=1000&cursor=c"]


@pytest.mark.parametrize(
    ("flags", "said"), [((), "Make one: tasktick ctl task add"), (("--state", "dead"), "No task matches")]
)
def test_an_empty_list_says_what_to_do(ctl: Ctl, stub: ApiStub, flags: tuple[str, ...], said: str) -> None:
    stub.tell(told({"data": [], "next_cursor": None}))
    result = ctl("task", "list", *flags)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert said in result.stderr


def test_show(ctl: Ctl, stub: ApiStub) -> None:
    attempt = {
        "attempt": 1,
        "state": "failed",
        "picked_at": "2026-02-10T08:00:00.000Z",
        "status": 503,
        "error": {"class": "receiver", "code": "http_503", "detail": "The receiver answered 503."},
        "node": "n1",
    }
    stub.tell(told(_task(attempts_count=1)), told({"data": [attempt], "next_cursor": None}))
    result = ctl("task", "show", "key:invoice-771")
    assert [asked.path for asked in stub.asked] == [
        "/v1/tasks/key:invoice-771",
        "/v1/tasks/key:invoice-771/attempts?limit=1000",
    ]
    assert re.search(r"^tags\.team +billing$", result.stdout, re.MULTILINE)
    assert re.search(r"^target\.url +https://app.example/hook$", result.stdout, re.MULTILINE)
    assert "http_503: The receiver answered 503." in result.stdout
    stub.tell(Told(200, b'{"id": "tsk_1"}'))
    assert ctl("task", "show", "tsk_1", "-o", "json").stdout == '{"id": "tsk_1"}\n'


@pytest.mark.parametrize("action", ["cancel", "run", "retry", "pause", "resume"])
def test_actions(ctl: Ctl, stub: ApiStub, action: str) -> None:
    stub.tell(told(_task(state="paused")), refused(404, "not_found", "There is no task 'key:b' here."), told(_task()))
    result = ctl("task", action, ID, "key:b", "key:c")
    assert result.exit_code == 1
    assert [asked.path for asked in stub.asked] == [f"/v1/tasks/{name}/{action}" for name in (ID, "key:b", "key:c")]
    assert len({asked.headers["idempotency-key"] for asked in stub.asked}) == 3
    assert len(result.stdout.splitlines()) == 3
    assert "Error: key:b: There is no task 'key:b' here. (not_found)" in result.stderr


@pytest.mark.parametrize("names", [[], ["."], [""]])
def test_actions_need_an_id(ctl: Ctl, stub: ApiStub, names: list[str]) -> None:
    assert ctl("task", "cancel", *names).exit_code == 2
    assert not stub.asked


def test_delete(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(204), Told(204))
    result = ctl("task", "delete", ID, "key:b", "--yes")
    assert result.exit_code == 0
    assert [(asked.method, asked.path) for asked in stub.asked] == [
        ("DELETE", f"/v1/tasks/{ID}"),
        ("DELETE", "/v1/tasks/key:b"),
    ]
    assert result.stderr == "Removed 2 of 2.\n"


def test_delete_asks_nobody_who_is_not_there(ctl: Ctl, stub: ApiStub) -> None:
    result = ctl("task", "delete", ID)
    assert result.exit_code == 2
    assert "say --yes" in result.stderr
    assert not stub.asked


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("later", "here. Did you mean key:later? (not_found)"),
        (ID, "here. (not_found)"),
        ("key:later", "here. (not_found)"),
        ("dlq_1", "here. That is a dead letter: tasktick ctl dlq show dlq_1 (not_found)"),
        ("späte\u202er", "Did you mean key:späte\\u202er?"),
    ],
)
def test_an_id_that_is_not_there_says_what_may_be_meant(ctl: Ctl, stub: ApiStub, name: str, said: str) -> None:
    stub.tell(*(refused(404, "not_found", "There is no such task here.") for _ in range(2)))
    for action in ("show", "cancel"):
        assert said in ctl("task", action, name).stderr


HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202etxt.exe\u202c a\nb"


def test_nothing_of_a_server_reaches_the_terminal_raw(ctl: Ctl, stub: ApiStub) -> None:
    hostile = json.dumps({"data": [_task(name=HOSTILE, key=HOSTILE)], "next_cursor": HOSTILE}, ensure_ascii=False)
    body = hostile.encode()
    stub.tell(Told(200, body), Told(200, body), refused(422, HOSTILE, HOSTILE, errors=[{"pointer": HOSTILE}]))
    stub.tell(told(_task(name=HOSTILE, tags={HOSTILE: HOSTILE})), told({"data": [{"error": {"code": HOSTILE}}]}))
    results = [ctl("task", "list"), ctl("task", "list", "-o", "json"), ctl("stats"), ctl("task", "show", "x")]
    for result in results:
        text = result.stdout + result.stderr
        assert "red" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert json.loads(results[1].stdout)["data"][0]["name"] == HOSTILE


def test_another_service_is_not_printed(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(200, b"<html>\x1b[31m</html>"))
    result = ctl("task", "show", "x", "-o", "json")
    assert result.exit_code == 1
    assert "Is the URL that of a TaskTick?" in result.stderr


def test_a_body_file_that_is_not_there(ctl: Ctl, tmp_path: Path) -> None:
    result = ctl("task", "add", "http://x/", "--body-file", str(tmp_path / "none"))
    assert result.exit_code == 2
