"""Calendars as clients make and name them, and times that they leave out one by one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tasktick.access.roles import Role
from tests.api.calendar import ALL, MINUTE_MS, act, asked, change, made, outcomes, pass_ms, read
from tests.api.served import Served

CALENDARS = "/v1/calendars"
WHOLE: dict[str, Any] = {
    "timezone": "Europe/Berlin",
    "dates": ["2026-12-25", {"from": "2026-12-30", "to": "2027-01-02"}],
    "ranges": [
        {"from": "2026-03-01T22:00:00+01:00", "to": "2026-03-02T04:00:00+01:00", "summary": "moving"},
        {"from": "2026-01-05T22:00:00", "to": "2026-01-06T02:00:00", "rrule": "FREQ=WEEKLY;BYDAY=MO"}
        | {"except": ["2026-01-12T22:00:00"], "timezone": "America/New_York"},
    ],
    "weekly": [{"days": "MON-FRI", "from": "18:00", "to": "08:00"}, {"days": "sat,sun"}],
    "note": "why",
}
FILE = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Christmas\r\nDTSTART;VALUE=DATE:20261225\r\nEND:VEVENT\r\n"
    "BEGIN:VEVENT\r\nSUMMARY:Odd\r\nDTSTART;TZID=Here:20261225T000000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat()


async def always(served: Served, name: str = "always") -> None:
    """A calendar that holds every time."""
    answer = await served.ask("PUT", f"{CALENDARS}/{name}", {"weekly": [{"days": "MON-SUN"}]})
    assert answer.status == 201, answer.raw


async def test_what_is_put_is_shown_and_can_be_put_again(served: Served) -> None:
    answer = await served.ask("PUT", f"{CALENDARS}/office", WHOLE)

    shown = answer.json
    assert (answer.status, answer.headers["ETag"], answer.headers["Location"]) == (201, '"1"', f"{CALENDARS}/office")
    assert (shown["timezone"], shown["dates"], shown["note"]) == (WHOLE["timezone"], WHOLE["dates"], "why")
    assert shown["weekly"] == [
        {"days": "MON,TUE,WED,THU,FRI", "from": "18:00", "to": "08:00"},
        {"days": "SAT,SUN", "from": "00:00", "to": "00:00"},
    ]
    assert shown["ranges"][0]["from"] == "2026-03-01T21:00:00.000Z"
    assert shown["ranges"][1] == WHOLE["ranges"][1] | {"summary": None}
    fields = {name: shown[name] for name in WHOLE}
    again = await served.ask("PUT", f"{CALENDARS}/office", fields)
    assert (again.status, again.json) == (200, shown), "the same again changes nothing"
    other = await served.ask("PUT", f"{CALENDARS}/office", {"note": "x"}, headers={"If-Match": '"1"'})
    assert (other.status, other.json["version"], other.json["dates"]) == (200, 2, [])
    late = await served.ask("PUT", f"{CALENDARS}/office", {}, headers={"If-Match": '"1"'})
    assert (late.status, late.code) == (412, "version_mismatch")
    assert (await served.ask("GET", f"{CALENDARS}/office")).json == other.json


async def test_an_icalendar_file_is_taken_and_what_is_not_is_told(served: Served) -> None:
    headers = {"Content-Type": "text/calendar; charset=utf-8"}
    answer = await served.ask("PUT", f"{CALENDARS}/holidays", raw=FILE.encode(), headers=headers)

    assert (answer.status, answer.json["dates"]) == (201, ["2026-12-25"])
    assert [one["event"] for one in answer.json["left_out"]] == ["Odd"]
    assert (await served.ask("GET", f"{CALENDARS}/holidays")).json["left_out"] == []
    for raw, status in ((b"\xff\xfe", 400), (b"hello", 422), (b"BEGIN:VCALENDAR\nX:\0\nEND:VCALENDAR", 422)):
        assert (await served.ask("PUT", f"{CALENDARS}/bad", raw=raw, headers=headers)).status == status


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"timezone": "Mars"}, {"/timezone"}),
        ({"dates": ["soon"]}, {"/dates/0"}),
        ({"dates": [{"from": "2026-02-30", "to": "2026-01-01"}]}, {"/dates/0/from"}),
        ({"dates": [{"from": "2026-02-03", "to": "2026-01-01"}]}, {"/dates/0/to"}),
        ({"dates": ["2026-01-01"] * 2_001}, {"/dates"}),
        ({"ranges": [{"from": 10, "to": 5}]}, {"/ranges/0/to"}),
        ({"ranges": [{"from": 10, "to": "2026-01-01T00:00:00"}]}, {"/ranges/0"}),
        ({"ranges": [{"from": 10, "to": 50, "timezone": "Europe/Berlin"}]}, {"/ranges/0/timezone"}),
        ({"ranges": [{"from": 10, "to": 50, "rrule": "FREQ=MINUTELY"}]}, {"/ranges/0/rrule"}),
        ({"ranges": [{"from": 10, "to": 50, "rrule": "FREQ=DAILY"}] * 51}, {"/ranges"}),
        ({"weekly": [{"days": "MO"}]}, {"/weekly/0/days"}),
        ({"weekly": [{"days": "MON", "from": "8:00", "to": "25:00"}]}, {"/weekly/0/from", "/weekly/0/to"}),
        ({"days": []}, {"/days"}),
    ],
)
async def test_what_is_wrong_is_named(served: Served, body: dict[str, Any], pointers: set[str]) -> None:
    answer = await served.ask("PUT", f"{CALENDARS}/x", body)
    assert (answer.status, answer.pointers) == (422, pointers)
    assert (await served.ask("PUT", f"{CALENDARS}/a%20b", {})).pointers == {"/name"}


async def test_they_are_listed_by_name_and_each_tenant_has_its_own(served: Served) -> None:
    for name in ("b", "c", "a"):
        await always(served, name)
    page = (await served.ask("GET", f"{CALENDARS}?limit=2")).json
    assert [one["name"] for one in page["data"]] == ["a", "b"]
    rest = (await served.ask("GET", f"{CALENDARS}?limit=2&cursor={page['next_cursor']}")).json
    assert ([one["name"] for one in rest["data"]], rest["next_cursor"]) == (["c"], None)
    key = await served.add_key(Role.MANAGER, "other")
    assert (await served.ask("GET", CALENDARS, key=key)).json["data"] == []
    assert (await served.ask("GET", f"{CALENDARS}/a", key=key)).code == "not_found"
    assert (await served.ask("DELETE", f"{CALENDARS}/a", key=key)).code == "not_found"
    assert (await served.ask("POST", ALL, asked(calendars=["a"]), key=key)).pointers == {"/calendars"}


async def test_a_schedule_that_names_one_does_not_fire_in_its_times(served: Served) -> None:
    await always(served)
    schedule = await made(served, calendars=["always"], overlap="allow")
    assert schedule["calendars"] == ["always"]
    coming = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=2")).json
    assert {(one["skipped"], one["note"]) for one in coming["fires"]} == {
        ("calendar:always", "Skipped: calendar:always.")
    }
    assert "all_skipped" in {one["code"] for one in coming["warnings"]}
    await pass_ms(served, MINUTE_MS)
    assert (await served.ask("PUT", f"{CALENDARS}/always", {})).status == 200
    await pass_ms(served, MINUTE_MS)
    only = {"name": "always", "mode": "include"}
    assert (await change(served, schedule, calendars=[only]))["calendars"] == [only]
    await pass_ms(served, MINUTE_MS)
    assert (await change(served, schedule, calendars=None))["calendars"] == []
    await pass_ms(served, MINUTE_MS)

    held = "skipped(calendar:always)"
    assert await outcomes(served, schedule) == [held, "run", held, "run"]
    assert (await read(served, schedule))["counts"] == {"fired": 2, "skipped": 2, "missed": 0, "failed": 0}


async def test_one_that_is_named_stays(served: Served) -> None:
    await always(served)
    schedule = await made(served, calendars=["always"])
    refused = await served.ask("DELETE", f"{CALENDARS}/always")
    assert (refused.status, refused.code) == (409, "state_conflict")
    assert schedule["id"] in refused.json["detail"]
    assert (await served.ask("GET", f"{CALENDARS}/always")).status == 200
    await change(served, schedule, calendars=[])
    assert (await served.ask("DELETE", f"{CALENDARS}/always")).status == 204
    for body in ({"calendars": ["always"]}, {"calendars": [{"name": "always", "mode": "include"}]}):
        gone = await served.ask("PATCH", f"{ALL}/{schedule['id']}", body)
        assert (gone.status, gone.pointers) == (422, {"/calendars"})
        tried = await served.ask("POST", f"{ALL}/preview", {"every": "1h", **body})
        assert (tried.status, tried.pointers) == (422, {"/calendars"})
    twice = await served.ask("POST", ALL, asked(calendars=["a", "a"]))
    assert (twice.status, twice.pointers) == (422, {"/calendars"})


async def test_a_preview_tells_what_will_be_skipped(served: Served) -> None:
    await served.ask("PUT", f"{CALENDARS}/x", {"dates": ["2026-12-25"]})
    body = {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "calendars": ["x"], "max_fires": 2}
    answer = await served.ask("POST", f"{ALL}/preview?count=5&from=2026-12-24T00:00:00Z", body)
    assert [(one["nominal"][8:10], one["skipped"]) for one in answer.json["fires"]] == [
        ("24", None),
        ("25", "calendar:x"),
        ("26", None),
    ]


async def test_a_time_is_left_out_and_let_in_again(served: Served) -> None:
    schedule = await made(served, overlap="allow")
    coming = [one["nominal"] for one in (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming")).json["fires"]]
    for nominal in coming[:3]:
        assert (await act(served, schedule, "skip", {"at": nominal})).status == 200
    again = await act(served, schedule, "skip", {"at": coming[0]})
    assert (again.status, again.json["skips"]) == (200, coming[:3])
    let_in = await act(served, schedule, "unskip", {"at": coming[1]})
    assert (let_in.status, let_in.json["skips"], let_in.json["version"]) == (200, [coming[0], coming[2]], 5)
    told = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=3")).json["fires"]
    assert [one["skipped"] for one in told] == ["skipped_by_request", None, "skipped_by_request"]
    assert (await change(served, schedule, name="n"))["skips"] == [coming[0], coming[2]]
    for _ in range(4):
        await pass_ms(served, MINUTE_MS)

    asked_for = "skipped(skipped_by_request)"
    assert await outcomes(served, schedule) == [asked_for, "run", asked_for, "run"]
    assert (await read(served, schedule))["skips"] == []
    for word in ("skip", "unskip"):
        late = await act(served, schedule, word, {"at": coming[0]})
        assert (late.status, late.code) == (409, "state_conflict")
    none = await act(served, schedule, "skip", {"at": at(served.world.now + 90_500)})
    assert (none.status, none.pointers) == (422, {"/at"})
    assert (await act(served, schedule, "skip", {})).pointers == {"/at"}
    assert (await act(served, schedule, "skip", {"at": "soon"})).pointers == {"/at"}


async def test_an_edit_takes_times_with_it_that_there_are_no_more(served: Served) -> None:
    schedule = await made(served)
    coming = [one["nominal"] for one in (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming")).json["fires"]]
    for nominal in coming[:2]:
        await act(served, schedule, "skip", {"at": nominal})
    after = await change(served, schedule, every="2m")
    assert len(after["skips"]) == 1
    assert after["skips"][0] in coming[:2]


async def test_a_calendar_can_be_tried(served: Served) -> None:
    content = {"weekly": [{"days": "MON-FRI", "from": "18:00", "to": "08:00"}]}
    tried = await served.ask("PUT", "/v1/calendars/nights?dry_run=true", content)
    assert (tried.status, tried.json["weekly"][0]["days"]) == (200, "MON,TUE,WED,THU,FRI")
    assert (await served.ask("GET", "/v1/calendars/nights")).status == 404
    assert (await served.ask("PUT", "/v1/calendars/nights?dry=1", content)).status == 422


async def test_there_are_so_many_calendars_of_a_tenant(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasktick.store.calendars.CALENDARS_MAX", 2)
    for name in ("a", "b"):
        await always(served, name)
    refused = await served.ask("PUT", f"{CALENDARS}/c", {})
    assert (refused.status, refused.code) == (409, "state_conflict")
    assert (await served.ask("PUT", f"{CALENDARS}/a", {"note": "one that is there"})).status == 200
    assert (await served.ask("DELETE", f"{CALENDARS}/b")).status == 204
    assert (await served.ask("PUT", f"{CALENDARS}/c", {})).status == 201


async def test_what_is_held_before_a_preview_begins_does_not_count_against_the_most(served: Served) -> None:
    await served.ask("PUT", f"{CALENDARS}/weekend", {"weekly": [{"days": "SAT,SUN"}]})
    schedule = await made(served, every=None, cron="0 9 * * *", max_fires=7, calendars=["weekend"])
    whole = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=50")).json["fires"]
    assert sum(one["skipped"] is None for one in whole) == 7
    assert len(whole) > 7

    for place, one in enumerate(whole):
        since = f"{one['nominal'][:10]}T00:00:00Z"
        later = await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=50&from={since}")
        assert later.json["fires"] == whole[place:]
