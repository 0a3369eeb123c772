"""Schedules as clients make and read them."""

from typing import Any

import pytest

from tasktick.model.state import State
from tests.api.calendar import ALL, MINUTE_MS, act, asked, fire, ledger, made, next_task, pass_ms, read
from tests.api.served import URL, Served, ids_of

SERVER_OWNED = (
    "id",
    "tenant",
    "version",
    "created_at",
    "next_fire_at",
    "counts",
    "ended",
    "tzdata",
    "paused_until",
    "pause_reason",
    "consecutive_failures",
)


async def test_a_schedule_is_answered_with_all_that_it_is(served: Served) -> None:
    body: dict[str, Any] = {
        "key": "daily-report",
        "name": "Daily report",
        "cron": "0 9 * * MON-FRI",
        "every": None,
        "anchor": None,
        "timezone": "Europe/Berlin",
        "dst": {"gap": "run_after", "repeat": "first"},
        "start_at": None,
        "end_at": None,
        "max_fires": None,
        "jitter": "10m",
        "overlap": "skip",
        "catch_up": {"mode": "latest", "window": "6h", "max": 10},
        "pause_on_failures": None,
        "calendars": [],
        "task": {"target": {"url": URL}, "queue": "reports", "sla": "30s", "tags": {"team": "a"}, "priority": 2},
        "workflow": None,
        "tags": {"team": "b"},
        "paused": False,
        "note": "As sales asked for.",
    }
    answer = await served.ask("POST", ALL, body)

    shown = answer.json
    assert (answer.status, answer.headers["ETag"]) == (201, '"1"')
    assert answer.headers["Location"] == f"{ALL}/{shown['id']}"
    same = {"key", "name", "cron", "every", "timezone", "dst", "overlap", "tags", "paused", "note", "calendars"}
    assert {name: shown[name] for name in same} == {name: body[name] for name in same}
    assert (shown["jitter"], shown["catch_up"]) == (600, {"mode": "latest", "window": 21_600, "max": 10})
    assert (shown["task"]["queue"], shown["task"]["sla"], shown["task"]["priority"]) == ("reports", 30, 2)
    assert (shown["task"]["target"]["url"], shown["task"]["target"]["body"]) == (URL, None)
    assert shown["next_fire_at"].endswith("T08:00:00.000Z")
    assert shown["counts"] == {"fired": 0, "skipped": 0, "missed": 0, "failed": 0}
    assert (shown["ended"], shown["clock_behind_ledger"], shown["last_fire_at"]) == (False, False, None)
    assert shown["tzdata"]
    for name in (shown["id"], "key:daily-report"):
        again = await served.ask("GET", f"{ALL}/{name}")
        assert (again.json, again.headers["ETag"]) == (shown, '"1"')


async def test_what_it_fires_is_a_task_of_it(served: Served) -> None:
    schedule = await made(served, task={"target": {"url": URL}, "name": "tick", "tags": {"a": "b"}, "sla": "9s"})
    assert await fire(served, schedule) is State.SUCCEEDED

    listed = (await served.ask("GET", f"/v1/tasks?schedule_id={schedule['id']}")).json["data"]
    assert [one["state"] for one in listed] == ["scheduled", "succeeded"]
    done = listed[1]
    assert (done["schedule_id"], done["name"], done["tags"], done["sla"]) == (schedule["id"], "tick", {"a": "b"}, 9)
    [row] = await ledger(served, schedule)
    assert (row["task_id"], row["outcome"], row["state"]) == (done["id"], "run", "succeeded")
    assert row["nominal"] == done["run_at"]
    kept = await served.ask("DELETE", f"/v1/tasks/{done['id']}")
    assert (kept.status, kept.code) == (409, "state_conflict")
    after = await read(served, schedule)
    assert (after["last_fire_at"], after["counts"]["fired"]) == (done["run_at"], 1)


