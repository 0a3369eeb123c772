"""What a forecast says is what fires, where nothing fails: a node in virtual time, and every call that it made."""

import asyncio
import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from tasktick.api.forecast_load import Span, collect
from tasktick.api.pace import Pace
from tasktick.model.calendar import Calendar, CalendarUse, Content, Days
from tasktick.model.retry import RetryPolicy
from tasktick.model.schedule import CatchUp, FireTemplate, Member, Rule, Schedule
from tasktick.model.task import Payload, Target
from tasktick.scheduler.plan import begin
from tasktick.store import calendars, schedules
from tasktick.store.forecast import Whose
from tasktick.timetable.density import MINUTE_MS
from tasktick.timetable.fires import cursor_at
from tests.sim.stage import Stage, play

HOURS = 3
# A seed moves what is due once and where jitter falls; the rules are the same. The others with `make test-chaos`.
SEEDS = range(3 if "TASKTICK_AT_LENGTH" in os.environ else 1)
DAY_MS = 86_400_000
RULES: tuple[tuple[Rule, dict[str, Any]], ...] = (
    (Rule(every_ms=MINUTE_MS), {}),
    (Rule(every_ms=13_000), {"overlap": "allow"}),
    (Rule(cron="*/7 * * * *", timezone="Europe/Berlin"), {}),
    (Rule(cron="0 * * * *"), {"jitter_ms": 40 * MINUTE_MS}),
    (Rule(every_ms=10 * MINUTE_MS), {"jitter_ms": 90 * MINUTE_MS}),
    (Rule(rrule="FREQ=HOURLY;BYMINUTE=5,35"), {"max_fires": 4}),
    (Rule(spec=(Member(cron="0,30 * * * *"), Member(every_ms=20 * MINUTE_MS))), {}),
    (Rule(every_ms=5 * MINUTE_MS), {"calendars": (CalendarUse("today"),)}),
    (Rule(every_ms=5 * MINUTE_MS), {"calendars": (CalendarUse("today", "include"),)}),
    (Rule(cron="*/10 * * * *"), {"end": 2 * 3_600_000}),
)


def _schedule(stage: Stage, rule: Rule, number: int, fields: dict[str, Any]) -> Schedule:
    now = stage.clock.now_ms()
    cursor = cursor_at(rule, now)
    columns: dict[str, Any] = {"overlap": "skip", **fields}
    end_ms = columns.pop("end", None)
    return Schedule(
        id=stage.ids.new(now, number * 7 % 256),
        tenant="default",
        version=1,
        created_at=now,
        updated_at=now,
        rule=rule,
        catch_up=CatchUp(),
        template=FireTemplate(f"host-{number % 3}:80", "default", 5, 5, 30_000, 30_000),
        payload_version=1,
        cursor_at=cursor.at,
        cursor_local_ms=cursor.local_ms,
        end_at=None if end_ms is None else now + end_ms,
        **columns,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_said_is_what_fires(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.node.start()
        random = Random(seed)
        today = stage.clock.now_ms() // DAY_MS
        held = Calendar("default", "today", 1, 0, 0, Content(timezone="UTC", dates=(Days(today, today),)))
        await stage.database.write(lambda tx: calendars.put(tx, held))
        payload = Payload(Target("http://host/"), RetryPolicy())
        for number, (rule, fields) in enumerate(RULES):
            made = _schedule(stage, rule, number, fields)
            plan = begin(made, stage.node.deciding(made.id))
            await stage.database.write(lambda tx, plan=plan: schedules.create(tx, plan, payload))  # type: ignore[misc] # a default binds this plan
            stage.node.planned([plan])
        for _ in range(10):
            await stage.add(random.randrange(1, 4 * 3_600_000))
        now = stage.clock.now_ms()
        from_at = now - now % MINUTE_MS
        span = Span(from_at, from_at + HOURS * 3_600_000, now)
        already = len(stage.sender.sent)
        load = await collect(stage.database, Whose(None), span, Pace(stage.clock))
        assert load.is_whole

        await asyncio.sleep((span.to_at - stage.clock.now_ms() + 2_000) / 1_000)

        said: Counter[int] = Counter()
        for amounts in load.lanes.values():
            said.update({minute: round(amount) for minute, amount in enumerate(amounts) if amount})
        done = Counter((one.at - from_at) // MINUTE_MS for one in stage.sender.sent[already:] if one.at < span.to_at)
        assert said == done
        assert said.total() > 1_000

    play(scenario, seed=seed)
