"""What a schedule did, does or will do at an instant."""

from typing import Any, get_args

from tasktick.api.insight_answers import ScheduleCode
from tests.api.calendar import ALL, MINUTE_MS, act, change, fire, ledger, made, next_task, pass_ms, read
from tests.api.served import Served

# The world begins at 2027-01-15T08:00:00Z.
TODAY = "2027-01-15"


async def explained(served: Served, schedule: dict[str, Any], at: str) -> dict[str, Any]:
    """The answer, each code of which is described."""
    answer = await served.ask("GET", f"{ALL}/{schedule['id']}/explain?at={at}")
    assert answer.status == 200, answer.raw
    assert {one["code"] for one in answer.json["steps"]} <= set(get_args(ScheduleCode))
    return dict(answer.json)


def codes(document: dict[str, Any]) -> list[str]:
    return [one["code"] for one in document["steps"]]


def said(document: dict[str, Any]) -> str:
    return " ".join(one["detail"] for one in document["steps"])


async def test_which_field_says_no(served: Served) -> None:
    schedule = await made(served, every=None, cron="30 9 * * MON-FRI", timezone="Europe/Berlin")

    found = await explained(served, schedule, "2027-01-16T09:15:30Z")

    assert (found["nominal"], codes(found)) == (
        False,
        ["hour_differs", "minute_differs", "day_differs", "second_differs"],
    )
    assert "The hour is 10 in Europe/Berlin, and the hour field is `9`." in said(found)
    assert "Saturday, 16 January" in said(found)
    assert found["local"] == "2027-01-16T10:15:30+01:00"
    assert (found["before"]["nominal"], found["after"]["nominal"]) == (
        "2027-01-15T08:30:00.000Z",
        "2027-01-18T08:30:00.000Z",
    )
    assert found["after"]["local"] == "2027-01-18T09:30:00+01:00"
    assert found["fire"] is None


async def test_a_month_and_both_days(served: Served) -> None:
    schedule = await made(served, every=None, cron="0 9 13 6 FRI")
    assert codes(await explained(served, schedule, "2027-01-15T09:00:00Z")) == ["month_differs"]
    assert codes(await explained(served, schedule, "2027-06-12T09:00:00Z")) == ["day_differs"]
    assert (await explained(served, schedule, "2027-06-13T09:00:00Z"))["nominal"] is True