async def test_a_repeated_create_counts_once(served: Served) -> None:
    headers = {"Idempotency-Key": "once"}
    first, again = [await served.ask("POST", ALL, asked(key="k"), headers=headers) for _ in range(2)]

    assert (first.status, again.status, first.json) == (201, 201, again.json)
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await served.ask("POST", ALL, asked(key="other"), headers=headers)
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert len((await served.ask("GET", ALL)).json["data"]) == 1


async def test_a_key_is_taken_as_long_as_its_schedule_is_there(served: Served) -> None:
    first = await made(served, key="k")
    taken = await served.ask("POST", ALL, asked(key="k"))
    assert (taken.status, taken.code, taken.pointers) == (409, "key_taken", {"/key"})
    assert first["id"] in taken.json["detail"]

    assert (await served.ask("DELETE", f"{ALL}/key:k")).status == 204
    assert (await served.ask("GET", f"{ALL}/key:k")).code == "not_found"
    second = await made(served, key="k")
    assert (await served.ask("GET", f"{ALL}/key:k")).json["id"] == second["id"] != first["id"]
    task = await served.create(key="k")
    assert task["key"] == "k", "a task's key is another kind"


WRONG: list[tuple[dict[str, Any], str, set[str]]] = [
    ({"task": None}, "validation_failed", {"/task"}),
    ({"every": None}, "validation_failed", {"/cron"}),
    ({"cron": "* * * * *"}, "validation_failed", {"/cron"}),
    ({"every": None, "cron": "0 0 31 2 *"}, "cron_never_fires", {"/cron"}),
    ({"every": None, "cron": "0 0 1 1 *", "end_at": "2027-12-01T00:00:00Z"}, "cron_never_fires", {"/end_at"}),
    ({"end_at": "2020-01-01T00:00:00Z"}, "validation_failed", {"/end_at"}),
    ({"every": "50ms"}, "validation_failed", {"/every"}),
    ({"every": "5"}, "validation_failed", {"/every"}),
    ({"every": "soon", "anchor": "2026-01-01T00:00:00Z"}, "validation_failed", {"/every"}),
    ({"timezone": "Mars/Olympus"}, "validation_failed", {"/timezone"}),
    ({"timezone": ""}, "validation_failed", {"/timezone"}),
    ({"jitter": "31d"}, "validation_failed", {"/jitter"}),
    ({"max_fires": 0}, "validation_failed", {"/max_fires"}),
    ({"catch_up": {"max": 101}}, "validation_failed", {"/catch_up/max"}),
    ({"catch_up": {"max": 0}}, "validation_failed", {"/catch_up/max"}),
    ({"catch_up": {"window": 0}}, "validation_failed", {"/catch_up/window"}),
    ({"catch_up": {"mode": "some"}}, "validation_failed", {"/catch_up/mode"}),
    ({"overlap": "never"}, "validation_failed", {"/overlap"}),
    ({"overlap_key": ""}, "validation_failed", {"/overlap_key"}),
    ({"overlap_key": "x" * 129}, "validation_failed", {"/overlap_key"}),
    ({"overlap_key": "a\0b"}, "validation_failed", {"/overlap_key"}),
    ({"pause_on_failures": 0}, "validation_failed", {"/pause_on_failures"}),
    ({"pause_on_failures": 1_001}, "validation_failed", {"/pause_on_failures"}),
    ({"pause_on_failures": "3"}, "validation_failed", {"/pause_on_failures"}),
    ({"note": "x" * 1_001, "name": "x" * 201}, "validation_failed", {"/note", "/name"}),
    ({"key": "no spaces"}, "validation_failed", {"/key"}),
    ({"tags": {"a:b": "c"}}, "validation_failed", {"/tags/a:b"}),
    ({"spec": [{"every": "1h"}]}, "validation_failed", {"/spec"}),
    ({"every": None, "spec": [{"every": "1h"}, {"every": "1h"}]}, "validation_failed", {"/spec/1"}),
    ({"every": None, "rrule": "DTSTART:20200101\nRRULE:FREQ=DAILY;COUNT=3"}, "cron_never_fires", {"/rrule"}),
    ({"calendars": ["de"]}, "validation_failed", {"/calendars"}),
    ({"workflow": {}}, "validation_failed", {"/workflow"}),
    ({"id": "sch_1"}, "validation_failed", {"/id"}),
    ({"paused": "yes"}, "validation_failed", {"/paused"}),
    ({"timezone": "Europe/Berlin", "start_at": "2028-03-26T02:30:00"}, "validation_failed", {"/start_at"}),
    ({"start_at": "2028-13-26T02:30:00"}, "validation_failed", {"/start_at"}),
    ({"timezone": "America/New_York", "end_at": "9999-12-31T23:00:00"}, "validation_failed", {"/end_at"}),
    ({"task": {"target": {"url": "http://127.0.0.1/"}}}, "target_forbidden", {"/task/target/url"}),
]


