"""The end of a long pause of a schedule with several rules, whose times are counted by walking through them."""

from itertools import pairwise

import msgspec

from tasktick.model.schedule import Rule
from tasktick.model.schedule import pause as pause_plan
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import settle
from tasktick.timetable.policy import WALKED_MAX
from tasktick.timetable.upcoming import walked
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import World

MINUTES = 25_000


async def test_the_end_of_a_long_pause_is_written_down_in_parts(world: World) -> None:
    """Counted at once, a year of two rules holds the event loop up for seconds."""
    world.now -= world.now % MINUTE_MS
    calendar = Calendar(world)
    rule = Rule(spec=(Rule(cron="* * * * *"), Rule(cron="*/2 * * * *")))
    name = await calendar.create(rule)
    begin = world.now
    until = begin + MINUTES * MINUTE_MS
    await calendar.move(name, lambda seen: pause_plan(seen.schedule, seen.tasks, calendar.moment().by, until, None))
    world.now = until + 1

    parts = 0
    while (seen := await calendar.find(name)).schedule.paused:
        plan = settle(seen.schedule, seen.tasks, heeding(calendar.moment(), {}, seen.line))
        assert plan is not None
        assert walked(rule, seen.schedule.cursor_at, plan.after.cursor_at) <= WALKED_MAX + 1
        assert await calendar.write(plan) == [True]
        parts += 1

    assert parts > 1
    rows = [one.row for one in await calendar.ledger(name, limit=10_000)]
    assert {(row.outcome, row.reason) for row in rows} == {("skipped", "paused")}
    assert sum(row.times for row in rows) == seen.schedule.skipped == MINUTES
    edges = [(row.nominal_at, row.last_at) for row in rows]
    assert all(last < first for (_, last), (first, _) in pairwise(edges))
    assert msgspec.structs.asdict(seen.schedule)["next_at"] == until + MINUTE_MS
