"""`ctl schedule`: what it asks for, and what it prints."""

import re

import pytest

from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl
from tests.unit.ctl.schedules import DATE, FIRE, ID, LEDGER, SCHEDULE, TASK_ID, URL, fields, page, schedule


def test_list(ctl: Ctl, stub: ApiStub) -> None:
    idle = {**SCHEDULE, "key": None, "paused": True, "next_fire_at": None, "last_fire_at": None}
    ended = {**SCHEDULE, "key": "over", "next_fire_at": None, "ended": True, "cron": "of tomorrow"}
    idle |= {"counts": {"fired": 0, "skipped": 0, "missed": 0, "failed": 0}, "cron": None, "every": 5_400.0}
    stub.tell(page(SCHEDULE, idle, ended, cursor="abc"))
    flags = "--name n --tag a=b --q x --paused --order asc --limit 2 --cursor c"
    result = ctl("schedule", "list", *flags.split())
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/schedules?name=n&tag=a:b&q=x&paused=true&order=asc&limit=2&cursor=c"
    head, *rows = [re.split("  +", line) for line in result.stdout.splitlines()]
    assert head == ["SCHEDULE", "STATE", "NEXT_FIRE", "IN", "LAST_FIRE", "SO_FAR", "ZONE", "WHEN"]
    assert rows[0] == [
        *("key:daily", "active", "2026-02-10T08:00:00.000Z", "in 90 min", "2026-02-09T08:00:00.000Z"),
        *("1,204 fired, 3 missed, 1 failed", "Europe/Berlin", "At 09:00, Monday through Friday"),
    ]
    assert rows[1] == [ID, "paused", "-", "-", "-", "-", "Europe/Berlin", "Every 1 hour and 30 minutes"]
    assert (rows[2][:2], rows[2][-1]) == (["key:over", "ended"], "of tomorrow")
    assert "--cursor abc" in result.stderr


@pytest.mark.parametrize(
    ("flags", "said"), [((), "Make one: tasktick ctl schedule add"), (("--not-paused",), "No schedule matches")]
)
def test_an_empty_list_says_what_to_do(ctl: Ctl, stub: ApiStub, flags: tuple[str, ...], said: str) -> None:
    stub.tell(page())
    result = ctl("schedule", "list", *flags)
    assert (result.exit_code, result.stdout) == (0, "")
    assert said in result.stderr


def test_show_says_all_of_it_in_words(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule(), told({"fires": [FIRE]}, Date=DATE), page(LEDGER[0]))
    result = ctl("schedule", "show", "key:daily")
    assert result.exit_code == 0, result.stderr
    assert [asked.path for asked in stub.asked] == [
        "/v1/schedules/key:daily",
        "/v1/schedules/key:daily/upcoming?count=5",
        "/v1/schedules/key:daily/fires?limit=5",
    ]
    shown = fields(result.stdout)
    assert shown["state"] == "active"
    assert shown["when"] == "At 09:00, Monday through Friday, Europe/Berlin time."
    assert shown["clock changes"].startswith("a time that a day does not have runs at the first instant after it;")
    assert shown["last"] == "2026-02-09T08:00:00.000Z, 22 h 30 min ago"
    assert shown["so far"] == "1,204 fired, 0 skipped, 3 missed, 1 failed"
    assert shown["overlap"].startswith("skip: a fire is left out")
    assert shown["catch up"].endswith("what is older than 6 h is missed; at most 10")
    assert shown["jitter"] == "each fire starts up to 10 min later"
    assert shown["at most"] == "2,000 runs"
    assert shown["tags.team"] == "billing"
    assert shown["task.target.url"] == URL
    assert "2026-02-10T09:00:00+01:00" in result.stdout
    assert "in 94 min" in result.stdout, "until it really starts"
    assert TASK_ID in result.stdout


def test_show_of_what_is_paused_or_over(ctl: Ctl, stub: ApiStub) -> None:
    until = "2026-02-12T08:30:00.000Z"
    for more in ({"paused": True}, {"paused": True, "paused_until": until}, {"ended": True}):
        stub.tell(schedule(next_fire_at=None, **more), told({"fires": []}), page())
    results = [ctl("schedule", "show", ID) for _ in range(3)]
    assert [fields(result.stdout)["state"] for result in results] == [
        "paused until it is resumed",
        f"paused until {until}, in 2 d 2 h",
        "ended: nothing is to come",
    ]
    assert "Nothing is to come." in results[0].stderr