@pytest.mark.parametrize(("fields", "code", "pointers"), WRONG)
async def test_what_is_wrong_is_named(served: Served, fields: dict[str, Any], code: str, pointers: set[str]) -> None:
    answer = await served.ask("POST", ALL, asked(**fields))

    assert (answer.status, answer.code, answer.pointers) == (422, code, pointers), answer.raw
    assert (await served.ask("GET", ALL)).json["data"] == []


@pytest.mark.parametrize("name", SERVER_OWNED)
async def test_what_the_server_owns_is_no_field(served: Served, name: str) -> None:
    answer = await served.ask("POST", ALL, asked(**{name: 1}))
    assert (answer.status, answer.pointers) == (422, {f"/{name}"})


async def test_what_does_not_belong_in_its_task_is_refused_with_advice(served: Served) -> None:
    for name, value, advice in (
        ("key", "k", "Give the schedule a key"),
        ("run_at", 1, "The schedule says when"),
        ("delay", "1s", "The schedule says when"),
        ("jitter", "1s", "a jitter of its own"),
        ("callback", {}, "does not know how to honour"),
    ):
        answer = await served.ask("POST", ALL, asked(task={"target": {"url": URL}, name: value}))
        assert (answer.status, answer.pointers) == (422, {f"/task/{name}"})
        assert advice in answer.json["errors"][0]["detail"]


async def test_local_times_are_of_its_zone(served: Served) -> None:
    schedule = await made(
        served,
        every=None,
        cron="0 9 * * *",
        timezone="Europe/Berlin",
        start_at="2028-06-01T09:00:00",
        end_at="2028-10-29T02:30:00",
    )
    assert schedule["start_at"] == "2028-06-01T07:00:00.000Z"
    assert schedule["end_at"] == "2028-10-29T00:30:00.000Z", "the first of the two"
    assert schedule["next_fire_at"] == "2028-06-01T07:00:00.000Z"
    anchored = await made(served, every="1d", timezone="Europe/Berlin", anchor="2028-01-01T06:00:00")
    assert anchored["anchor"] == "2028-01-01T05:00:00.000Z"


