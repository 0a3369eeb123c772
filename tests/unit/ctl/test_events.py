"""`ctl events`: what it prints, and how it goes on when a stream breaks off."""

import json
from typing import Any

import pytest

from tasktick.ctl import events
from tests.fakes.api_stub import ApiStub, Told, refused
from tests.unit.ctl.conftest import Ctl

ID = "tsk_0190a7c1d2e37f0081c2d3e4f5061708"
AT = "2026-02-10T08:00:00.123Z"
DATA: dict[str, Any] = {
    "type": "task.succeeded",
    "id": ID,
    "tenant": "default",
    "before": "running",
    "state": "succeeded",
    "attempt": 2,
    "at": "2026-02-10T08:00:00.123Z",
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "WAIT_FIRST_MS", 1)
    monkeypatch.setattr(events, "WAIT_MOST_MS", 2)


def stream(*parts: str) -> Told:
    return Told(200, "".join(parts).encode(), {"Content-Type": "text/event-stream"})


def event(name: str, **data: Any) -> str:
    document = {**DATA, **data}
    return f"event: {document['type']}\nid: {name}\ndata: {json.dumps(document)}\n\n"


def test_a_line_an_event(ctl: Ctl, stub: ApiStub) -> None:
    born = event("2-1", type="task.created", before=None, state="scheduled", attempt=0)
    stub.tell(stream("retry: 1\nid: 1-0\n\n", born, ": heartbeat\n", event("3-1"), event("4-1")))
    result = ctl("events", "--count", "2")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"2026-02-10T08:00:00.123Z  task.created    {ID}  - → scheduled",
        f"2026-02-10T08:00:00.123Z  task.succeeded  {ID}  running → succeeded  attempt 2",
    ]
    assert (stub.asked[0].method, stub.asked[0].path) == ("GET", "/v1/events")
    assert stub.asked[0].headers["accept"] == "text/event-stream"
    assert stub.asked[0].headers["authorization"] == "Bearer tk_environment"
    assert "last-event-id" not in stub.asked[0].headers


def test_json_lines(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(stream(event("3-1"), event("3-2", type="task.dead", state="dead")))
    flags = ("--after", "1-1", "--type", "task.dead", "--type", "task.succeeded", "--tenant", "acme")
    result = ctl("events", "-o", "json", "--count", "2", *flags)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found == [
        {"event_id": "3-1", **DATA},
        {"event_id": "3-2", **DATA, "type": "task.dead", "state": "dead"},
    ]
    assert stub.asked[0].path == "/v1/events?type=task.dead&type=task.succeeded&after=1-1"
    assert stub.asked[0].headers["tasktick-tenant"] == "acme"


def test_a_stream_that_breaks_off_goes_on_behind_the_last_event(ctl: Ctl, stub: ApiStub) -> None:
    half = event("5-1")[:-20]
    stub.tell(
        stream("retry: 1\n", event("3-1"), event("4-1"), half),
        Told(drop=True),
        refused(503, "draining", "This server is stopping."),
        refused(429, "rate_limited", "There are too many."),
        Told(502, b"<html>"),
        stream(event("5-1"), "id: 9-0\n\n"),
        stream(event("9-1")),
    )
    result = ctl("events", "-o", "json", "--count", "4")
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["event_id"] for line in result.stdout.splitlines()] == ["3-1", "4-1", "5-1", "9-1"]
    assert [asked.headers.get("last-event-id") for asked in stub.asked] == [None, *["5-1"] * 5, "9-0"][:7]
    said = result.stderr.splitlines()
    assert said.count("It goes on.") == 2
    assert [line for line in said if "the server ended the stream" in line]
    assert [line for line in said if "closed the connection" in line]
    assert [line for line in said if "This server is stopping." in line]


@pytest.mark.parametrize(("status", "code"), [(401, "unauthenticated"), (503, "overloaded"), (400, "malformed")])
def test_a_refusal_at_the_beginning_is_the_end(ctl: Ctl, stub: ApiStub, status: int, code: str) -> None:
    stub.tell(refused(status, code, "Not so."))
    result = ctl("events")
    assert result.exit_code == 1
    assert code in result.stderr
    assert len(stub.asked) == 1


