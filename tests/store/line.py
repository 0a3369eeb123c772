"""Hands on the lines of a store's schedules: who stands there, and in which state."""

from tasktick.model.line import LineFire
from tasktick.model.state import State
from tasktick.model.task import Claimed, TaskState
from tasktick.scheduler.book import heeding
from tasktick.scheduler.plan import settle
from tasktick.store import lines, schedules
from tests.store.calendar import MINUTE_MS, Calendar


async def states(calendar: Calendar, name: str) -> list[str]:
    """The states of the fires of its ledger, the earliest first."""
    rows = await calendar.ledger(name)
    return [State(one.state).word if one.state is not None else "-" for one in rows]


async def standing(calendar: Calendar, *names: str) -> list[LineFire]:
    """Who stands in their lines."""
    rows = [await calendar.row(name) for name in names]
    return await calendar.world.database.read(lambda tx: lines.read(tx, rows))


async def run(calendar: Calendar, name: str, place: int = -1) -> Claimed:
    """Claim a fire of its ledger."""
    task_id = (await calendar.ledger(name))[place].row.task_id
    assert task_id is not None
    (claimed,) = await calendar.world.claim(task_id)
    return claimed


async def task_of(calendar: Calendar, name: str, place: int) -> TaskState:
    task_id = (await calendar.ledger(name))[place].row.task_id
    assert task_id is not None
    return await calendar.world.state(task_id)


async def under_way(calendar: Calendar, name: str) -> Claimed:
    """Its next fire, decided and running."""
    await calendar.pass_ms(MINUTE_MS)
    return await run(calendar, name)


async def settle_in_turns(calendar: Calendar) -> None:
    """Decide about everything that is due; of those that share a line one at a time is let through."""
    while found := await calendar.world.database.read(lambda tx: schedules.due(tx, calendar.world.now, 100)):
        plans = [settle(one.schedule, one.tasks, heeding(calendar.moment(), one.calendars, one.line)) for one in found]
        assert any(await calendar.write(*[plan for plan in plans if plan is not None]))
