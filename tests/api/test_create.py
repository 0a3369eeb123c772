"""POST /v1/tasks: what is taken, what is refused and why, and what is then in the store."""

import asyncio
import json
from typing import Any

import pytest

from tasktick.api import app
from tasktick.model.state import State
from tasktick.store import tasks
from tests.api.served import URL, Served


async def test_a_task_needs_a_target_alone(served: Served) -> None:
    answer = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})

    assert answer.status == 201
    task = answer.json
    assert answer.headers["Location"] == f"/v1/tasks/{task['id']}"
    assert answer.headers["ETag"] == '"1"'
    assert task["id"].startswith("tsk_")
    assert task["state"] == "ready"
    assert task["run_at"] == task["due_at"] == task["created_at"] == "2027-01-15T08:00:00.000Z"
    assert (task["attempt"], task["max_attempts"], task["priority"], task["queue"]) == (0, 5, 5, "default")
    assert task["retry"] == {
        "max_attempts": 5,
        "strategy": "exponential",
        "initial": 10,
        "factor": 3.0,
        "max_delay": 3600,
        "jitter": 0.1,
        "delays": None,
    }
    assert task["target"] == {
        "url": URL,
        "method": "POST",
        "headers": {},
        "timeout": 30,
        "success": ["2xx"],
        "body": None,
    }
    assert task["partition"] == int(task["id"][-2:], 16)
    assert (task["sla"], task["sla_met"], task["lateness"], task["result"], task["error"]) == (
        30,
        None,
        None,
        None,
        None,
    )


async def test_what_is_answered_is_what_is_read(served: Served) -> None:
    made = await served.create(
        key="invoice-771",
        name="Invoice reminder",
        type="invoice.remind",
        run_at="2027-12-01T09:00:00+01:00",
        target={"url": URL, "method": "PUT", "headers": {"x-team": "billing"}, "body": {"invoice": 771}},
        queue="mail",
        priority=2,
        retry={"strategy": "list", "delays": ["1s", 2, "PT3S"], "max_attempts": 4},
        sla="90s",
        expires_in="1h",
        delivery="at_most_once",
        tags={"team": "billing"},
    )

    read = (await served.ask("GET", f"/v1/tasks/{made['id']}")).json
    assert read.pop("attempts_count") == 0
    assert read == made
    assert made["state"] == "scheduled"
    assert made["run_at"] == "2027-12-01T08:00:00.000Z"
    assert made["expires_at"] == "2027-12-01T09:00:00.000Z"
    assert made["retry"]["delays"] == [1, 2, 3]
    assert (await served.ask("GET", "/v1/tasks/key:invoice-771")).json["id"] == made["id"]
    assert (await served.ask("GET", "/v1/tasks/key%3Ainvoice-771")).json["id"] == made["id"]


async def test_the_scheduler_is_told_after_the_commit(served: Served) -> None:
    made = await served.create(delay="2s")

    [state] = served.created
    assert f"tsk_{state.id}" == made["id"]
    assert state.due_at == state.wake_at == state.run_at == served.world.now + 2_000
    assert state.host == "receiver.example:443"
    assert await served.world.state(state.id) == state


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (
            b'{"target":{"url":"https://a.example","body":  {"b" : 1.0, "a":[1e2 ,"\\u00e9"]} }}',
            b'{"b" : 1.0, "a":[1e2 ,"\\u00e9"]}',
        ),
        (b'{"target":{"url":"https://a.example","body":"x"}}', b'"x"'),
        (b'{"target":{"url":"https://a.example","body":false}}', b"false"),
        (b'{"target":{"url":"https://a.example","body":"\\u0000"}}', b'"\\u0000"'),
        ('{"target":{"url":"https://a.example","body":"héllo ☃ 𝄞"}}'.encode(), '"héllo ☃ 𝄞"'.encode()),
    ],
)
async def test_a_json_body_is_kept_byte_for_byte(served: Served, body: bytes, sent: bytes) -> None:
    answer = await served.ask("POST", "/v1/tasks", raw=body)

    assert answer.status == 201, answer.raw
    assert sent in answer.raw
    [state] = served.created
    [kept] = await served.database.read(lambda tx: tasks.latest_payloads(tx, [state.id]))
    assert kept.payload.target.body_kind == "json"
    assert kept.payload.target.body.encode() == sent


