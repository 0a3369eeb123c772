"""The same key and the same body count once, whoever else asks at the same time."""

import asyncio

import pytest

from tests.api.served import URL, Served

BODY = {"target": {"url": URL}, "delay": 60}


async def test_the_first_answer_is_given_again(served: Served) -> None:
    first = await served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "k-1"})
    served.world.now += 3_600_000
    again = await served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "k-1"})

    assert (first.status, again.status) == (201, 201)
    assert again.raw == first.raw
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.headers["Location"], again.headers["ETag"]) == (first.headers["Location"], first.headers["ETag"])
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert len(served.created) == 1


async def test_another_body_under_the_key_is_refused(served: Served) -> None:
    await served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "k-1"})
    other = await served.ask("POST", "/v1/tasks", {**BODY, "name": "x"}, headers={"Idempotency-Key": "k-1"})

    assert (other.status, other.code) == (422, "idempotency_key_reused")


async def test_the_key_is_the_tenants_and_of_the_path(served: Served) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = await served.ask("POST", "/v1/tasks", BODY, headers=headers)
    elsewhere = await served.ask("POST", "/v1/tasks", BODY, headers={**headers, "TaskTick-Tenant": "other"})
    action = await served.ask("POST", f"/v1/tasks/{first.json['id']}/cancel", headers=headers)

    assert elsewhere.status == 201
    assert elsewhere.json["id"] != first.json["id"]
    assert (action.status, action.code) == (422, "idempotency_key_reused")


async def test_after_its_window_a_key_is_new(served: Served) -> None:
    first = await served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "k-1"})
    served.world.now += 24 * 3_600_000
    later = await served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "k-1"})

    assert later.status == 201
    assert later.json["id"] != first.json["id"]


async def test_a_refusal_is_not_kept(served: Served) -> None:
    held = await served.create(key="one", delay=60)
    headers = {"Idempotency-Key": "k-1"}
    refused = await served.ask("POST", "/v1/tasks", {**BODY, "key": "one"}, headers=headers)
    await served.ask("POST", f"/v1/tasks/{held['id']}/cancel")

    assert refused.code == "key_taken"
    assert (await served.ask("POST", "/v1/tasks", {**BODY, "key": "one"}, headers=headers)).status == 201


async def test_a_replay_wins_over_the_key_that_its_own_task_holds(served: Served) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = await served.ask("POST", "/v1/tasks", {**BODY, "key": "one"}, headers=headers)
    again = await served.ask("POST", "/v1/tasks", {**BODY, "key": "one"}, headers=headers)

    assert (again.status, again.json["id"]) == (201, first.json["id"])


async def test_requests_that_race_under_a_key_make_one_task(served: Served) -> None:
    answers = await asyncio.gather(
        *(served.ask("POST", "/v1/tasks", BODY, headers={"Idempotency-Key": "race"}) for _ in range(20))
    )

    assert {one.status for one in answers} <= {201, 409}
    assert len({one.json["id"] for one in answers if one.status == 201}) == 1
    for one in answers:
        if one.status == 409:
            assert one.code == "idempotency_in_flight"
            assert int(one.headers["Retry-After"]) >= 1
    assert len(served.created) == 1


async def test_an_action_counts_once(served: Served) -> None:
    made = await served.create(delay=60)
    headers = {"Idempotency-Key": "pause-1"}
    first = await served.ask("POST", f"/v1/tasks/{made['id']}/pause", headers=headers)
    await served.ask("POST", f"/v1/tasks/{made['id']}/resume")
    again = await served.ask("POST", f"/v1/tasks/{made['id']}/pause", headers=headers)

    assert again.raw == first.raw
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await served.ask("GET", f"/v1/tasks/{made['id']}")).json["state"] == "scheduled"


@pytest.mark.parametrize("key", [" ", "x" * 256, "é", "a\tb"])
async def test_a_key_is_printable_and_not_too_long(served: Served, key: str) -> None:
    raw = (
        b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %b\r\n" % served.key.encode()
    )
    raw += b"Content-Type: application/json\r\nIdempotency-Key: %b\r\nContent-Length: 2\r\n\r\n{}" % key.encode()

    assert b"validation_failed" in await served.wire(raw)
