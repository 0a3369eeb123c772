"""What a schedule does next, where a real store would have to be of an older program."""

from random import Random

import msgspec

from tasktick.model.ids import IdMaker
from tasktick.model.schedule import CatchUp, FireTemplate, Recorder, Rule, Schedule
from tasktick.scheduler.book import Moment
from tasktick.scheduler.plan import begin, settle

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIDNIGHT = 1_800_000_000_000 // DAY_MS * DAY_MS


def moment(now: int, tzdata: str) -> Moment:
    """A decision after a gap."""
    return Moment(Recorder(now, "node-a", 1, tzdata), IdMaker(Random(1)), now, 60_000, 1_000)


def test_an_overdue_fire_is_at_its_time_by_the_zone_data_there_is_now() -> None:
    rule = Rule(cron="0 9 * * *")
    schedule = Schedule(
        id=f"{42:032x}",
        tenant="default",
        version=1,
        created_at=MIDNIGHT,
        updated_at=MIDNIGHT,
        rule=rule,
        overlap="allow",
        catch_up=CatchUp("all"),
        template=FireTemplate("receiver.example", "default", 5, 5, 30_000, 30_000),
        payload_version=1,
        cursor_at=MIDNIGHT,
        cursor_local_ms=MIDNIGHT,
    )
    # By the older data the clock was an hour ahead, so that it reads nine an hour later now.
    eastern = Rule(cron="0 8 * * *")
    made = begin(msgspec.structs.replace(schedule, rule=eastern), moment(MIDNIGHT, "old"))
    ahead = made.born[0].state
    seen = msgspec.structs.replace(made.after, rule=rule, next_local_ms=MIDNIGHT + 9 * HOUR_MS)

    plan = settle(seen, {ahead.id: ahead}, moment(MIDNIGHT + 2 * DAY_MS, "new"))

    assert plan is not None
    assert [(row.nominal_at - MIDNIGHT) / HOUR_MS for row in plan.ledger] == [9, 33]
    assert plan.withdrawn == (ahead,)