async def test_other_bodies_are_text_or_base64(served: Served) -> None:
    text = await served.create(target={"url": URL, "body_text": "a=1&b=2"})
    binary = await served.create(target={"url": URL, "body_base64": "AAH/"})
    none = await served.create(target={"url": URL, "body": None})

    assert text["target"]["body_text"] == "a=1&b=2"
    assert binary["target"]["body_base64"] == "AAH/"
    assert none["target"]["body"] is None


async def test_a_past_time_runs_at_once_and_stays_the_nominal_one(served: Served) -> None:
    made = await served.create(run_at="2020-01-01T00:00:00Z")

    assert made["run_at"] == "2020-01-01T00:00:00.000Z"
    assert made["due_at"] == made["created_at"]
    assert made["state"] == "ready"


async def test_jitter_is_added_once_and_stays(served: Served) -> None:
    made = [await served.create(delay=3600, jitter="10m") for _ in range(10)]

    late = {state.due_at - state.run_at for state in served.created}
    assert all(0 <= one <= 600_000 for one in late)
    assert len(late) > 5
    assert (await served.ask("GET", f"/v1/tasks/{made[0]['id']}")).json["due_at"] == made[0]["due_at"]


async def test_the_trace_is_kept_if_it_is_one(served: Served) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, headers={"traceparent": trace})
    await served.ask("POST", "/v1/tasks", {"target": {"url": URL}}, headers={"traceparent": "00-0-0-0"})

    ids = [state.id for state in served.created]
    kept = await served.database.read(lambda tx: tasks.latest_payloads(tx, ids))
    assert {one.owner_id: one.payload.traceparent for one in kept} == {ids[0]: trace, ids[1]: None}


