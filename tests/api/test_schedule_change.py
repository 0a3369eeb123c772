"""Schedules as clients change, hold, trigger and remove them."""

from typing import Any

import pytest

from tasktick.api.times import written
from tasktick.model.state import State
from tests.api.calendar import (
    ALL,
    MINUTE_MS,
    act,
    asked,
    change,
    fire,
    ledger,
    made,
    next_task,
    outcomes,
    pass_ms,
    read,
)
from tests.api.served import URL, Served, ids_of
from tests.fakes.event_stream import listening


async def test_a_patch_replaces_what_it_names(served: Served) -> None:
    schedule = await made(
        served,
        name="a",
        jitter="30s",
        note="why",
        tags={"a": "b"},
        dst={"gap": "skip", "repeat": "both"},
        catch_up={"mode": "all", "window": "1h", "max": 5},
    )
    after = await change(served, schedule, name="b", dst={"repeat": "second"}, catch_up=None, jitter=None, max_fires=9)

    moved = {"name", "dst", "catch_up", "jitter", "max_fires", "version", "updated_at"}
    assert {name: after[name] for name in schedule.keys() - moved} == {
        name: schedule[name] for name in schedule.keys() - moved
    }
    assert (after["name"], after["dst"]) == ("b", {"gap": "run_after", "repeat": "second"})
    assert (after["catch_up"], after["jitter"]) == ({"mode": "latest", "window": None, "max": 100}, 0)
    assert (after["max_fires"], after["version"]) == (9, 2)
    assert await read(served, schedule) == after
    assert await change(served, schedule) == after, "nothing is no change"
    assert await change(served, schedule, name="b") == after


async def test_a_cron_takes_the_place_of_an_interval(served: Served) -> None:
    schedule = await made(served)
    both = await served.ask("PATCH", f"{ALL}/{schedule['id']}", {"cron": "0 9 * * *"})
    assert (both.status, both.pointers) == (422, {"/cron"})

    after = await change(served, schedule, cron="0 9 * * *", every=None, timezone="Europe/Berlin")

    assert (after["cron"], after["every"]) == ("0 9 * * *", None)
    assert after["next_fire_at"].endswith("T08:00:00.000Z")
    start = await change(served, schedule, start_at="2028-06-01T09:00:00")
    assert start["next_fire_at"] == start["start_at"] == "2028-06-01T07:00:00.000Z"


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"key": "other"}, {"/key"}),
        ({"task": None}, {"/task"}),
        ({"every": "nonsense"}, {"/every"}),
        ({"task": {"target": {"url": "nonsense"}}}, {"/task/target/url"}),
        ({"spec": []}, {"/spec"}),
        ({"calendars": ["x"]}, {"/calendars"}),
        ({"every": None}, {"/cron"}),
        ({"counts": {}}, {"/counts"}),
    ],
)
async def test_what_is_wrong_with_a_patch(served: Served, fields: dict[str, Any], pointers: set[str]) -> None:
    schedule = await made(served)
    answer = await served.ask("PATCH", f"{ALL}/{schedule['id']}", fields)
    assert (answer.status, answer.pointers) == (422, pointers)
    assert await read(served, schedule) == schedule


async def test_a_task_is_replaced_whole_and_sent_from_then_on(served: Served) -> None:
    target = {"url": URL, "headers": {"authorization": "Bearer secret-of-ours"}, "body": {"n": 1}}
    schedule = await made(served, task={"target": target, "queue": "reports"})
    shown = schedule["task"]["target"]["headers"]["authorization"]
    assert shown.startswith("***")
    masked = {"target": {**target, "headers": {"authorization": shown}}}
    refused = await served.ask("PATCH", f"{ALL}/{schedule['id']}", {"task": masked})
    assert (refused.status, refused.pointers) == (422, {"/task/target/headers/authorization"})

    after = await change(served, schedule, task={"target": {"url": URL, "body": {"n": 2}}})

    assert (after["task"]["queue"], after["task"]["target"]["body"]) == ("default", {"n": 2})
    ahead = (await served.ask("GET", f"/v1/tasks/tsk_{await next_task(served, schedule)}")).json
    assert (ahead["target"]["body"], ahead["queue"]) == ({"n": 2}, "default")
    before = await next_task(served, schedule)
    assert (await change(served, schedule, task={"target": {"url": URL, "body": {"n": 2}}}))["version"] == 2
    assert await next_task(served, schedule) == before


