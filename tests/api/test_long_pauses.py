"""What a schedule of several rules has skipped over a long pause: written down in parts, whoever asks for what."""

from typing import Any

import pytest

from tasktick.model.schedule import Member, Rule
from tasktick.timetable.policy import WALKED_MAX
from tasktick.timetable.upcoming import walked
from tests.api.calendar import MINUTE_MS, act, change, ledger, made, read
from tests.api.served import Served

MINUTES = 20_000
RULE = Rule(spec=(Member(cron="* * * * *"), Member(cron="*/2 * * * *")))


async def paused_for_long(served: Served) -> dict[str, Any]:
    served.world.now -= served.world.now % MINUTE_MS
    schedule = await made(served, every=None, spec=[{"cron": "* * * * *"}, {"cron": "*/2 * * * *"}])
    assert (await act(served, schedule, "pause")).status == 200
    served.world.now += MINUTES * MINUTE_MS
    served.planned.clear()
    return schedule


def check_parts(served: Served) -> None:
    """Nothing that was written at once took long to count."""
    assert len(served.planned) > 1
    for plan in served.planned:
        assert walked(RULE, plan.before.cursor_at, plan.after.cursor_at) <= WALKED_MAX + 1


@pytest.mark.parametrize("body", [{"paused": False}, {"every": "1h", "spec": None}])
async def test_a_change_after_a_long_pause_is_written_in_parts(served: Served, body: dict[str, Any]) -> None:
    schedule = await paused_for_long(served)

    changed = await change(served, schedule, **body)

    assert changed["counts"]["skipped"] == MINUTES
    check_parts(served)
    rows = await ledger(served, schedule)
    assert {(row["outcome"], row["reason"]) for row in rows} == {("skipped", "paused")}


async def test_it_goes_on_after_a_long_pause_once_for_its_key(served: Served) -> None:
    schedule = await paused_for_long(served)

    resumed = await act(served, schedule, "resume", headers={"Idempotency-Key": "once"})
    again = await act(served, schedule, "resume", headers={"Idempotency-Key": "once"})

    assert (resumed.status, again.status, again.json) == (200, 200, resumed.json)
    assert not resumed.json["paused"]
    assert resumed.json["counts"]["skipped"] == MINUTES
    check_parts(served)


async def test_a_backfill_of_a_long_pause_writes_it_down_in_parts_before(served: Served) -> None:
    schedule = await paused_for_long(served)

    answer = await act(served, schedule, "backfill", {"from": served.world.now / 1_000 - 300, "limit": 3})

    assert (answer.status, answer.json["fires"]) == (200, 3)
    counts = (await read(served, schedule))["counts"]
    assert (counts["skipped"], counts["fired"]) == (MINUTES - 3, 3)
    check_parts(served)
