"""Calendars in the store: what they hold is skipped, by what stands in them when it is decided."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tasktick.model.calendar import Calendar as Kept
from tasktick.model.calendar import CalendarUse, Content, Days, Range
from tasktick.model.schedule import CatchUp, CatchUpMode, Plan, Rule
from tasktick.model.state import State
from tasktick.scheduler.plan import edit, skip
from tasktick.store import calendars
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen
from tests.store.calendar import MINUTE_MS, Calendar
from tests.store.world import HOUR_MS, TENANT, World

USES = (CalendarUse("holidays"),)


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


def minutes(calendar: Calendar, first: int, last: int) -> Content:
    """From one minute from now to before another."""
    now = calendar.world.now
    return Content(timezone="UTC", ranges=(Range(now + first * MINUTE_MS, now + last * MINUTE_MS),))


async def put(calendar: Calendar, content: Content, name: str = "holidays", tenant: str = TENANT) -> None:
    now = calendar.world.now
    row = Kept(tenant, name, 1, now, now, content)
    await calendar.world.database.write(lambda tx: calendars.put(tx, row))


async def test_it_is_kept_as_it_was_put(calendar: Calendar) -> None:
    content = Content(
        timezone="Europe/Berlin",
        dates=(Days(20_000, 20_003),),
        ranges=(Range(5, 9, rrule="FREQ=DAILY", except_ms=(7,), summary="x"),),
        note="why",
    )
    await put(calendar, minutes(calendar, 1, 2))
    await put(calendar, content)
    await put(calendar, Content(), name="b")
    await put(calendar, Content(), tenant="other")

    database = calendar.world.database
    found = await database.read(lambda tx: calendars.find(tx, TENANT, "holidays"))
    assert found is not None
    assert found.content == content
    assert [one.name for one in await database.read(lambda tx: calendars.page(tx, TENANT, None, 9))] == [
        "b",
        "holidays",
    ]
    assert [one.name for one in await database.read(lambda tx: calendars.page(tx, TENANT, "b", 9))] == ["holidays"]
    both = await database.read(lambda tx: calendars.contents(tx, {(TENANT, "b"), ("other", "b"), (TENANT, "no")}))
    assert both == {(TENANT, "b"): Content()}
    assert await database.write(lambda tx: calendars.lock(tx, TENANT, ["holidays", "no"])) == ["holidays"]
    assert await database.write(lambda tx: calendars.delete(tx, TENANT, "b")) == 1
    assert await database.write(lambda tx: calendars.delete(tx, TENANT, "b")) == 0


async def test_what_it_holds_is_skipped_and_nobody_claims_it(calendar: Calendar) -> None:
    await put(calendar, minutes(calendar, 2, 4))
    name = await calendar.create(calendars=USES, overlap="allow")
    assert await calendar.world.database.read(lambda tx: calendars.users(tx, TENANT, "holidays")) == [name]
    assert await calendar.world.database.read(lambda tx: calendars.users(tx, TENANT, "b")) == []
    for _ in range(5):
        ahead = await calendar.ahead(name)
        calendar.world.now = ahead.due_at
        assert await calendar.world.claim(ahead.id) == [], "it is let go by the decision alone"
        await calendar.settle()

    held = "skipped(calendar:holidays)"
    assert await calendar.outcomes(name) == ["run", held, held, "run", "run"]
    row = await calendar.row(name)
    assert (row.fired, row.skipped, row.missed) == (3, 2, 0)
    assert row.last_id is not None
    assert [one.state for one in await calendar.ledger(name)][1] == State.SKIPPED
    assert len(await calendar.world.claim(row.last_id)) == 1


async def test_a_change_of_it_holds_for_what_is_not_decided(calendar: Calendar) -> None:
    await put(calendar, Content())
    name = await calendar.create(calendars=USES, overlap="allow")
    await calendar.pass_ms(MINUTE_MS)
    await put(calendar, minutes(calendar, 0, 2))
    await calendar.pass_ms(MINUTE_MS)
    await put(calendar, Content())
    await calendar.pass_ms(MINUTE_MS)

    assert await calendar.outcomes(name) == ["run", "skipped(calendar:holidays)", "run"]


async def test_only_within_a_calendar(calendar: Calendar) -> None:
    await put(calendar, minutes(calendar, 2, 4))
    name = await calendar.create(calendars=(CalendarUse("holidays", "include"),), overlap="allow")
    for _ in range(4):
        await calendar.pass_ms(MINUTE_MS)

    held = "skipped(calendar:holidays)"
    assert await calendar.outcomes(name) == [held, "run", "run", held]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("latest", [25]), ("earliest", [1]), ("none", []), ("all", [*range(3, 5), *range(10, 26)])],
)
async def test_what_it_holds_takes_no_part_in_catching_up(
    calendar: Calendar, mode: CatchUpMode, expected: list[int]
) -> None:
    begun = calendar.world.now
    zone = Content(
        timezone="UTC",
        ranges=(
            Range(begun + 5 * MINUTE_MS, begun + 10 * MINUTE_MS),
            Range(begun + 26 * MINUTE_MS, begun + 99 * MINUTE_MS),
        ),
    )
    await put(calendar, zone)
    calendar.missed_rows_max = 4
    name = await calendar.create(calendars=USES, overlap="allow", catch_up=CatchUp(mode, max=18))

    await calendar.pass_ms(30 * MINUTE_MS, seen=False)

    rows = [one.row for one in await calendar.ledger(name)]
    assert sum(row.times for row in rows) == 30
    assert sum(row.times for row in rows if row.reason == "calendar:holidays") == 10
    runs = [(row.nominal_at - begun) // MINUTE_MS for row in rows if row.outcome == "run"]
    assert runs == expected
    row = await calendar.row(name)
    assert (row.fired, row.missed + row.fired + row.skipped) == (len(runs), 30)
    if mode in {"latest", "earliest"}:
        assert [one.missed for one in rows if one.outcome == "run"] == [19]
    assert row.cursor_at == begun + 30 * MINUTE_MS
    edges = [(one.nominal_at, one.until_at or one.nominal_at) for one in rows]
    assert all(before[1] < after[0] for before, after in pairwise(edges)), "no two overlap"


async def test_single_times_are_left_out_and_let_in_again(calendar: Calendar) -> None:
    begun = calendar.world.now
    name = await calendar.create(overlap="allow")
    second, third = begun + 2 * MINUTE_MS, begun + 3 * MINUTE_MS
    await calendar.move(
        name, lambda seen: skip(seen.schedule, (begun + MINUTE_MS, second, third), seen.tasks, calendar.moment())
    )
    assert (await calendar.row(name)).skips == (begun + MINUTE_MS, second, third)
    ahead = await calendar.ahead(name)
    calendar.world.now = ahead.due_at
    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()
    assert (await calendar.row(name)).skips == (second, third), "what is decided is forgotten"
    await calendar.move(name, lambda seen: skip(seen.schedule, (third,), seen.tasks, calendar.moment()))
    for _ in range(3):
        await calendar.pass_ms(MINUTE_MS)

    asked = "skipped(skipped_by_request)"
    assert await calendar.outcomes(name) == [asked, "run", asked, "run"]
    assert (await calendar.row(name)).skips == ()


async def test_an_edit_keeps_the_times_to_leave_out_that_it_still_has(calendar: Calendar) -> None:
    begun = calendar.world.now
    name = await calendar.create()
    skips = tuple(begun + one * MINUTE_MS for one in (2, 3, 4))
    await calendar.move(name, lambda seen: skip(seen.schedule, skips, seen.tasks, calendar.moment()))

    def every_other(seen: Seen) -> Plan:
        schedule = seen.schedule
        wanted = msgspec.structs.replace(schedule, rule=Rule(every_ms=2 * MINUTE_MS))
        return edit(schedule, wanted, seen.tasks, calendar.moment())

    await calendar.move(name, every_other)
    assert (await calendar.row(name)).skips == (skips[0], skips[2])


async def test_a_check_finds_a_schedule_whose_calendar_is_gone(calendar: Calendar) -> None:
    await put(calendar, Content())
    name = await calendar.create(calendars=USES)

    async def broken(tx: Transaction) -> list[list[Any]]:
        return await tx.rows("check_calendars", list[Any])

    assert (await calendar.world.database.read(broken))[0][0] == 0
    await calendar.world.database.write(lambda tx: calendars.delete(tx, TENANT, "holidays"))
    assert await calendar.world.database.read(broken) == [[1, name]]
    await calendar.pass_ms(MINUTE_MS)
    assert await calendar.outcomes(name) == ["run"], "what is not there holds nobody"
