"""What a schedule would come to, before there is one."""

from typing import Any

import pytest

from tasktick.api.schedule_answers import ScheduleDefinition
from tasktick.api.schedule_schemas import ScheduleRequest
from tests.api.calendar import ALL, made
from tests.api.served import Served

PATH = "/v1/schedules/preview"
SUMMER_ENDS = "2026-10-24T12:00:00Z"


async def test_the_next_fires_with_their_local_time(served: Served) -> None:
    answer = await served.ask(
        "POST", f"{PATH}?count=3&from={SUMMER_ENDS}", {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
    )

    assert answer.status == 200
    assert [(fire["nominal"], fire["local"]) for fire in answer.json["fires"]] == [
        ("2026-10-25T08:00:00.000Z", "2026-10-25T09:00:00+01:00"),
        ("2026-10-26T08:00:00.000Z", "2026-10-26T09:00:00+01:00"),
        ("2026-10-27T08:00:00.000Z", "2026-10-27T09:00:00+01:00"),
    ]
    assert "09:00" in answer.json["description"]
    assert all(fire["effective"] == fire["nominal"] for fire in answer.json["fires"])


async def test_a_repeated_hour_by_choice(served: Served) -> None:
    body: dict[str, Any] = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    nominals = {}
    for repeat in ("first", "second", "both"):
        answer = await served.ask("POST", f"{PATH}?count=2&from={SUMMER_ENDS}", body | {"dst": {"repeat": repeat}})
        nominals[repeat] = [fire["nominal"][:16] for fire in answer.json["fires"]]
        assert "dst_repeat" in {warning["code"] for warning in answer.json["warnings"]}

    assert nominals == {
        "first": ["2026-10-25T00:30", "2026-10-26T01:30"],
        "second": ["2026-10-25T01:30", "2026-10-26T01:30"],
        "both": ["2026-10-25T00:30", "2026-10-25T01:30"],
    }


async def test_an_interval_within_its_limits(served: Served) -> None:
    body = {
        "every": "90m",
        "anchor": "2026-01-01T00:10:00Z",
        "start_at": "2026-01-01T03:10:00Z",
        "end_at": "2026-01-01T07:00:00Z",
        "max_fires": 2,
    }
    answer = await served.ask("POST", f"{PATH}?count=10&from=2026-01-01T00:00:00Z", body)
    unbounded = await served.ask("POST", f"{PATH}?from=2026-01-01T00:00:00Z", body | {"max_fires": None})

    assert [fire["nominal"][11:16] for fire in answer.json["fires"]] == ["03:10", "04:40"]
    assert [fire["nominal"][11:16] for fire in unbounded.json["fires"]] == ["03:10", "04:40", "06:10"]


@pytest.mark.parametrize(
    ("query", "body", "code", "pointers"),
    [
        ("", {}, "validation_failed", {"/cron"}),
        ("", {"cron": "* * * * *", "every": "1h"}, "validation_failed", {"/cron"}),
        ("", {"cron": "61 * * * *"}, "validation_failed", {"/cron"}),
        ("", {"cron": "0 0 31 2 *"}, "cron_never_fires", {"/cron"}),
        ("", {"cron": "0 0 * * *", "timezone": "Mars/Olympus"}, "validation_failed", {"/timezone"}),
        ("", {"cron": "0 0 * * *", "jitter": "31d"}, "validation_failed", {"/jitter"}),
        ("", {"cron": "0 0 * * *", "task": {}}, "validation_failed", {"/task/target"}),
        ("", {"cron": "0 0 * * *", "spec": [{"every": "1h"}]}, "validation_failed", {"/spec"}),
        ("", {"spec": []}, "validation_failed", {"/spec"}),
        ("", {"spec": [{"every": "1h", "cron": "0 0 * * *"}]}, "validation_failed", {"/spec/0"}),
        (
            "",
            {"spec": [{"every": "never"}, {"rrule": "FREQ=X"}]},
            "validation_failed",
            {"/spec/0/every", "/spec/1/rrule"},
        ),
        ("", {"spec": [{"every": "1h", "timezone": "UTC"}]}, "validation_failed", {"/spec/0/timezone"}),
        ("", {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "cron_never_fires", {"/rrule"}),
        ("", {"rrule": "FREQ=DAILY", "cron": "0 0 * * *"}, "validation_failed", {"/cron"}),
        ("", {"every": "nonsense"}, "validation_failed", {"/every"}),
        ("?count=0", {"every": "1h"}, "validation_failed", {"?count"}),
        ("?count=1001", {"every": "1h"}, "validation_failed", {"?count"}),
        ("?from=yesterday", {"every": "1h"}, "validation_failed", {"?from"}),
        ("?to=now", {"every": "1h"}, "validation_failed", {"?to"}),
        ("", {"every": "1h", "start_at": 20, "end_at": 10}, "validation_failed", {"/end_at"}),
    ],
)
async def test_what_is_wrong_is_named(
    served: Served, query: str, body: dict[str, Any], code: str, pointers: set[str]
) -> None:
    answer = await served.ask("POST", PATH + query, body)

    assert (answer.status, answer.code, answer.pointers) == (422, code, pointers)


async def test_several_rules_are_told_together(served: Served) -> None:
    spec = [{"cron": "0 9 * * *"}, {"every": "90m"}, {"rrule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"}]
    answer = await served.ask(
        "POST", f"{PATH}?count=4&from=2026-03-29T00:00:00Z", {"spec": spec, "timezone": "Europe/Berlin"}
    )

    assert answer.status == 200
    assert [(fire["nominal"][11:16], fire["collapsed"]) for fire in answer.json["fires"]] == [
        ("01:00", 1),  # 02:30 does not exist on this day
        ("01:30", 1),
        ("03:00", 1),
        ("04:30", 1),
    ]
    assert answer.json["description"] == (
        "At 09:00; and every 1 hour and 30 minutes, counted from the Unix epoch; and every day at 02:30, "
        "Europe/Berlin time."
    )
    assert {(one["code"], one["detail"][:7]) for one in answer.json["warnings"]} == {
        ("dst_gap", "Rule 3:"),
        ("dst_repeat", "Rule 3:"),
    }


async def test_a_preview_shows_a_whole_schedule_as_it_would_stand(served: Served) -> None:
    target = {"url": "https://app.example/x", "headers": {"Authorization": "Bearer secret-of-mine"}, "body": {"n": 1}}
    asked = {"key": "k", "every": "90s", "jitter": "1s", "tags": {"a": "b"}, "task": {"target": target, "sla": "2m"}}
    tried = (await served.ask("POST", PATH, asked)).json["schedule"]
    made = (await served.ask("POST", "/v1/schedules", asked)).json
    assert tried == {name: made[name] for name in tried}
    assert tried.keys() == set(ScheduleDefinition.__struct_fields__)
    assert (tried["every"], tried["task"]["sla"]) == (90, 120)
    assert "secret-of" not in str(tried)
    assert (await served.ask("POST", PATH, {"every": "90s"})).json["schedule"] is None


def test_a_definition_is_all_that_a_request_may_say() -> None:
    assert set(ScheduleRequest.__struct_fields__) == set(ScheduleDefinition.__struct_fields__)


@pytest.mark.parametrize(("overlap", "is_told"), [("skip", True), ("allow", False), ("buffer_all", False)])
async def test_catching_up_with_all_that_overlap_lets_one_of_is_odd(
    served: Served, overlap: str, is_told: bool
) -> None:
    timing = {"every": "1h", "overlap": overlap, "catch_up": {"mode": "all"}}
    schedule = await made(served, **timing)
    tried = (await served.ask("POST", f"{ALL}/preview", timing)).json
    coming = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming")).json
    for shown in (tried, coming):
        assert ("catch_up_overlap" in {one["code"] for one in shown["warnings"]}) == is_told