async def test_if_match_is_honoured(served: Served) -> None:
    schedule = await made(served, key="k")
    stale = {"If-Match": '"7"'}
    one = f"{ALL}/key:k"
    for method, path, body in (
        ("PATCH", one, {"name": "x"}),
        ("PUT", one, asked()),
        ("DELETE", one, None),
        ("POST", f"{one}/pause", None),
        ("POST", f"{one}/resume", None),
        ("POST", f"{one}/trigger", None),
        ("PUT", f"{ALL}/key:none", asked()),
    ):
        answer = await served.ask(method, path, body, headers=stale)
        assert (answer.status, answer.code) == (412, "version_mismatch"), path
    assert await read(served, schedule) == schedule
    patched = await served.ask("PATCH", one, {"name": "x"}, headers={"If-Match": '"1"'})
    assert (patched.status, patched.headers["ETag"]) == (200, '"2"')
    assert (await served.ask("DELETE", one, headers={"If-Match": '"2"'})).status == 204


async def test_put_makes_and_replaces_and_does_nothing_twice(served: Served) -> None:
    path = f"{ALL}/key:k"
    first = await served.ask("PUT", path, asked(name="a", note="n"))
    assert (first.status, first.headers["Location"]) == (201, f"{ALL}/{first.json['id']}")
    same = await served.ask("PUT", path, asked(name="a", note="n"))
    assert (same.status, same.json) == (200, first.json)
    await fire(served, first.json)

    other = await served.ask("PUT", path, asked(name="b", every="7m"))

    assert (other.status, other.json["id"], other.json["name"]) == (200, first.json["id"], "b")
    assert (other.json["note"], other.json["every"], other.json["counts"]["fired"]) == (None, 420, 1)
    assert (await served.ask("PUT", f"{ALL}/{first.json['id']}", asked())).code == "method_not_allowed"
    assert (await served.ask("PUT", path, asked(key="other"))).pointers == {"/key"}
    assert (await served.ask("PUT", path, {})).pointers == {"/task"}


async def test_put_of_the_same_secret_changes_nothing(served: Served) -> None:
    path = f"{ALL}/key:report"

    def secret(value: str) -> dict[str, Any]:
        return asked(task={"target": {"url": URL, "headers": {"Authorization": value, "x-a": "1"}}})

    first = await served.ask("PUT", path, secret("Bearer of-the-report"))

    same = await served.ask("PUT", path, secret("Bearer of-the-report"))
    other = await served.ask("PUT", path, secret("Bearer of-another-report"))

    assert (same.status, same.json) == (200, first.json)
    assert other.json["version"] == first.json["version"] + 1


async def test_put_does_not_wake_what_was_paused_unless_it_says_so(served: Served) -> None:
    path = f"{ALL}/key:k"
    schedule = (await served.ask("PUT", path, asked())).json
    await act(served, schedule, "pause", {"note": "The receiver is ill."})

    kept = (await served.ask("PUT", path, asked(every="7m"))).json
    assert (kept["paused"], kept["note"], kept["next_fire_at"]) == (True, "The receiver is ill.", None)
    woken = (await served.ask("PUT", path, asked(every="7m", paused=False))).json
    assert (woken["paused"], woken["note"]) == (False, None)
    assert woken["next_fire_at"] is not None
    assert (await served.ask("PUT", path, asked(every="7m", paused=True))).json["paused"] is True


async def test_one_that_has_ended_may_be_put_again(served: Served) -> None:
    path = f"{ALL}/key:k"
    end_at = (served.world.now + 2 * MINUTE_MS) / 1_000
    body = asked(end_at=end_at)
    schedule = (await served.ask("PUT", path, body)).json
    await fire(served, schedule)
    await fire(served, schedule)
    assert (await read(served, schedule))["ended"] is True

    again = await served.ask("PUT", path, body)
    assert (again.status, again.json["ended"]) == (200, True)