def test_show_as_json_is_what_the_api_said(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(200, b'{"id":"sch_1","n":1.00}'))
    assert ctl("schedule", "show", "sch_1", "-o", "json").stdout == '{"id":"sch_1","n":1.00}\n'
    assert len(stub.asked) == 1


@pytest.mark.parametrize("word", ["upcoming", "next"])
def test_upcoming(ctl: Ctl, stub: ApiStub, word: str) -> None:
    prompt = {**FIRE, "effective": FIRE["nominal"], "note": "gap"}
    stub.tell(told({"fires": [prompt]}, Date=DATE), told({"fires": [FIRE]}, Date=DATE))
    results = [ctl("schedule", word, "key:daily", "--count", "3") for _ in range(2)]
    assert stub.asked[0].path == "/v1/schedules/key:daily/upcoming?count=3"
    assert results[0].stdout.splitlines()[0].split() == ["NOMINAL", "LOCAL", "IN", "NOTE"]
    assert results[0].stdout.splitlines()[1].endswith("in 90 min  gap")
    assert results[1].stdout.splitlines()[0].split() == ["NOMINAL", "LOCAL", "EFFECTIVE", "IN", "NOTE"]


def test_upcoming_after_an_instant(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"fires": [FIRE]}, Date=DATE))
    ctl("schedule", "upcoming", "key:daily", "--from", "2027-01-01T00:00:00+01:00")
    assert stub.asked[0].path == "/v1/schedules/key:daily/upcoming?count=10&from=2027-01-01T00:00:00%2B01:00"


def test_preview(ctl: Ctl, stub: ApiStub) -> None:
    warning = {"code": "midnight", "detail": "Many run then."}
    stub.tell(told({"fires": [FIRE], "description": "At 09:00", "warnings": [warning]}))
    result = ctl("schedule", "preview", "--cron", "0 9 * * *", "--timezone", "Europe/Berlin", "--repeat", "both")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/schedules/preview?count=10"
    assert stub.asked[0].document == {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "dst": {"repeat": "both"}}
    assert "2026-02-10T09:00:00+01:00" in result.stdout
    assert "At 09:00" in result.stderr
    assert "Mind: Many run then. (midnight)" in result.stderr


def test_a_preview_takes_all_that_moves_times(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"fires": [FIRE], "description": "Each hour", "warnings": []}))
    flags = "--every 1h --jitter 5m --calendar nights --calendar only:days --max-fires 3 --start-at 1780000000"
    result = ctl("schedule", "preview", *flags.split())
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == {
        "every": "1h",
        "start_at": 1780000000,
        "max_fires": 3,
        "calendars": ["nights", {"name": "days", "mode": "include"}],
        "jitter": "5m",
    }


def test_pause_and_resume(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(schedule(paused=True, next_fire_at=None), refused(404, "not_found", "There is none."), schedule())
    result = ctl("schedule", "pause", ID, "daily", "--until", "1780000000", "--note", "moving")
    assert result.exit_code == 1
    assert [asked.path for asked in stub.asked] == [f"/v1/schedules/{ID}/pause", "/v1/schedules/daily/pause"]
    assert stub.asked[0].document == {"until": 1_780_000_000, "note": "moving"}
    assert result.stdout.splitlines()[1].split()[:3] == [ID, "paused", "-"]
    assert "Did you mean key:daily?" in result.stderr
    result = ctl("schedule", "resume", ID)
    assert stub.asked[2].body == b""
    assert re.search(rf"^{ID}  active .*in 90 min  daily$", result.stdout, re.MULTILINE)
    assert len({asked.headers["idempotency-key"] for asked in stub.asked}) == 3


def test_trigger(ctl: Ctl, stub: ApiStub) -> None:
    task = {"id": TASK_ID, "state": "succeeded", "attempt": 1}
    stub.tell(told(task, 201), told({**task, "state": "dead"}, 201))
    result = ctl("schedule", "trigger", "key:daily")
    assert TASK_ID in result.stdout
    assert (stub.asked[0].path, stub.asked[0].body) == ("/v1/schedules/key:daily/trigger", b"")
    result = ctl("schedule", "trigger", ID, "--to", "https://x/", "--body", "[1]", "--wait")
    assert result.exit_code == 1, "it did not succeed"
    assert stub.asked[1].document == {"target": {"url": "https://x/", "body": [1]}}


def test_trigger_with_more_in_place_of_what_it_has(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"id": TASK_ID, "state": "ready"}, 201))
    flags = "--queue urgent --priority 0 --as now --tag by=hand --tag n=1"
    result = ctl("schedule", "trigger", "key:daily", *flags.split())
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == {
        "queue": "urgent",
        "priority": 0,
        "name": "now",
        "tags": {"by": "hand", "n": "1"},
    }