WRONG: list[tuple[dict[str, Any], set[str]]] = [
    ({"target": None}, {"/target"}),
    ({"id": "tsk_1"}, {"/id"}),
    ({"tenant": "other", "state": "dead", "attempt": 3}, {"/tenant", "/state", "/attempt"}),
    ({"run_at": "2027-01-01T00:00:00"}, {"/run_at"}),
    ({"run_at": "tomorrow"}, {"/run_at"}),
    ({"run_at": "2027-02-30T00:00:00Z"}, {"/run_at"}),
    ({"run_at": 1e300}, {"/run_at"}),
    ({"run_at": True}, {"/run_at"}),
    ({"run_at": "2027-01-01T00:00:00Z", "delay": 3}, {"/delay"}),
    ({"run_at": "9999-12-31T23:59:59Z", "jitter": "1m"}, {"/run_at"}),
    ({"run_at": "9999-12-31T23:59:59Z", "expires_in": "1m"}, {"/run_at"}),
    ({"delay": -1}, {"/delay"}),
    ({"delay": "3 weeks"}, {"/delay"}),
    ({"delay": 10**15}, {"/delay"}),
    ({"priority": 10}, {"/priority"}),
    ({"priority": 1.5}, {"/priority"}),
    ({"key": "white space"}, {"/key"}),
    ({"key": ""}, {"/key"}),
    ({"key": "x" * 129}, {"/key"}),
    ({"name": "x" * 201}, {"/name"}),
    ({"name": "nul\0"}, {"/name"}),
    ({"queue": "a/b"}, {"/queue"}),
    ({"tags": {str(n): "" for n in range(21)}}, {"/tags"}),
    ({"tags": {"a": "x" * 129}}, {"/tags/a"}),
    ({"tags": {"a/b~": 1}}, {"/tags/a~1b~0"}),
    ({"sla": "never"}, {"/sla"}),
    ({"expires_in": 0}, {"/expires_in"}),
    ({"delivery": "exactly_once"}, {"/delivery"}),
    ({"callback": {"success": URL}}, {"/callback"}),
    ({"payload": {"x": 1}}, {"/payload"}),
    ({"workflow": {}}, {"/workflow"}),
    ({"calendars": []}, {"/calendars"}),
    ({"retry": {"max_attempts": 0}}, {"/retry/max_attempts"}),
    ({"retry": {"strategy": "list"}}, {"/retry/delays"}),
    ({"retry": {"strategy": "fixed", "delays": [1]}}, {"/retry/delays"}),
    ({"retry": {"delays": [1, "x", -3]}}, {"/retry/delays/1", "/retry/delays/2"}),
    ({"retry": {"factor": 0.5, "jitter": 2, "initial": "31d"}}, {"/retry/factor", "/retry/jitter", "/retry/initial"}),
    ({"retry": {"nap": 1}}, {"/retry/nap"}),
]
WRONG_TARGETS: list[tuple[dict[str, Any], set[str]]] = [
    ({"url": "ftp://a.example"}, {"/target/url"}),
    ({"url": "https://user@a.example"}, {"/target/url"}),
    ({"method": "TRACE"}, {"/target/method"}),
    ({"method": ""}, {"/target/method"}),
    ({"timeout": "2h"}, {"/target/timeout"}),
    ({"timeout": 0}, {"/target/timeout"}),
    ({"success": []}, {"/target/success"}),
    ({"success": ["2xx", "9xx", 299, "300-200"]}, {"/target/success/1", "/target/success/3"}),
    ({"headers": {"Host": "a", "x-ok": "1", "x-bad": "a\nb"}}, {"/target/headers/Host", "/target/headers/x-bad"}),
    (
        {"headers": {"webhook-id": "a", "TaskTick-Fence": "1"}},
        {"/target/headers/webhook-id", "/target/headers/TaskTick-Fence"},
    ),
    (
        {"headers": {"webhook_id": "a", "TaskTick_Fence": "1"}},
        {"/target/headers/webhook_id", "/target/headers/TaskTick_Fence"},
    ),
    ({"headers": {"Authorization": "***cdef"}}, {"/target/headers/Authorization"}),
    ({"body": {}, "body_text": "x"}, {"/target/body_text"}),
    ({"body_base64": "no base64"}, {"/target/body_base64"}),
    ({"body_text": "nul\0"}, {"/target/body_text"}),
    ({"async_timeout": "1h"}, {"/target/async_timeout"}),
]


@pytest.mark.parametrize(
    ("fields", "pointers"), [*WRONG, *(({"target": {"url": URL, **target}}, at) for target, at in WRONG_TARGETS)]
)
async def test_what_is_wrong_is_refused_with_its_place(
    served: Served, fields: dict[str, Any], pointers: set[str]
) -> None:
    answer = await served.ask("POST", "/v1/tasks", {"target": {"url": URL}, **fields})

    assert answer.status == 422, answer.raw
    assert answer.code == "validation_failed"
    assert answer.pointers == pointers
    assert served.created == []


async def test_all_faults_come_at_once(served: Served) -> None:
    shapes = await served.ask("POST", "/v1/tasks", {"target": {"url": 1, "nap": 2}, "priority": "x", "id": 3})
    values = await served.ask(
        "POST", "/v1/tasks", {"target": {"url": "x", "method": "FETCH"}, "priority": 99, "delay": "soon"}
    )

    assert shapes.pointers == {"/target/url", "/target/nap", "/priority", "/id"}
    assert values.pointers == {"/target/url", "/target/method", "/priority", "/delay"}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]:80/", "http://169.254.169.254/", "http://localhost"]
)
async def test_a_forbidden_target_is_told_by_its_code(served: Served, url: str) -> None:
    answer = await served.ask("POST", "/v1/tasks", {"target": {"url": url}})

    assert (answer.status, answer.code, answer.pointers) == (422, "target_forbidden", {"/target/url"})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"target": {"url": "\xff"}}',
        b'{"target": {"url": "https://a.example", "body": "\xc3\x28"}}',
        b'{"target": ' + b"[" * 33 + b"]" * 33 + b"}",
        b'{"target": ' + b'{"a":' * 50_000,
        b'{"target": NaN}',
        b"\xef\xbb\xbf{}",
    ],
)
async def test_what_cannot_be_read_is_malformed(served: Served, raw: bytes) -> None:
    answer = await served.ask("POST", "/v1/tasks", raw=raw)

    assert (answer.status, answer.code) == (400, "malformed"), answer.raw