async def test_what_is_due_is_decided_before_an_edit(served: Served) -> None:
    schedule = await made(served, overlap="allow")
    served.world.now += 3 * MINUTE_MS

    after = await change(served, schedule, every="1h")

    assert await outcomes(served, schedule) == ["run"] * 3
    assert after["counts"]["fired"] == 3
    assert {plan.before.id for plan in served.planned} == {schedule["id"].removeprefix("sch_")}
    assert sum(len(plan.ledger) for plan in served.planned) == 3


async def test_a_pause_and_a_resume(served: Served) -> None:
    schedule = await made(served)
    held = (await act(served, schedule, "pause", {"note": "fair"})).json
    assert (held["paused"], held["note"], held["next_fire_at"], held["ended"]) == (True, "fair", None, False)
    await pass_ms(served, 3 * MINUTE_MS)
    assert await outcomes(served, schedule) == []

    going = (await act(served, schedule, "resume")).json

    assert (going["paused"], going["counts"]["skipped"]) == (False, 3)
    assert await outcomes(served, schedule) == ["skipped(paused)"] * 3
    assert (await act(served, schedule, "resume")).json == going
    assert await fire(served, schedule) is State.SUCCEEDED


async def test_a_pause_until_a_time_ends_by_itself(served: Served) -> None:
    schedule = await made(served)
    until = (served.world.now + 2 * MINUTE_MS + 1) / 1_000
    held = (await act(served, schedule, "pause", {"until": until})).json
    assert held["paused_until"] is not None
    shown = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=1")).json["fires"]
    assert shown[0]["nominal"] > held["paused_until"]

    served.world.now += 2 * MINUTE_MS + 1
    assert (await change(served, schedule, name="x"))["paused"] is False
    assert await outcomes(served, schedule) == ["skipped(paused)"] * 2
    for body in ({"until": 1}, {"until": "2030-01-01T00:00:00"}, {"note": "x" * 1_001}, {"since": 1}):
        assert (await act(served, schedule, "pause", body)).status == 422


async def test_paused_is_a_field_too(served: Served) -> None:
    schedule = await made(served, paused=True)
    assert (schedule["paused"], schedule["next_fire_at"]) == (True, None)

    going = await change(served, schedule, paused=None, every="2m")
    assert (going["paused"], going["next_fire_at"] is None) == (False, False)
    assert (await change(served, schedule, paused=True))["paused"] is True


async def test_actions_count_once_for_their_key(served: Served) -> None:
    schedule = await made(served)
    headers = {"Idempotency-Key": "a"}
    first, again = [await act(served, schedule, "trigger", headers=headers) for _ in range(2)]
    assert (first.json, again.headers["Idempotency-Replayed"]) == (again.json, "true")
    held = [await act(served, schedule, "pause", headers={"Idempotency-Key": "b"}) for _ in range(2)]
    assert held[0].json == held[1].json
    assert (await read(served, schedule))["version"] == 2


async def test_a_trigger_is_a_task_of_it_outside_the_ledger(served: Served) -> None:
    schedule = await made(served, task={"target": {"url": URL, "body": {"n": 1}}, "queue": "q", "tags": {"a": "b"}})
    await act(served, schedule, "pause")

    plain = await act(served, schedule, "trigger")
    other = await act(served, schedule, "trigger", {"target": {"url": f"{URL}/2", "body": {"n": 2}}})

    assert (plain.status, other.status) == (201, 201)
    assert plain.headers["Location"] == f"/v1/tasks/{plain.json['id']}"
    assert (await served.ask("GET", plain.headers["Location"])).json.items() >= {
        **plain.json,
        "state": "ready",
    }.items()
    assert (plain.json["target"]["body"], plain.json["queue"], plain.json["tags"]) == ({"n": 1}, "q", {"a": "b"})
    assert (other.json["target"]["url"], other.json["target"]["body"]) == (f"{URL}/2", {"n": 2})
    assert [await served.run(one.json) for one in (plain, other)] == [State.SUCCEEDED] * 2
    found = (await served.ask("GET", f"/v1/tasks?schedule_id={schedule['id']}")).json["data"]
    assert set(ids_of(found)) == {plain.json["id"], other.json["id"]}
    assert await ledger(served, schedule) == []
    assert (await read(served, schedule))["counts"]["fired"] == 0
    assert {state.id for state in served.created} == {one.removeprefix("tsk_") for one in ids_of(found)}
    refused = await act(served, schedule, "trigger", {"target": {"url": "http://10.0.0.1/"}})
    assert (refused.status, refused.code) == (422, "target_forbidden")