def test_fires(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(page(*LEDGER), page(), page())
    flags = "--outcome missed --outcome skipped --from 2026-01-01T00:00:00Z --to 1780000000 --limit 3"
    result = ctl("schedule", "fires", "key:daily", *flags.split())
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == (
        "/v1/schedules/key:daily/fires?outcome=missed&outcome=skipped&from=2026-01-01T00:00:00Z&to=1780000000&limit=3"
    )
    rows = [re.split("  +", line) for line in result.stdout.splitlines()[1:]]
    assert rows[0][:2] == ["2026-02-09T08:00:00.000Z", "run"]
    assert rows[0][-1] == "stands for 2 missed"
    assert rows[1][2] == "overlap"
    assert rows[2][-1] == "1,234 times from 2026-01-01T08:00:00.000Z to 2026-02-01T08:00:00.000Z"
    assert "None of its times has come yet" in ctl("schedule", "fires", "key:daily").stderr
    assert "No time matches" in ctl("schedule", "fires", "key:daily", "--outcome", "run").stderr


def test_delete(ctl: Ctl, stub: ApiStub) -> None:
    assert "say --yes" in ctl("schedule", "delete", ID).stderr
    assert not stub.asked
    stub.tell(Told(204), refused(409, "state_conflict", "It is busy."))
    result = ctl("schedule", "delete", ID, "key:b", "--yes")
    assert result.exit_code == 1
    assert [(asked.method, asked.path) for asked in stub.asked] == [
        ("DELETE", f"/v1/schedules/{ID}"),
        ("DELETE", "/v1/schedules/key:b"),
    ]
    assert "Removed 1 of 2." in result.stderr


@pytest.mark.parametrize(
    ("noun", "name", "said"),
    [
        ("schedule", TASK_ID, f"That is a task: tasktick ctl task show {TASK_ID}"),
        ("task", ID, f"That is a schedule: tasktick ctl schedule show {ID}"),
        ("schedule", ID, "here. (not_found)"),
        ("dlq", "x", "here. (not_found)"),
    ],
)
def test_an_id_of_another_kind_says_so(ctl: Ctl, stub: ApiStub, noun: str, name: str, said: str) -> None:
    stub.tell(refused(404, "not_found", "There is none here."))
    assert said in ctl(noun, "show", name).stderr


HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202etxt.exe\u202c a\nb"


def test_nothing_of_a_server_reaches_the_terminal_raw(ctl: Ctl, stub: ApiStub) -> None:
    names = (
        "key",
        "name",
        "note",
        "description",
        "timezone",
        "next_fire_at",
        "last_fire_at",
        "overlap",
        "paused_until",
    )
    hostile = {**SCHEDULE, **dict.fromkeys(names, HOSTILE), "paused": True, "catch_up": {"mode": HOSTILE}}
    row = {**dict.fromkeys(("nominal", "outcome", "reason", "from", "to"), HOSTILE), "count": 2}
    fire = told({"fires": [dict.fromkeys(FIRE, HOSTILE)], "description": HOSTILE, "warnings": [{"detail": HOSTILE}]})
    stub.tell(page(hostile, cursor=HOSTILE), told(hostile), fire, page(row), page(row), fire, told(hostile))
    results = [ctl("schedule", "list"), ctl("schedule", "show", ID), ctl("schedule", "fires", ID)]
    results += [ctl("schedule", "preview", "--every", "1h"), ctl("schedule", "resume", ID)]
    for result in results:
        assert result.exit_code == 0, result.stderr
        text = result.stdout + result.stderr
        assert "red" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_show_says_what_it_shares_and_how_often_it_failed(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(
        schedule(
            overlap="cancel_other",
            overlap_key="warehouse",
            pause_on_failures=5,
            consecutive_failures=5,
            paused=True,
            pause_reason="failures",
        )
    )
    shown = fields(ctl("schedule", "show", ID).stdout)
    assert shown["overlap"].startswith("cancel_other: ")
    assert shown["overlap with"] == "all schedules of the overlap key warehouse"
    assert shown["failures"] == "the last 5 gave up; after 5 in a row it is paused"
    assert shown["state"] == "paused by its failures until it is resumed"


def test_a_preview_of_no_rule_says_what_a_rule_is_here(ctl: Ctl, stub: ApiStub) -> None:
    result = ctl("schedule", "preview", "--timezone", "Europe/Berlin")
    assert (result.exit_code, stub.asked) == (2, [])
    assert "Say when: with --cron, --every or --rrule" in result.stderr