async def test_half_a_surrogate_is_no_text(served: Served) -> None:
    answer = await served.ask("POST", "/v1/tasks", raw=b'{"target":{"url":"https://a.example"},"name":"\\ud800"}')

    assert (answer.status, answer.code) == (422, "validation_failed")


async def test_brackets_in_strings_are_no_depth(served: Served) -> None:
    made = await served.create(target={"url": URL, "body": "[{" * 500})

    assert made["target"]["body"] == "[{" * 500


async def test_a_key_belongs_to_the_unfinished_task(served: Served) -> None:
    first = await served.create(key="one")
    taken = await served.ask("POST", "/v1/tasks", {"key": "one", "target": {"url": URL}})
    assert (taken.status, taken.code, taken.pointers) == (409, "key_taken", {"/key"})
    assert first["id"] in taken.json["detail"]

    assert await served.run(first) is State.SUCCEEDED
    second = await served.create(key="one")
    assert second["id"] != first["id"]
    assert (await served.ask("GET", "/v1/tasks/key:one")).json["id"] == second["id"]


async def test_sensitive_headers_are_sealed_and_masked(served: Served) -> None:
    made = await served.create(
        target={
            "url": URL,
            "headers": {
                "Authorization": "Bearer very-secret-1234",
                "X-Api-Key": "short",
                "X-Mine": "abcdefghijklmnop",
                "X-Open": "o",
            },
            "sensitive_headers": ["x-mine"],
        }
    )

    shown = {"Authorization": "***1234", "X-Api-Key": "***", "X-Mine": "***mnop", "X-Open": "o"}
    assert made["target"]["headers"] == shown
    read = await served.ask("GET", f"/v1/tasks/{made['id']}")
    assert read.json["target"]["headers"] == shown
    listed = await served.ask("GET", "/v1/tasks")
    for answer in (read, listed):
        assert b"very-secret" not in answer.raw
    [kept] = await served.database.read(lambda tx: tasks.latest_payloads(tx, [served.created[0].id]))
    stored = json.dumps([kept.payload.target.headers, kept.payload.target.sealed_headers])
    assert "very-secret" not in stored
    assert "abcdefghijklmnop" not in stored


async def test_creates_that_come_together_are_all_there(served: Served) -> None:
    made = await asyncio.gather(*(served.create(name=str(n)) for n in range(50)))

    listed = (await served.ask("GET", "/v1/tasks?limit=100")).json["data"]
    assert {one["id"] for one in listed} == {one["id"] for one in made}


async def test_a_delay_counts_from_the_latest_that_it_may_be(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that knows the store's time by a few milliseconds must not send sooner than was asked."""
    monkeypatch.setattr(app, "latest_ms", lambda clock: clock.now_ms() + 40)
    asked = {"target": {"url": URL}, "delay": "2s"}
    created = (await served.ask("POST", "/v1/tasks", asked)).json
    assert created["created_at"] == "2027-01-15T08:00:00.000Z"
    assert created["run_at"] == created["due_at"] == "2027-01-15T08:00:02.040Z"
    [one] = (await served.ask("POST", "/v1/tasks/batch", {"tasks": [asked]})).json["data"]
    assert (await served.ask("GET", f"/v1/tasks/{one['id']}")).json["due_at"] == "2027-01-15T08:00:02.040Z"
    path = f"/v1/tasks/{created['id']}"
    assert (await served.ask("PATCH", path, {"delay": "3s"})).json["due_at"] == "2027-01-15T08:00:03.040Z"
    assert (await served.ask("PUT", "/v1/tasks/key:one", asked)).json["due_at"] == "2027-01-15T08:00:02.040Z"
    at_once = (await served.ask("POST", "/v1/tasks", {"target": {"url": URL}})).json
    assert at_once["due_at"] == "2027-01-15T08:00:00.000Z"