async def test_intervals_rrules_and_several_of_them(served: Served) -> None:
    every = await made(served, every="90m")
    found = await explained(served, every, f"{TODAY}T10:00:00Z")
    assert codes(found) == ["between_intervals"]
    assert "1 hour and 30 minutes" in said(found)

    rrule = await made(served, every=None, rrule="FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
    assert codes(await explained(served, rrule, f"{TODAY}T09:00:00Z")) == ["rrule_differs"]
    later = await made(served, every=None, rrule="DTSTART:20280101T090000\nRRULE:FREQ=DAILY")
    assert codes(await explained(served, later, f"{TODAY}T09:00:00Z")) == ["before_rrule_start"]

    both = await made(served, every=None, spec=[{"cron": "0 9 * * *"}, {"every": "7h"}])
    found = await explained(served, both, f"{TODAY}T11:11:00Z")
    assert codes(found) == ["hour_differs", "minute_differs", "between_intervals"]
    assert found["steps"][0]["detail"].startswith("Rule 1: ")
    assert found["steps"][2]["detail"].startswith("Rule 2: ")


async def test_the_clocks_change(served: Served) -> None:
    daily: dict[str, Any] = {"every": None, "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    runs = await made(served, **daily)
    at_gap = await explained(served, runs, "2027-03-28T01:00:00Z")
    assert (at_gap["nominal"], codes(at_gap)) == (True, ["will_run"])
    beside = await explained(served, runs, "2027-03-28T01:30:00Z")
    assert codes(beside) == ["hour_differs", "dst_gap"]
    assert "02:30 does not exist" in said(beside)
    skips = await made(served, dst={"gap": "skip"}, **daily)
    found = await explained(served, skips, "2027-03-28T01:00:00Z")
    assert (found["nominal"], codes(found)[-1]) == (False, "dst_gap")
    assert "left out" in said(found)

    first = await explained(served, runs, "2027-10-31T00:30:00Z")
    second = await explained(served, runs, "2027-10-31T01:30:00Z")
    assert (first["nominal"], second["nominal"]) == (True, False)
    assert codes(second) == ["dst_repeat"]


async def test_the_edges_of_a_schedule(served: Served) -> None:
    schedule = await made(served, start_at="2027-02-01T00:00:00Z", end_at="2027-02-02T00:00:00Z")
    before = await explained(served, schedule, f"{TODAY}T09:00:00Z")
    assert (before["nominal"], codes(before), before["before"]) == (False, ["before_start"], None)
    assert before["after"]["nominal"] == "2027-02-01T00:00:00.000Z"
    after = await explained(served, schedule, "2027-03-01T00:00:00Z")
    assert (codes(after), after["after"]) == (["after_end"], None)
    assert after["before"]["nominal"] == "2027-02-02T00:00:00.000Z"


async def test_what_is_to_come(served: Served) -> None:
    calendar = {"timezone": "UTC", "dates": ["2027-01-20"]}
    assert (await served.ask("PUT", "/v1/calendars/free", calendar)).status == 201
    schedule = await made(served, every="1h", calendars=["free"], max_fires=100)
    assert (await act(served, schedule, "skip", {"at": f"{TODAY}T12:00:00Z"})).status == 200

    ahead = await explained(served, schedule, f"{TODAY}T09:00:00Z")
    assert (ahead["nominal"], codes(ahead)) == (True, ["made_ahead", "will_run"])
    assert await next_task(served, schedule) in said(ahead)
    assert codes(await explained(served, schedule, f"{TODAY}T10:00:00Z")) == ["will_run"]
    skipped = await explained(served, schedule, f"{TODAY}T12:00:00Z")
    assert codes(skipped) == ["will_be_skipped"]
    assert "asked for this time to be left out" in said(skipped)
    holiday = await explained(served, schedule, "2027-01-20T12:00:00Z")
    assert codes(holiday) == ["will_be_skipped"]
    assert "calendar free" in said(holiday)
    assert codes(await explained(served, schedule, "2027-02-20T12:00:00Z")) == ["may_reach_max_fires", "will_run"]

    await act(served, schedule, "pause", {"until": f"{TODAY}T15:00:00Z"})
    assert codes(await explained(served, schedule, f"{TODAY}T14:00:00Z")) == ["paused"]
    assert codes(await explained(served, schedule, f"{TODAY}T16:00:00Z")) == ["will_run"]
    await act(served, schedule, "resume")
    await act(served, schedule, "pause")
    assert codes(await explained(served, schedule, f"{TODAY}T16:00:00Z")) == ["paused"]
    # Who asks why nothing happens now, asks at no time of it.
    assert codes(await explained(served, schedule, f"{TODAY}T08:30:00Z")) == ["between_intervals", "paused"]
    served.world.now += 90 * MINUTE_MS
    assert "is skipped, which is written down when it goes on" in said(
        await explained(served, schedule, f"{TODAY}T09:00:00Z")
    )


async def test_max_fires_is_reached(served: Served) -> None:
    schedule = await made(served, max_fires=2, overlap="allow")
    assert codes(await explained(served, schedule, f"{TODAY}T08:02:00Z")) == ["will_run"]
    assert codes(await explained(served, schedule, f"{TODAY}T08:03:00Z")) == ["max_fires_reached"]
    assert codes(await explained(served, schedule, "9000-01-01T00:00:00Z")) == ["may_reach_max_fires", "will_run"]
    await fire(served, schedule)
    await fire(served, schedule)
    over = await explained(served, schedule, f"{TODAY}T08:04:00Z")
    assert (over["nominal"], codes(over)) == (True, ["max_fires_reached"])


async def test_jitter_is_told(served: Served) -> None:
    schedule = await made(served, every="1h", jitter="30m")
    shown = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=2")).json["fires"][1]
    found = await explained(served, schedule, shown["nominal"])
    assert codes(found) == ["will_run"]
    assert shown["effective"] in said(found)
    assert "by its jitter" in said(found)


async def test_what_became_of_a_time(served: Served) -> None:
    schedule = await made(served)
    before = await explained(served, schedule, f"{TODAY}T07:00:00Z")
    assert (before["nominal"], codes(before)) == (True, ["before_creation"])

    await fire(served, schedule)
    [row] = await ledger(served, schedule)
    ran = await explained(served, schedule, row["nominal"])
    assert (ran["nominal"], codes(ran), ran["fire"]) == (True, ["ran", "task_state"], row)
    assert (ran["lateness"], ran["attempts"]) == (0, 1)
    assert "by node node-a under epoch" in said(ran)

    ahead = await next_task(served, schedule)
    served.world.now += MINUTE_MS
    await served.world.claim(ahead)
    found = await explained(served, schedule, f"{TODAY}T08:02:00Z")
    assert codes(found) == ["made_ahead", "undecided"]
    await pass_ms(served, MINUTE_MS)
    skipped = await explained(served, schedule, f"{TODAY}T08:03:00Z")
    assert codes(skipped) == ["skipped", "task_state"]
    assert "still on its way" in said(skipped)


async def test_a_long_stretch(served: Served) -> None:
    schedule = await made(served, every="1s", paused=True)
    served.world.now += 2_000_000
    await act(served, schedule, "resume")
    found = await explained(served, schedule, f"{TODAY}T08:00:07Z")
    assert (found["nominal"], codes(found)) == (True, ["in_stretch", "other_version"])
    assert "schedule was paused" in said(found)
    between = await explained(served, schedule, f"{TODAY}T08:00:07.500Z")
    assert (between["nominal"], codes(between)) == (False, ["between_intervals", "edited_since"])


async def test_an_edit_is_told(served: Served) -> None:
    schedule = await made(served)
    await fire(served, schedule)
    [row] = await ledger(served, schedule)
    await change(served, schedule, every="1h")

    found = await explained(served, schedule, row["nominal"])

    assert (found["nominal"], codes(found)) == (True, ["ran", "task_state", "other_version", "edited_since"])
    assert f"version {row['schedule_version']} of the schedule" in said(found)
    assert found["version"] == (await read(served, schedule))["version"]
    nothing = await explained(served, schedule, f"{TODAY}T07:30:00Z")
    assert codes(nothing) == ["between_intervals", "edited_since"]


async def test_a_schedule_that_was_deleted(served: Served) -> None:
    schedule = await made(served, key="daily")
    await fire(served, schedule)
    [row] = await ledger(served, schedule)
    assert (await served.ask("DELETE", f"{ALL}/{schedule['id']}")).status == 204

    found = await explained(served, schedule, row["nominal"])
    assert (found["nominal"], codes(found), found["version"]) == (True, ["deleted", "ran", "task_state"], None)
    assert found["fire"]["task_id"] == row["task_id"]
    nothing = await explained(served, schedule, f"{TODAY}T12:00:00Z")
    assert (nothing["nominal"], codes(nothing), nothing["local"]) == (False, ["deleted", "not_in_ledger"], None)
    there = {"TaskTick-Tenant": "acme"}
    path = f"{ALL}/{schedule['id']}/explain?at={row['nominal']}"
    assert (await served.ask("GET", path, headers=there)).status == 404
    assert (await served.ask("GET", f"{ALL}/key:daily/explain?at={row['nominal']}")).status == 404


async def test_what_cannot_be_asked(served: Served) -> None:
    schedule = await made(served)
    path = f"{ALL}/{schedule['id']}/explain"
    for query in ("?at=then", "?at=2027-01-15T09:00:00", "?at=1&at=2", "?count=3&at=1", "?at=1800-01-01T00:00:00Z"):
        assert (await served.ask("GET", path + query)).status == 422, query
    now = (await served.ask("GET", path)).json
    assert (now["at"], codes(now)) == (f"{TODAY}T08:00:00.000Z", ["before_creation"])
    assert (await served.ask("GET", f"{ALL}/key:none/explain?at=1800000000")).status == 404
    assert (await served.ask("GET", f"{ALL}/key:none/explain")).status == 404