async def test_lists_come_in_pages_and_by_filter(served: Served) -> None:
    first = await made(served, name="report", tags={"team": "a"}, key="alpha")
    second = await made(served, name="mail", tags={"team": "b"}, paused=True)
    third = await made(served, every=None, cron="@daily", task={"target": {"url": URL + "/special"}})

    async def found(query: str) -> list[str]:
        return ids_of((await served.ask("GET", f"{ALL}{query}")).json["data"])

    ids = [third["id"], second["id"], first["id"]]
    assert await found("") == ids
    assert await found("?order=asc") == ids[::-1]
    for query, wanted in (
        ("?name=report", first),
        ("?tag=team:b", second),
        ("?paused=true", second),
        ("?q=SPECIAL", third),
        ("?q=alph", first),
        ("?q=daily", third),
    ):
        assert await found(query) == [wanted["id"]], query
    assert await found("?paused=false&order=asc") == [first["id"], third["id"]]
    page = (await served.ask("GET", f"{ALL}?limit=2")).json
    rest = (await served.ask("GET", f"{ALL}?limit=2&cursor={page['next_cursor']}")).json
    assert (ids_of(page["data"] + rest["data"]), rest["next_cursor"]) == (ids, None)
    assert "body" not in page["data"][0]["task"]["target"]
    full = (await served.ask("GET", f"{ALL}?fields=full")).json["data"]
    assert full[0] == third
    for query in ("?state=dead", "?paused=maybe", "?tag=x", "?limit=0", "?name=a&name=b"):
        assert (await served.ask("GET", ALL + query)).status == 422
    assert (await served.ask("GET", f"{ALL}?cursor={page['next_cursor']}&q=x")).status == 400


async def test_nothing_is_seen_of_another_tenant(served: Served) -> None:
    there = {"TaskTick-Tenant": "acme"}
    theirs = (await served.ask("POST", ALL, asked(key="k"), headers=there)).json
    mine = await made(served, key="k")

    assert theirs["tenant"] == "acme"
    assert ids_of((await served.ask("GET", ALL)).json["data"]) == [mine["id"]]
    one = f"{ALL}/{theirs['id']}"
    for method, path, body in (
        ("GET", one, None),
        ("GET", f"{one}/upcoming", None),
        ("GET", f"{one}/fires", None),
        ("PATCH", one, {}),
        ("DELETE", one, None),
        ("POST", f"{one}/pause", None),
        ("POST", f"{one}/resume", None),
        ("POST", f"{one}/trigger", None),
    ):
        assert (await served.ask(method, path, body)).code == "not_found"
    assert (await served.ask("GET", one, headers=there)).json == theirs


async def test_what_is_to_come(served: Served) -> None:
    schedule = await made(served, jitter="30s", max_fires=5, end_at=(served.world.now + 9 * MINUTE_MS) / 1_000)
    path = f"{ALL}/{schedule['id']}/upcoming"
    shown = (await served.ask("GET", f"{path}?count=3")).json

    assert shown["fires"][0]["nominal"] == schedule["next_fire_at"]
    assert len(shown["fires"]) == 3
    ahead = (await served.ask("GET", f"/v1/tasks/tsk_{await next_task(served, schedule)}")).json
    assert shown["fires"][0]["effective"] == ahead["due_at"] > shown["fires"][0]["nominal"]
    assert len((await served.ask("GET", path)).json["fires"]) == 5
    later = (served.world.now + 3 * MINUTE_MS) / 1_000
    assert len((await served.ask("GET", f"{path}?from={later}")).json["fires"]) == 2
    await pass_ms(served, 2 * MINUTE_MS)
    assert len((await served.ask("GET", path)).json["fires"]) in {3, 4}
    await act(served, schedule, "pause")
    paused = (await served.ask("GET", path)).json
    assert (paused["fires"], paused["warnings"][-1]["code"]) == ([], "paused")
    assert (await served.ask("GET", f"{path}?count=0")).pointers == {"?count"}
    assert (await served.ask("GET", f"{path}?from=9990-01-01T00:00:00Z")).pointers == {"?from"}


async def test_a_whole_schedule_may_be_tried(served: Served) -> None:
    body = asked(jitter="10s", overlap="allow", catch_up={"mode": "all"}, tags={"a": "b"}, key="k", note="n")
    answer = await served.ask("POST", f"{ALL}/preview?count=2", body)

    assert (answer.status, len(answer.json["fires"])) == (200, 2)
    assert "jitter" in {one["code"] for one in answer.json["warnings"]}
    assert (await served.ask("GET", ALL)).json["data"] == []
