"""Times that were missed or skipped, and run later after all: task, ledger and counts in one transaction."""

import pytest

from tasktick.model.change import run
from tasktick.model.schedule import CatchUp, Plan, Recorder
from tasktick.model.state import State
from tasktick.store import check, retention, tasks
from tasktick.store.protocol import Transaction
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, NODE, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def counts(calendar: Calendar, name: str) -> tuple[int, int, int, int]:
    """Fired, skipped, missed, failed."""
    row = await calendar.row(name)
    return row.fired, row.skipped, row.missed, row.failed


async def faults(calendar: Calendar) -> list[str]:
    """What the checks of the store find in its rows."""
    found = [(name, await calendar.world.database.read(look)) for name, look in check.contents()]
    return [f"{name}: {detail}" for name, (ok, detail) in found if not ok]


async def run_later(calendar: Calendar, *ids: str) -> list[str]:
    """Take up tasks that have ended; those that were."""

    async def operation(tx: Transaction) -> list[str]:
        rows = await tasks.states(tx, list(ids))
        changes = [run(row, calendar.world.now) for row in rows]
        by = Recorder(calendar.world.now, "by-hand", 7, "2027z")
        return await tasks.change(tx, changes, of_many=True, deciding=lambda _: by)

    return await calendar.world.database.write(operation)


async def test_a_missed_time_that_runs_later_keeps_its_row_and_what_was_decided(calendar: Calendar) -> None:
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS, seen=False)
    missed = [one for one in await calendar.ledger(name) if one.row.outcome == "missed"]
    before = await counts(calendar, name)
    task_id = missed[0].row.task_id
    assert task_id is not None

    assert await run_later(calendar, task_id) == [task_id]

    first = (await calendar.ledger(name))[0]
    assert (first.row.outcome, first.row.reason, first.row.task_id) == ("run", "run_later", task_id)
    assert (first.row.node, first.row.epoch, first.row.tzdata) == ("by-hand", 7, "2027z")
    was = first.row.was
    assert was is not None
    assert (was.outcome, was.reason, was.node) == ("missed", "catch_up:none", NODE)
    assert await counts(calendar, name) == (before[0] + 1, before[1], before[2] - 1, before[3])
    assert len(await calendar.world.claim(task_id)) == 1
    assert await faults(calendar) == []


async def test_it_runs_once_whoever_comes_second(calendar: Calendar) -> None:
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(2 * MINUTE_MS, seen=False)
    task_id = str((await calendar.ledger(name))[0].row.task_id)
    rows = await calendar.world.database.read(lambda tx: tasks.states(tx, [task_id]))
    changes = [run(row, calendar.world.now) for row in rows]

    first = await calendar.world.database.write(lambda tx: tasks.change(tx, changes))
    second = await calendar.world.database.write(lambda tx: tasks.change(tx, changes))

    assert (first, second) == ([task_id], [])
    assert (await counts(calendar, name))[0] == [one.row.outcome for one in await calendar.ledger(name)].count("run")


async def test_a_fire_that_was_cancelled_before_its_time_counts_as_a_run_once_it_runs(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    await calendar.world.act("cancel", ahead.id)
    await calendar.pass_ms(MINUTE_MS)
    assert await calendar.outcomes(name) == ["skipped(cancelled)"]

    await run_later(calendar, ahead.id)

    assert await calendar.outcomes(name) == ["run(run_later)"]
    assert await counts(calendar, name) == (1, 0, 0, 0)
    assert await faults(calendar) == []


async def test_a_run_by_hand_takes_the_place_of_one_of_max_fires(calendar: Calendar) -> None:
    name = await calendar.create(max_fires=2, catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS + 1, seen=False)
    ledger = await calendar.ledger(name)
    assert [one.row.outcome for one in ledger].count("run") == 1
    ahead = await calendar.ahead(name)

    await run_later(calendar, str(ledger[0].row.task_id))
    calendar.world.now = ahead.due_at

    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()
    row = await calendar.row(name)
    assert (row.fired, row.next_id, row.ended) == (2, None, True)
    assert await faults(calendar) == []


async def test_a_plan_made_before_a_time_ran_later_is_stale(calendar: Calendar) -> None:
    name = await calendar.create(catch_up=CatchUp("none"))
    await calendar.pass_ms(3 * MINUTE_MS, seen=False)
    seen = await calendar.find(name)
    await run_later(calendar, str((await calendar.ledger(name))[0].row.task_id))

    plan = Plan(seen.schedule, seen.schedule, tuple(seen.tasks.values()))

    assert await calendar.write(plan) == [False]


async def test_who_gives_up_counts_once_and_a_trigger_never(calendar: Calendar) -> None:
    name = await calendar.create()
    assert await calendar.fire(name, 404) is State.DEAD
    dead = str((await calendar.ledger(name))[0].row.task_id)
    assert await counts(calendar, name) == (1, 0, 0, 1)

    await run_later(calendar, dead)
    [claimed] = await calendar.world.claim(dead)
    assert await calendar.world.finish(claimed, 404) is State.DEAD

    assert await counts(calendar, name) == (1, 0, 0, 1)
    assert [one.row.failed for one in await calendar.ledger(name)] == [True]
    assert await faults(calendar) == []


async def test_who_gives_up_before_it_is_written_down_counts(calendar: Calendar) -> None:
    name = await calendar.create()
    claimed = await calendar.run_ahead(name)
    assert await calendar.world.finish(claimed, 404) is State.DEAD
    assert await counts(calendar, name) == (0, 0, 0, 0)

    await calendar.settle()

    assert await counts(calendar, name) == (1, 0, 0, 1)
    assert await faults(calendar) == []


async def test_what_retention_takes_stays_counted(calendar: Calendar) -> None:
    name = await calendar.create(catch_up=CatchUp("none"))
    calendar.missed_rows_max = 2
    await calendar.pass_ms(9 * MINUTE_MS, seen=False)
    before = await counts(calendar, name)
    first = (await calendar.ledger(name))[0].row
    assert first.times > 1
    calendar.world.now += 24 * HOUR_MS

    removed = await calendar.world.database.write(lambda tx: retention.remove_ledger(tx, calendar.world.now, 100))

    assert removed == 1  # the others have their tasks still
    row = await calendar.row(name)
    assert await counts(calendar, name) == before
    assert (row.gone_from, row.gone_until) == (first.nominal_at, first.last_at)
    assert await faults(calendar) == []


async def test_a_count_that_is_off_is_found(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.fire(name)
    await calendar.world.database.write(
        lambda tx: tx.run("schedule_recount", rows=[[name, 1, 0, 0, calendar.world.now]])
    )

    assert [one.split(":")[0] for one in await faults(calendar)] == ["fire counts"]