async def test_a_trigger_takes_room_and_rate(served: Served) -> None:
    schedule = await made(served)
    await served.ask("PUT", "/v1/tenants/default", {"max_pending": 2})
    assert (await act(served, schedule, "trigger")).status == 201
    full = await act(served, schedule, "trigger")
    assert (full.status, full.code) == (429, "quota_exceeded")
    await served.ask("PUT", "/v1/tenants/default", {"create_rate": "1/1m"})
    assert (await act(served, schedule, "trigger")).status == 201
    often = await act(served, schedule, "trigger")
    assert (often.status, often.code, "RateLimit" in often.headers) == (429, "rate_limited", True)


async def test_a_deleted_schedule_fires_no_more(served: Served) -> None:
    schedule = await made(served)
    await fire(served, schedule)
    ahead = await next_task(served, schedule)

    assert (await served.ask("DELETE", f"{ALL}/{schedule['id']}")).status == 204

    assert (await served.ask("GET", f"/v1/tasks/tsk_{ahead}")).status == 404
    assert [state.id for plan in served.planned for state in plan.withdrawn] == [ahead]
    left = (await served.ask("GET", f"/v1/tasks?schedule_id={schedule['id']}")).json["data"]
    assert [one["state"] for one in left] == ["succeeded"]
    assert (await served.ask("DELETE", f"{ALL}/{schedule['id']}")).status == 404
    await pass_ms(served, 3 * MINUTE_MS)


async def test_what_a_change_withdraws_is_told_with_the_time_of_the_change(served: Served) -> None:
    schedule = await made(served)
    events = f"http://127.0.0.1:{served.port}/v1/events?type=task.deleted"
    async with listening(served.session, events, served.key, {}) as stream:
        for method, body in (("PATCH", {"every": "2h"}), ("DELETE", None)):
            served.world.now += 1_000
            answer = await served.ask(method, f"{ALL}/{schedule['id']}", body)
            assert answer.status in (200, 204), answer.raw
            [gone] = await stream.several(1)
            assert gone.data["at"] == written(served.world.now), method


async def test_a_receiver_that_is_gone_pauses_it(served: Served) -> None:
    schedule = await made(served)
    assert await fire(served, schedule, 410) is State.DEAD
    after = await read(served, schedule)
    assert (after["paused"], after["counts"]["failed"], "410" in after["note"]) == (True, 1, True)


async def test_one_that_is_far_behind_is_left_to_the_loop_behind_all(served: Served) -> None:
    schedule = await made(served, every="100ms", overlap="allow")
    served.world.now += 2 * MINUTE_MS

    answer = await served.ask("PATCH", f"{ALL}/{schedule['id']}", {"name": "x"})

    assert (answer.status, answer.code, "Retry-After" in answer.headers) == (503, "overloaded", True)
    assert await outcomes(served, schedule) == []
    await pass_ms(served, 0)
    assert (await change(served, schedule, name="x"))["counts"]["fired"] == 1_200


async def test_a_rule_of_another_kind_says_what_to_take_away(served: Served) -> None:
    schedule = await made(served, cron="0 9 * * *", every=None)
    path = f"{ALL}/{schedule['id']}"

    refused = await served.ask("PATCH", path, {"every": "1h"})
    assert (refused.status, refused.pointers) == (422, {"/every"})
    assert '`"cron": null`' in refused.json["detail"]
    assert (await served.ask("PATCH", path, {"every": "1h", "cron": None})).status == 200
    assert (await served.ask("PATCH", path, {"every": "2h"})).status == 200
    refused = await served.ask("PATCH", path, {"key": "another"})
    assert (refused.status, refused.pointers) == (422, {"/key"})
    assert "keeps its key" in refused.json["detail"]
