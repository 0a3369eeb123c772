"""What is to come, as it is told."""

from typing import Any

import pytest

from tasktick.access.roles import Role
from tests.api.calendar import MINUTE_MS, act, made
from tests.api.served import URL, Served, serving

# The world begins at 2027-01-15T08:00:00Z.
MIDNIGHT = "2027-01-16T00:00:00.000Z"


async def told(served: Served, query: str = "", **more: Any) -> dict[str, Any]:
    """A forecast, not one from before."""
    served.world.now += 6_000
    answer = await served.ask("GET", f"/v1/forecast{query}", **more)
    assert answer.status == 200, answer.raw
    return dict(answer.json)


async def test_where_there_is_nothing(served: Served) -> None:
    found = await told(served)
    assert (found["buckets"], found["peaks"], found["complete"], found["notes"]) == ([], [], True, [])
    assert found["totals"] == {"fires": 0, "delayed": 0, "backlog_max": 0, "backlog_end": 0, "schedules": 0}
    assert found["by"] == {word: {"top": [], "names": 0, "rest": 0} for word in ("queue", "host", "tenant")}
    assert (found["from"], found["to"], found["step"]) == (
        "2027-01-15T08:00:00.000Z",
        "2027-01-16T08:00:00.000Z",
        60,
    )


@pytest.mark.slow
async def test_the_midnight_herd_is_seen_before_midnight(served: Served) -> None:
    for number in range(30):
        await made(
            served,
            every=None,
            cron="0 0 * * *",
            task={"target": {"url": f"https://host-{number % 3}.example/"}, "queue": "night"},
        )
    await made(served, every="1h")
    await served.create(delay="30m")

    found = await told(served)

    assert found["totals"] == {"fires": 54, "delayed": 0, "backlog_max": 0, "backlog_end": 0, "schedules": 31}
    assert found["peaks"][0] == {"at": MIDNIGHT, "fires": 31, "backlog": 0, "cleared_at": None}
    at_midnight = next(one for one in found["buckets"] if one["at"] == MIDNIGHT)
    assert at_midnight == {"at": MIDNIGHT, "fires": 31, "starts": 31, "delayed": 0, "backlog": 0}
    assert len(found["buckets"]) == 24
    queue = found["by"]["queue"]
    assert queue["top"][0] == {"name": "night", "fires": 30, "peak": {"at": MIDNIGHT, "fires": 30}}
    assert (queue["names"], queue["rest"], found["by"]["host"]["names"]) == (2, 0, 4)
    assert [one["name"] for one in found["by"]["tenant"]["top"]] == ["default"]

    by_hour = await told(served, "?by=hour&hours=20&queue=night")
    assert by_hour["buckets"] == [at_midnight | {"fires": 30, "starts": 30}]
    assert (by_hour["step"], by_hour["totals"]["fires"]) == (3_600, 30)
    of_host = await told(served, "?host=host-1.example:443&hours=48&by=quarter")
    assert (of_host["totals"]["fires"], of_host["step"]) == (20, 900)


async def test_what_stands_still_is_not_to_come(served: Served) -> None:
    paused = await made(served, every="1h")
    await act(served, paused, "pause")
    later = await made(served, every="1h")
    await act(served, later, "pause", {"until": "2027-01-15T20:30:00Z"})
    ended = await made(served, every="1h", end_at="2027-01-15T10:30:00Z")
    await act(served, ended, "skip", {"at": "2027-01-15T09:00:00Z"})
    task = await served.create(delay="1h")
    await served.ask("POST", f"/v1/tasks/{task['id']}/pause")

    found = await told(served)

    # One goes on from half past eight: 21 to 8 of the next day, less its end; the other has only 10 o'clock.
    assert found["totals"]["fires"] == 11 + 1
    assert found["totals"]["schedules"] == 3


@pytest.mark.slow
async def test_limits_spread_what_is_too_much(tmp_path: Any) -> None:
    async with serving(tmp_path, dispatch={"in_flight_per_host_max": 10}) as served:
        for _ in range(50):
            await served.create(delay="90s")
        served.switches.latencies = {"receiver.example:443": 60_000.0}

        found = await told(served, "?hours=1")

        assert found["totals"] == {"fires": 50, "delayed": 40, "backlog_max": 40, "backlog_end": 0, "schedules": 0}
        assert found["peaks"] == [
            {
                "at": "2027-01-15T08:01:00.000Z",
                "fires": 50,
                "backlog": 40,
                "cleared_at": "2027-01-15T08:06:00.000Z",
            }
        ]
        assert [(one["fires"], one["starts"], one["backlog"]) for one in found["buckets"]] == [
            (50, 10, 40),
            (0, 10, 30),
            (0, 10, 20),
            (0, 10, 10),
            (0, 10, 0),
        ]
        assert found["limits"] == {"nodes": 1, "in_flight": 10_000, "in_flight_per_host": 10, "hosts_measured": 1}


async def test_how_long_calls_last_is_known_from_those_that_were_made(served: Served) -> None:
    task = await served.create()
    [claimed] = await served.world.claim(task["id"].removeprefix("tsk_"))
    end = await served.world.answered(claimed, started_at=served.world.now, completed_at=served.world.now + 20_000)
    await served.world.end(end)
    await served.create(delay="1h")
    assert (await told(served))["limits"]["hosts_measured"] == 1


async def test_a_retry_and_what_is_overdue_count(served: Served) -> None:
    task = await served.create()
    await served.create()
    served.world.now += 5 * MINUTE_MS
    await served.run(task, 503)

    found = await told(served, "?hours=1")

    assert found["totals"]["fires"] == 2
    assert found["buckets"][0]["at"] == found["from"]


async def test_a_tenant_sees_its_own_and_an_operator_all(served: Served) -> None:
    there = {"TaskTick-Tenant": "acme"}
    await made(served, every="1h")
    await served.ask("POST", "/v1/tasks", {"target": {"url": URL}, "delay": "1h"}, headers=there)
    viewer = await served.add_key(Role.VIEWER, "acme")

    everybody = await told(served)
    assert {one["name"] for one in everybody["by"]["tenant"]["top"]} == {"default", "acme"}
    assert everybody["totals"]["fires"] == 24
    for how in ({"key": viewer}, {"headers": there}):
        own = await told(served, **how)
        assert (own["totals"]["fires"], own["totals"]["schedules"]) == (1, 0)
        assert [one["name"] for one in own["by"]["tenant"]["top"]] == ["acme"]


async def test_it_is_kept_for_a_moment(served: Served) -> None:
    before = await told(served)
    await served.create(delay="1h")
    assert (await served.ask("GET", "/v1/forecast")).json == before
    assert (await served.ask("GET", "/v1/forecast?hours=23")).json["totals"]["fires"] == 1
    assert (await told(served))["totals"]["fires"] == 1


@pytest.mark.parametrize("query", ["?hours=0", "?hours=169", "?hours=x", "?by=second", "?limit=3", "?hours=1&hours=2"])
async def test_what_cannot_be_asked(served: Served, query: str) -> None:
    assert (await served.ask("GET", f"/v1/forecast{query}")).status == 422
