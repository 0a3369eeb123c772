"""Rules that match hardly ever: whoever looks for their times does not hold up anybody else."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.api.served import Served

RARE = "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO"
TASK = {"target": {"url": "https://app.example/"}}
# Of a machine that does much else.
STALL_MAX_S = 0.5


async def stall_during(work: Awaitable[Any]) -> tuple[Any, float]:
    """What the work came to, and how long the loop did not turn meanwhile."""
    task, loop, longest = asyncio.ensure_future(work), asyncio.get_running_loop(), 0.0
    while not task.done():
        before = loop.time()
        await asyncio.wait([task], timeout=0.01)
        longest = max(longest, loop.time() - before)
    return task.result(), longest


@pytest.mark.slow
async def test_a_preview_of_a_rare_rule_lets_the_loop_turn(served: Served) -> None:
    asked = served.ask("POST", "/v1/schedules/preview?count=1000", {"rrule": RARE, "task": TASK})
    answer, longest = await stall_during(asked)
    assert answer.status == 200
    assert len(answer.json["fires"]) == 1_000
    assert longest < STALL_MAX_S


@pytest.mark.slow
async def test_an_explanation_of_a_rare_rule_lets_the_loop_turn(served: Served) -> None:
    made = await served.ask("POST", "/v1/schedules", {"key": "rare", "rrule": RARE, "task": TASK})
    assert made.status == 201
    answer, longest = await stall_during(served.ask("GET", "/v1/schedules/key:rare/explain?at=2030-01-01T00:00:00Z"))
    assert answer.status == 200
    assert longest < STALL_MAX_S


@pytest.mark.slow
async def test_a_preview_of_a_few_fires_looks_for_more_of_them_beside_the_loop(served: Served) -> None:
    rule = "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU"
    answer, longest = await stall_during(
        served.ask("POST", "/v1/schedules/preview?count=3", {"rrule": rule, "task": TASK})
    )
    assert answer.status == 200
    assert longest < STALL_MAX_S
