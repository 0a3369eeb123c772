"""`ctl schedule add` and `edit`: what they ask for."""

import json
import re

import pytest

from tests.fakes.api_stub import ApiStub, Told, told
from tests.unit.ctl.conftest import Ctl
from tests.unit.ctl.schedules import ID, SCHEDULE, URL, fields, schedule


def test_add_asks_for_what_was_given_and_no_more(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule())
    result = ctl("schedule", "add", URL, "--cron", "0 9 * * MON-FRI")
    assert result.exit_code == 0, result.stderr
    assert (stub.asked[0].method, stub.asked[0].path) == ("POST", "/v1/schedules")
    assert stub.asked[0].document == {"cron": "0 9 * * MON-FRI", "task": {"target": {"url": URL}}}
    assert re.fullmatch("[0-9a-f]{32}", stub.asked[0].headers["idempotency-key"])
    shown = fields(result.stdout)
    assert shown["id"] == ID
    assert shown["when"] == "At 09:00, Monday through Friday, Europe/Berlin time."
    assert shown["next"] == "2026-02-10T08:00:00.000Z, in 1 h 30 min"


def test_add_knows_every_field(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule())
    flags = "--key k --every 90s --anchor 1770000000 --timezone Europe/Berlin --gap skip --repeat both --name N"
    policy = "--overlap buffer_all --overlap-key k --pause-on-failures 5 --jitter 10m --paused"
    late = "--catch-up none --catch-up-window 6h --catch-up-max 7"
    limits = "--start-at 2026-03-01T09:00:00 --end-at 1780000000.5 --max-fires 9 --tag a=b --tag c= --note why"
    call = ["--method", "PUT", "--header", "X-Team: billing", "--body", '{"n": 1.00}', "--timeout", "10s"]
    run = "--type t --queue q --priority 0 --retry-max 3 --sla 90s --expires-in 1h --at-most-once"
    once = ["--idempotency-key", "once"]
    result = ctl("schedule", "add", URL, *f"{flags} {policy} {late} {limits} {run}".split(), *call, *once)
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == {
        "key": "k",
        "every": "90s",
        "anchor": 1_770_000_000,
        "timezone": "Europe/Berlin",
        "dst": {"gap": "skip", "repeat": "both"},
        "name": "N",
        "overlap": "buffer_all",
        "overlap_key": "k",
        "pause_on_failures": 5,
        "catch_up": {"mode": "none", "window": "6h", "max": 7},
        "jitter": "10m",
        "start_at": "2026-03-01T09:00:00",
        "end_at": 1_780_000_000.5,
        "max_fires": 9,
        "tags": {"a": "b", "c": ""},
        "note": "why",
        "paused": True,
        "task": {
            "target": {"url": URL, "method": "PUT", "headers": {"X-Team": "billing"}, "timeout": "10s"}
            | {"body": {"n": 1.0}},
            "type": "t",
            "queue": "q",
            "priority": 0,
            "retry": {"max_attempts": 3},
            "sla": "90s",
            "expires_in": "1h",
            "delivery": "at_most_once",
        },
    }
    assert b'{"n": 1.00}' in stub.asked[0].body
    assert stub.asked[0].headers["idempotency-key"] == "once"


def test_several_rules_are_a_spec(ctl: Ctl, stub: ApiStub) -> None:
    spec = [
        {"cron": "0 9 * * MON", "every": None, "anchor": None, "rrule": None},
        {"cron": None, "every": 7_200.0, "anchor": None, "rrule": None},
    ]
    stub.tell(schedule(cron=None, spec=spec), schedule(cron=None, rrule="FREQ=DAILY;BYHOUR=9"))
    flags = ["--cron", "0 9 * * MON", "--cron", "0 8 1 * *", "--every", "2h", "--anchor", "5", "--rrule", "FREQ=DAILY"]
    result = ctl("schedule", "add", URL, *flags)
    assert result.exit_code == 0, result.stderr
    wanted = [{"cron": "0 9 * * MON"}, {"cron": "0 8 1 * *"}, {"every": "2h", "anchor": 5}, {"rrule": "FREQ=DAILY"}]
    assert stub.asked[0].document == {"spec": wanted, "task": {"target": {"url": URL}}}
    said = "At 09:00, only on Monday; and every 2 hours, counted from the Unix epoch, Europe/Berlin time."
    assert fields(result.stdout)["when"] == said
    result = ctl("schedule", "edit", ID, "--rrule", "FREQ=DAILY;BYHOUR=9")
    nothing = dict.fromkeys(("cron", "every", "anchor", "spec"))
    assert stub.asked[1].document == {"rrule": "FREQ=DAILY;BYHOUR=9", **nothing}
    assert fields(result.stdout)["when"] == "Every day at 09:00, Europe/Berlin time."


