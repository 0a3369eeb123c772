"""Warnings that the store knows more about than the rule: who else comes then, and how long the task takes."""

from typing import Any

import pytest

from tests.api.calendar import ALL, MINUTE_MS, made, next_task, settled
from tests.api.served import Served


async def previewed(served: Served, **timing: Any) -> list[str]:
    """The codes of what is odd."""
    answer = await served.ask("POST", f"{ALL}/preview", timing)
    assert answer.status == 200, answer.raw
    return [one["code"] for one in answer.json["warnings"]]


@pytest.mark.slow
async def test_others_in_the_same_minute(served: Served) -> None:
    for _ in range(19):
        await made(served, every=None, cron="30 9 * * *")
    paused = await made(served, every=None, cron="30 9 * * *", paused=True)
    assert await previewed(served, cron="30 9 * * *") == []
    mine = await made(served, every=None, cron="30 9 * * *", key="mine")

    assert await previewed(served, cron="30 9 * * *") == ["pile_up"]
    assert await previewed(served, cron="31 9 * * *") == []
    assert await previewed(served, cron="30 9 * * *", jitter="10m") == ["jitter"]
    # The schedule itself is no other.
    assert await previewed(served, cron="30 9 * * *", key="mine") == []
    own = (await served.ask("GET", f"{ALL}/{mine['id']}/upcoming")).json
    assert own["warnings"] == []
    other = (await served.ask("GET", f"{ALL}/{paused['id']}/upcoming")).json
    assert [one["code"] for one in other["warnings"]] == ["paused"]
    there = {"TaskTick-Tenant": "acme"}
    assert (await served.ask("POST", f"{ALL}/preview", {"cron": "30 9 * * *"}, headers=there)).json["warnings"] == []


async def test_a_task_that_takes_longer_than_its_interval(served: Served) -> None:
    schedule = await made(served, key="slow", overlap="allow")
    for _ in range(3):
        ahead = await next_task(served, schedule)
        served.world.now += MINUTE_MS
        [claimed] = await served.world.claim(ahead)
        started_at = served.world.now
        await settled(served)
        ended_at = started_at + 61_500
        await served.world.end(await served.world.answered(claimed, started_at=started_at, completed_at=ended_at))

    warnings = (await served.ask("GET", f"{ALL}/{schedule['id']}/upcoming?count=1")).json["warnings"]

    assert [one["code"] for one in warnings] == ["longer_than_interval"]
    assert "1 minute, 1 second and 500 milliseconds" in warnings[0]["detail"]
    assert await previewed(served, every="1m", key="slow") == ["longer_than_interval"]
    assert await previewed(served, every="2m", key="slow") == []
    assert await previewed(served, every="1m") == []


async def test_what_is_spread_is_no_part_of_a_crowd(served: Served) -> None:
    assert await previewed(served, cron="@hourly") == ["top_of_hour"]
    assert await previewed(served, cron="@daily", jitter="5s") == ["midnight", "jitter"]
    assert await previewed(served, cron="@daily", jitter="5m") == ["jitter"]