def test_a_key_that_is_revoked_meanwhile_is_the_end(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(stream(event("3-1")), refused(401, "unauthenticated", "There is no such key."))
    result = ctl("events")
    assert result.exit_code == 1
    assert "There is no such key. The key came from TASKTICK_KEY. (unauthenticated)" in result.stderr


def test_nobody_there_at_the_beginning(ctl: Ctl) -> None:
    result = ctl("events", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 3
    assert "Is TaskTick running there?" in result.stderr


def test_a_gap_is_said(ctl: Ctl, stub: ApiStub) -> None:
    gap = 'event: gap\nid: 7-0\ndata: {"type":"gap","reason":"forgotten","after":"3-1","resumed":"7-0"}\n\n'
    stub.tell(stream(gap, event("7-1")), stream(gap))
    result = ctl("events", "--after", "3-1", "--count", "2")
    assert "Some events are missing: those behind 3-1 are forgotten there." in result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert json.loads(ctl("events", "-o", "json", "--count", "1").stdout)["reason"] == "forgotten"


def test_what_a_later_server_tells_is_shown(ctl: Ctl, stub: ApiStub) -> None:
    text = json.dumps({"type": "schedule.paused", "id": "sch_1", "at": "2026-02-10T08:00:00.123Z"})
    stub.tell(stream(f"event: schedule.paused\nid: 1-1\ndata: {text}\n\n"))
    assert ctl("events", "--count", "1").stdout == "2026-02-10T08:00:00.123Z  schedule.paused  sch_1\n"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"nominal_at": AT, "until_at": AT, "times": 1, "reason": "catch_up:none", "task": "tsk_1"},
            f"task tsk_1  reason catch_up:none  of {AT}",
        ),
        ({"nominal_at": AT, "until_at": "later", "times": 1_201, "task": None}, f"of {AT}  and 1,200 more to later"),
        ({"nominal_at": AT, "sla": 30.0, "held_by": "queue"}, f"held_by queue  of {AT}  not begun within 30 s"),
        ({"consecutive_failures": 3, "error_code": "http_500"}, "3 in a row  error_code http_500"),
        (
            {"key": "k", "until": AT, "note": "moving \x1b", "consecutive_failures": 0},
            f"key k  until {AT}  note moving \\x1b",
        ),
    ],
)
def test_of_a_schedule_it_says_which_time_and_how_bad(
    ctl: Ctl, stub: ApiStub, fields: dict[str, Any], said: str
) -> None:
    text = json.dumps({"type": "schedule.late", "id": "sch_1", "at": AT, **fields})
    stub.tell(stream(f"event: schedule.late\nid: 1-1\ndata: {text}\n\n"))
    assert ctl("events", "--count", "1").stdout == f"{AT}  schedule.late   sch_1  {said}\n"


def test_what_is_no_event_of_ours(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(stream("data: hello\n\n"))
    result = ctl("events")
    assert result.exit_code == 1
    assert "Is the URL that of a TaskTick?" in result.stderr


def test_a_terminal_is_not_told_what_to_do(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(stream(event("1-1", id="tsk_\x1b[2J\u202e")), stream(event("1-1", id="tsk_\u009b2J")))
    assert "\\x1b[2J\\u202e" in ctl("events", "--count", "1").stdout
    shown = ctl("events", "-o", "json", "--count", "1").stdout
    assert "\\u009b" in shown
    assert "\u009b" not in shown


def test_its_time_is_over(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(*[stream(event("1-1"))] * 1_000)
    result = ctl("events", "--for", "50ms")
    assert result.exit_code == 0, result.stderr
    assert len(stub.asked) < 1_000


@pytest.mark.parametrize("flags", [("--for", "soon"), ("--count", "0")])
def test_what_cannot_be_meant(ctl: Ctl, flags: tuple[str, str]) -> None:
    assert ctl("events", *flags).exit_code == 2