@pytest.mark.parametrize(
    ("flags", "method", "path", "sent"),
    [
        ((), "POST", "/v1/schedules", b'{"cron": "@daily", "x": 1.00}\n'),
        (("--key", "k"), "POST", "/v1/schedules", b'{"cron":"@daily","x":1.00,"key":"k"}'),
        (("--key", "k", "--replace"), "PUT", "/v1/schedules/key:k", b'{"cron": "@daily", "x": 1.00}\n'),
    ],
)
def test_add_from_a_file(ctl: Ctl, stub: ApiStub, flags: tuple[str, ...], method: str, path: str, sent: bytes) -> None:
    stub.tell(schedule())
    result = ctl("schedule", "add", "--file", "-", *flags, stdin=b'{"cron": "@daily", "x": 1.00}\n')
    assert result.exit_code == 0, result.stderr
    assert (stub.asked[0].method, stub.asked[0].path) == (method, path)
    assert stub.asked[0].body.strip() == sent.strip()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cron", "@daily"], "Say what to call"),
        ([URL], "Say when"),
        ([URL, "--file", "-"], "flags or a file"),
        (["--file", "-", "--paused"], "flags or a file"),
        (["--file", "-", "--key", "k"], "is no schedule"),
        ([URL, "--cron", "@daily", "--replace"], "--key of what it replaces"),
        ([URL, "--every", "1h", "--replace", "--key", "k", "--idempotency-key", "i"], "leave out --idempotency-key"),
        ([URL, "--every", "1h", "--overlap", "maybe"], "is not one of"),
        ([URL, "--every", "1h", "--max-fires", "0"], "x>=1"),
        ([URL, "--every", "1h", "--body", "{"], "is no JSON"),
    ],
)
def test_add_used_wrongly(ctl: Ctl, stub: ApiStub, flags: list[str], said: str) -> None:
    result = ctl("schedule", "add", *flags, stdin="[]")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not stub.asked


def test_a_file_that_is_no_json(ctl: Ctl, stub: ApiStub) -> None:
    result = ctl("schedule", "add", "--file", "-", stdin="cron: daily")
    assert result.exit_code == 2
    assert "is no JSON" in result.stderr
    assert not stub.asked


def test_edit_changes_what_is_given(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule(), schedule())
    flags = ["--end-at", "none", "--max-fires", "none", "--note", "", "--jitter", "5s"]
    assert ctl("schedule", "edit", ID, "--every", "1h", *flags).exit_code == 0
    assert ctl("schedule", "set", ID, "--cron", "@daily").exit_code == 0
    assert [(asked.method, asked.path) for asked in stub.asked] == [("PATCH", f"/v1/schedules/{ID}")] * 2
    nothing = dict.fromkeys(("end_at", "max_fires", "note", "cron", "rrule", "spec"))
    assert stub.asked[0].document == {"every": "1h", "jitter": "5s", **nothing}
    assert stub.asked[1].document == {"cron": "@daily"} | dict.fromkeys(("every", "anchor", "rrule", "spec"))
    assert "if-match" not in stub.asked[0].headers


def test_edit_keeps_the_rest_of_what_is_replaced_whole(ctl: Ctl, stub: ApiStub) -> None:
    target = {"url": URL, "headers": {"X-A": "1", "X-B": "2"}, "body_text": "old", "timeout": 30.0}
    task = {"target": target, "queue": "q", "retry": {"max_attempts": 5, "initial": 10.0}}
    found = Told(200, json.dumps({**SCHEDULE, "task": task}).encode(), {"ETag": '"4"'})
    stub.tell(found, schedule())
    flags = ["--to", "https://x/", "--header", "x-a: 3", "--body", '{"n": 1.00}', "--retry-max", "2"]
    nested = ["--gap", "skip", "--catch-up-window", "none"]
    result = ctl("schedule", "edit", "key:daily", *flags, *nested)
    assert result.exit_code == 0, result.stderr
    assert [asked.method for asked in stub.asked] == ["GET", "PATCH"]
    assert stub.asked[1].headers["if-match"] == '"4"'
    assert stub.asked[1].document == {
        "dst": {"gap": "skip", "repeat": "first"},
        "catch_up": {"mode": "all", "window": None, "max": 10},
        "task": {
            "target": {"url": "https://x/", "headers": {"X-B": "2", "x-a": "3"}, "body": {"n": 1.0}, "timeout": 30.0},
            "queue": "q",
            "retry": {"max_attempts": 2, "initial": 10.0},
        },
    }


def test_edit_sends_a_body_that_was_there_as_it_was_written(ctl: Ctl, stub: ApiStub) -> None:
    raw = b'{"task": {"target": {"url": "https://x/", "body": {"n": 1.00, "big": 12345678901234567890123}}}}'
    stub.tell(Told(200, raw), schedule())
    ctl("schedule", "edit", ID, "--queue", "q")
    assert b'{"n": 1.00, "big": 12345678901234567890123}' in stub.asked[1].body


def test_edit_from_a_file(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule())
    assert ctl("schedule", "edit", ID, "--file", "-", stdin='{"paused": true}').exit_code == 0
    assert stub.asked[0].body == b'{"paused": true}'


@pytest.mark.parametrize(("flags", "said"), [((), "Say what to change"), (("--file", "-", "--every", "1h"), "a file")])
def test_edit_used_wrongly(ctl: Ctl, stub: ApiStub, flags: tuple[str, ...], said: str) -> None:
    result = ctl("schedule", "edit", ID, *flags, stdin="{}")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not stub.asked


def test_a_bare_number_is_seconds(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told(SCHEDULE, 201), told(SCHEDULE, 201))
    flags = ["--jitter", "5", "--catch-up-window", "3600"]
    assert ctl("schedule", "add", URL, "--every", "10", *flags).exit_code == 0
    assert ctl("schedule", "add", URL, "--every", "10", "--every", "1h").exit_code == 0
    said = {"every": 10, "jitter": 5, "catch_up": {"window": 3600}}
    assert stub.asked[0].document == {"task": {"target": {"url": URL}}} | said
    assert stub.asked[1].document["spec"] == [{"every": 10}, {"every": "1h"}]


def test_edit_takes_an_overlap_key_and_a_bound_of_failures_away(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule())
    result = ctl("schedule", "edit", ID, "--overlap-key", "none", "--pause-on-failures", "none")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == {"overlap_key": None, "pause_on_failures": None}
