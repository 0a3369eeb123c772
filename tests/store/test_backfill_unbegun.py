"""Fires of a backfill that end before they begin: the ledger says so, and that a backfill had let them run."""

import pytest

from tasktick.model.change import cancel, expire
from tasktick.model.schedule import CatchUp
from tasktick.store import schedules
from tasktick.store.protocol import Transaction
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.filling import fill
from tests.store.world import HOUR_MS, TENANT, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def _filled(calendar: Calendar, name: str, ago: int, *, in_line: bool) -> None:
    """Of the last minutes, what did not run."""
    now = calendar.world.now

    async def operation(tx: Transaction) -> None:
        seen = await schedules.find(tx, TENANT, f"sch_{name}")
        await fill(tx, seen, calendar.moment(), (now - ago * MINUTE_MS, now), in_line=in_line)

    await calendar.world.database.write(operation)


@pytest.mark.parametrize("in_line", [False, True])
@pytest.mark.parametrize("how", ["cancelled", "expired"])
async def test_the_row_says_who_had_let_it_run(calendar: Calendar, how: str, in_line: bool) -> None:
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS + 1, seen=False)
    await _filled(calendar, name, 5, in_line=in_line)
    before = await calendar.ledger(name)
    assert {(one.row.was is None) for one in before if one.row.by_backfill} == {True, False}
    end = {"cancelled": cancel, "expired": expire}[how]
    for one in before:
        if one.row.by_backfill:
            task = await calendar.world.state(str(one.row.task_id))
            assert await calendar.world.write(end(task, calendar.world.now)) == [task.id]

    after = [one.row for one in await calendar.ledger(name)]

    assert {row.reason for row in after if row.by_backfill} == {f"{how}:backfill"}
    assert [row.by_backfill for row in after] == [one.row.by_backfill for one in before]
    assert [row.was for row in after] == [one.row.was for one in before], "what had been decided before stays"
    found = {wanted: await calendar.ledger(name, reason=wanted) for wanted in ("backfill", how, "catch_up")}
    assert [one.row.by_backfill for one in found["backfill"]] == [True] * sum(row.by_backfill for row in after)
    assert found[how] == found["backfill"]
    assert not any(one.row.by_backfill for one in found["catch_up"])


async def test_of_another_fire_the_row_says_its_reason_alone(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.pass_ms(MINUTE_MS)
    task = (await calendar.find(name)).tasks[str((await calendar.row(name)).last_id)]

    await calendar.world.write(cancel(task, calendar.world.now))

    assert await calendar.outcomes(name) == ["skipped(cancelled)"]
    assert await calendar.ledger(name, reason="backfill") == []
