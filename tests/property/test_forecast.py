"""A forecast held to a plain count of every time of every schedule, one by one."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.api.forecast_load import Load, Span, collect
from tasktick.api.pace import Pace
from tasktick.model.calendar import Calendar, CalendarUse, Content, Days
from tasktick.model.schedule import FireTemplate, Member, Rule
from tasktick.ready.forecast import Lane
from tasktick.scheduler.book import due_of
from tasktick.store import calendars
from tasktick.store.forecast import Whose
from tasktick.store.sqlite import step
from tasktick.timetable.calendars import shade_of
from tasktick.timetable.density import MINUTE_MS
from tasktick.timetable.fires import fires
from tests.store.calendar import Calendar as Hands
from tests.store.drivers import InlineDatabase
from tests.store.world import World

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RULES = (
    Rule(every_ms=MINUTE_MS),
    Rule(every_ms=7_700),
    Rule(every_ms=7 * MINUTE_MS, anchor_at=12_345),
    Rule(every_ms=5 * HOUR_MS),
    Rule(cron="0 0 * * *"),
    Rule(cron="*/5 9-17 * * *", timezone="Europe/Berlin"),
    Rule(cron="*/20 * * * * *"),
    Rule(cron="30 2 * * *", timezone="America/New_York", repeat="both"),
    Rule(rrule="FREQ=HOURLY;BYMINUTE=0,30", timezone="Asia/Kolkata"),
    Rule(spec=(Member(cron="0 * * * *"), Member(every_ms=15 * MINUTE_MS), Member(cron="0 0 * * *"))),
    Rule(spec=(Member(every_ms=10_000), Member(cron="*/2 * * * *"))),
)


class Still:
    """A clock that stands still, for work that never waits."""

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0

    async def sleep_ms(self, duration_ms: float) -> None:
        del duration_ms


def forecast(database: InlineDatabase, span: Span, tenant: str | None = None) -> Load:
    """What is collected."""
    return step(collect(database, Whose(tenant), span, Pace(Still())))


def expected(hands: Hands, ids: list[str], span: Span) -> dict[Lane, Counter[int]]:
    """The same, by walking through all times."""
    found: dict[Lane, Counter[int]] = {}
    for schedule_id in ids:
        seen = step(hands.find(schedule_id))
        one = seen.schedule
        left = 10**9 if one.max_fires is None else one.max_fires - one.fired
        if one.paused and one.paused_until is None:
            continue
        begin = one.cursor_at if one.start_at is None else max(one.cursor_at, one.start_at - 1)
        begin = max(begin, one.paused_until or 0) if one.paused else begin
        shade = shade_of(one.rule.timezone, one.calendars, one.skips, seen.calendars)
        counts = found.setdefault((one.tenant, one.template.queue, one.template.host), Counter())
        until = span.to_at - 1 if one.end_at is None else min(one.end_at, span.to_at - 1)
        for fire in fires(one.rule, begin, until):
            if left <= 0:
                break
            if shade.reason(fire.nominal_at) is not None:
                continue
            left -= 1
            due_at = due_of(one, fire.nominal_at)
            if due_at < span.to_at:
                counts[(due_at - span.from_at) // MINUTE_MS] += 1
    return {lane: counts for lane, counts in found.items() if counts}


def counted(load: Load) -> dict[Lane, Counter[int]]:
    found = {
        lane: Counter({minute: round(amount) for minute, amount in enumerate(amounts) if amount})
        for lane, amounts in load.lanes.items()
    }
    return {lane: counts for lane, counts in found.items() if counts}


def _fields(random: Random, now: int) -> dict[str, Any]:
    """What else a schedule may say."""
    fields: dict[str, Any] = {
        "template": FireTemplate(
            random.choice(["a.example", "b.example"]), random.choice(["default", "mail"]), 5, 5, 30_000, 30_000
        )
    }
    if random.random() < 0.3:
        fields["jitter_ms"] = random.choice([500, 20_000, 10 * MINUTE_MS, 3 * HOUR_MS])
    if random.random() < 0.3:
        fields["max_fires"] = random.choice([1, 3, 50])
    if random.random() < 0.2:
        fields["start_at"] = now + random.randrange(2 * HOUR_MS)
    if random.random() < 0.2:
        fields["end_at"] = now + random.randrange(4 * HOUR_MS)
    if random.random() < 0.3:
        fields["calendars"] = (random.choice([CalendarUse("holiday"), CalendarUse("holiday", "include")]),)
    if random.random() < 0.2:
        fields |= {"paused": True, "paused_until": random.choice([None, now + random.randrange(3 * HOUR_MS)])}
    return fields


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_forecast_counts_every_time(seed: int) -> None:
    random = Random(seed)
    database = InlineDatabase()
    world = World(database)
    # Around days on which clocks change, and on which the calendar holds.
    world.now = random.choice([1_799_999_990_000, 1_792_888_000_000, 1_789_000_000_123, 1_804_900_000_000])
    step(world.start())
    hands = Hands(world)
    today = world.now // DAY_MS
    held = Calendar("default", "holiday", 1, world.now, world.now, Content(dates=(Days(today, today),)))
    step(database.write(lambda tx: calendars.put(tx, held)))
    ids = []
    for _ in range(random.randint(1, 12)):
        made = hands.schedule(random.choice(RULES), **_fields(random, world.now))
        ids.append(step(hands.add(made)))
    plain = [
        step(world.create(run_at=world.now + random.randrange(-HOUR_MS, 3 * HOUR_MS)))
        for _ in range(random.randint(0, 5))
    ]
    from_at = world.now - world.now % MINUTE_MS
    span = Span(from_at, from_at + random.choice([1, 3]) * HOUR_MS, world.now)

    load = forecast(database, span)

    wanted = expected(hands, ids, span)
    for state in (step(world.state(task_id)) for task_id in plain):
        minute = max(0, (state.wake_at - from_at) // MINUTE_MS)
        if state.wake_at < span.to_at:
            wanted.setdefault((state.tenant, state.queue, state.host), Counter())[minute] += 1
    assert counted(load) == wanted
    assert load.is_whole


def test_a_long_day_of_one_that_fires_often_costs_little() -> None:
    database = InlineDatabase()
    world = World(database)
    step(world.start())
    hands = Hands(world)
    for _ in range(3):
        step(hands.add(hands.schedule(Rule(every_ms=100))))
    span = Span(world.now, world.now + 168 * HOUR_MS, world.now)
    pace = Pace(Still())

    load = step(collect(database, Whose(None), span, pace))

    # Those of one rule are worked out once, by the minute.
    assert pace.steps < 3 * 168 * 60
    assert sum(map(sum, load.lanes.values())) == 3 * (168 * 36_000 - 1)
    assert load.is_whole


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("SCHEDULES_MAX", "sampled"),
        ("STEPS_MAX", "schedules_left_out"),
        ("SPREAD_EXACT_MAX", "estimated"),
        ("EACH_MAX", "estimated"),
        ("TASKS_MAX", "tasks_left_out"),
        ("CELLS_MAX", "lanes_pooled"),
    ],
)
def test_what_is_too_much_is_said(limit: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"tasktick.api.forecast_load.{limit}", 0 if limit != "SCHEDULES_MAX" else 40)
    monkeypatch.setattr("tasktick.api.forecast_load.TASK_PAGE_ROWS", 2)
    database = InlineDatabase()
    world = World(database)
    step(world.start())
    hands = Hands(world)
    random = Random(5)
    for number in range(80):
        rule = Rule(cron=f"{number % 60} * * * *")
        template = FireTemplate(f"{number}.example", "default", 5, 5, 30_000, 30_000)
        fields: dict[str, Any] = {"jitter_ms": 90 * MINUTE_MS} if number % 2 else {"max_fires": 3}
        step(hands.add(hands.schedule(rule, template=template, partition=random.randrange(256), **fields)))
    for _ in range(5):
        step(world.create(run_at=world.now + HOUR_MS))
    from_at = world.now - world.now % MINUTE_MS
    load = forecast(database, Span(from_at, from_at + 6 * HOUR_MS, world.now))

    assert code in {note.code for note in load.notes}
    total = sum(map(sum, load.lanes.values()))
    if code in ("sampled", "estimated", "lanes_pooled"):
        # 40 that run three times, 40 that run each hour, five tasks: about that, though by a part of them.
        assert total == pytest.approx(40 * 3 + 40 * 6 + 5, rel=0.25)
