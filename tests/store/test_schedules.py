"""Schedules in the store: what becomes of each nominal time, in the transaction that writes it."""

import pytest

from tasktick.model.schedule import CatchUp, Member, Rule, pause, stand_still
from tasktick.model.state import State
from tasktick.scheduler.plan import edit, resume, settle
from tasktick.store import retention, schedules, tasks
from tests.store.calendar import MINUTE_MS, Calendar, replaced
from tests.store.drivers import skip_where_history_moves
from tests.store.world import HOUR_MS, TENANT, World


@pytest.fixture
def calendar(world: World) -> Calendar:
    world.now -= world.now % HOUR_MS
    return Calendar(world)


async def test_one_fire_exists_ahead(calendar: Calendar) -> None:
    name = await calendar.create()

    ahead = await calendar.ahead(name)

    assert (ahead.state, ahead.run_at) == (State.SCHEDULED, calendar.world.now + MINUTE_MS)
    assert await calendar.outcomes(name) == []


async def test_a_fire_that_ran_is_in_the_ledger_and_the_next_is_there(calendar: Calendar) -> None:
    name = await calendar.create()
    begun = calendar.world.now

    assert [await calendar.fire(name) for _ in range(3)] == [State.SUCCEEDED] * 3

    ledger = await calendar.ledger(name)
    assert [one.row.nominal_at - begun for one in ledger] == [MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS]
    assert {(one.row.outcome, one.state, one.row.tzdata) for one in ledger} == {("run", State.SUCCEEDED, "2026a")}
    row = await calendar.row(name)
    assert (row.fired, row.skipped, row.missed, row.last_fire_at) == (3, 0, 0, begun + 3 * MINUTE_MS)


async def test_a_fire_sends_what_its_schedule_sends(calendar: Calendar) -> None:
    name = await calendar.create()
    claimed = await calendar.run_ahead(name)
    keys = [(claimed.payload_id, claimed.payload_version)]

    stored = await calendar.world.database.read(lambda tx: schedules.templates(tx, [name]))

    sent = await calendar.world.database.read(lambda tx: tasks.payloads(tx, keys))
    assert [one.payload for one in sent] == [stored[name]]


async def test_a_fire_still_under_way_is_met_by_its_next_as_overlap_has_it(calendar: Calendar) -> None:
    skip, buffer, allow = [await calendar.create(overlap=one) for one in ("skip", "buffer_one", "allow")]
    claims = [await calendar.run_ahead(one) for one in (skip, buffer, allow)]
    await calendar.settle()

    for name in (skip, buffer):
        assert await calendar.world.claim((await calendar.ahead(name)).id) == []
    await calendar.pass_ms(2 * MINUTE_MS)

    assert await calendar.outcomes(skip) == ["run", "skipped(overlap)", "skipped(overlap)"]
    assert await calendar.outcomes(buffer) == ["run", "run(buffered)", "skipped(overlap)"]
    assert await calendar.outcomes(allow) == ["run", "run", "run"]
    for claimed in claims:
        await calendar.world.finish(claimed)
    await calendar.pass_ms(MINUTE_MS)
    assert (await calendar.outcomes(skip))[-1] == "run"
    states = [one.state for one in await calendar.ledger(buffer)]
    assert states == [State.SUCCEEDED, State.SCHEDULED, State.SKIPPED, State.BLOCKED]


async def test_a_buffered_fire_goes_when_the_one_before_it_ends(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_one")
    claimed = await calendar.run_ahead(name)
    await calendar.pass_ms(MINUTE_MS)
    waiting = (await calendar.row(name)).buffered_id
    assert waiting is not None
    assert (await calendar.world.state(waiting)).state is State.BLOCKED

    ended = await calendar.world.end(await calendar.world.answered(claimed))

    assert [one.woken.id if one.woken else None for one in ended] == [waiting]
    assert (await calendar.world.state(waiting)).state is State.SCHEDULED
    assert len(await calendar.world.claim(waiting)) == 1
    assert (await calendar.row(name)).buffered_id is None


async def test_a_buffered_fire_goes_when_the_one_before_it_is_cancelled(calendar: Calendar) -> None:
    name = await calendar.create(overlap="buffer_one")
    claimed = await calendar.run_ahead(name)
    assert await calendar.world.finish(claimed, 500) is State.RETRYING
    await calendar.pass_ms(MINUTE_MS)
    waiting = (await calendar.row(name)).buffered_id
    assert waiting is not None

    await calendar.world.act("cancel", claimed.id)

    assert (await calendar.world.state(waiting)).state is State.SCHEDULED


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("latest", ["missed(catch_up:latest)"] * 9 + ["run"]),
        ("earliest", ["run"] + ["missed(catch_up:earliest)"] * 9),
        ("none", ["missed(catch_up:none)"] * 8 + ["run"] * 2),
        ("all", ["run"] * 10),
    ],
)
async def test_a_gap_is_caught_up_with(calendar: Calendar, mode: str, wanted: list[str]) -> None:
    name = await calendar.create(overlap="allow", catch_up=CatchUp(mode))  # type: ignore[arg-type] # one of them

    await calendar.pass_ms(10 * MINUTE_MS, seen=False)

    assert await calendar.outcomes(name) == wanted
    row = await calendar.row(name)
    assert (row.fired, row.missed) == (wanted.count("run"), 10 - wanted.count("run"))
    assert sum(one.row.missed for one in await calendar.ledger(name)) == (9 if mode in {"latest", "earliest"} else 0)


async def test_what_was_seen_is_late_and_runs(calendar: Calendar) -> None:
    name = await calendar.create(overlap="allow", catch_up=CatchUp("none"))

    await calendar.pass_ms(10 * MINUTE_MS)

    assert await calendar.outcomes(name) == ["run"] * 10


async def test_a_fire_ahead_is_not_claimed_late_before_its_schedule_has_decided(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    calendar.world.now += HOUR_MS
    calendar.gap_until = calendar.world.now

    assert await calendar.world.claim(ahead.id) == []
    await calendar.settle()

    assert (await calendar.world.state(ahead.id)).state is State.MISSED
    assert (await calendar.outcomes(name))[-1] == "run"


async def test_a_long_gap_is_a_stretch_and_its_latest_times(calendar: Calendar) -> None:
    calendar.missed_rows_max = 5
    name = await calendar.create()
    begun = calendar.world.now

    await calendar.pass_ms(100 * MINUTE_MS, seen=False)

    ledger = await calendar.ledger(name)
    assert [one.row.times for one in ledger] == [94, 1, 1, 1, 1, 1, 1]
    assert (ledger[0].row.nominal_at, ledger[0].row.until_at) == (begun + MINUTE_MS, begun + 94 * MINUTE_MS)
    assert (ledger[0].row.task_id, ledger[-1].row.outcome, ledger[-1].row.missed) == (None, "run", 99)


async def test_a_pause_takes_the_fire_ahead_back_and_its_times_are_skipped(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, None, "fair"))
    assert await calendar.world.database.read(lambda tx: schedules.seen(tx, [])) == []
    with pytest.raises(IndexError):
        await calendar.world.state(ahead.id)
    await calendar.pass_ms(3 * MINUTE_MS)
    assert await calendar.outcomes(name) == []

    await calendar.move(name, lambda seen: resume(seen.schedule, seen.tasks, calendar.moment()))

    assert await calendar.outcomes(name) == ["skipped(paused)"] * 3
    assert await calendar.fire(name) is State.SUCCEEDED


async def test_a_pause_ends_by_itself(calendar: Calendar) -> None:
    name = await calendar.create()
    until = calendar.world.now + 2 * MINUTE_MS + 1
    await calendar.move(name, lambda seen: pause(seen.schedule, seen.tasks, calendar.moment().by, until, None))

    await calendar.pass_ms(2 * MINUTE_MS + 1)

    assert await calendar.outcomes(name) == ["skipped(paused)"] * 2
    assert (await calendar.row(name)).paused is False


async def test_an_edit_begins_after_now_and_loses_nothing(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.fire(name)
    claimed = await calendar.run_ahead(name)
    wanted = Rule(every_ms=7 * MINUTE_MS)

    await calendar.move(
        name, lambda seen: edit(seen.schedule, replaced(seen.schedule, rule=wanted), seen.tasks, calendar.moment())
    )

    assert await calendar.outcomes(name) == ["run", "run"]
    ahead = await calendar.ahead(name)
    assert ahead.run_at % (7 * MINUTE_MS) == 0
    assert ahead.run_at > calendar.world.now
    await calendar.world.finish(claimed)


@pytest.mark.parametrize("bound", ["max_fires", "end_at"])
async def test_the_end_of_a_schedule(calendar: Calendar, bound: str) -> None:
    if bound == "max_fires":
        name = await calendar.create(max_fires=2)
    else:
        name = await calendar.create(end_at=calendar.world.now + 2 * MINUTE_MS)

    await calendar.fire(name)
    await calendar.fire(name)

    assert (await calendar.row(name)).ended
    assert await calendar.outcomes(name) == ["run", "run"]


async def test_a_receiver_that_is_gone_pauses_its_schedule(calendar: Calendar) -> None:
    name = await calendar.create()

    assert await calendar.fire(name, 410) is State.DEAD

    row = await calendar.row(name)
    assert (row.paused, row.failed, row.next_id) == (True, 1, None)
    assert "410" in (row.note or "")


async def test_a_plan_that_is_stale_changes_nothing(calendar: Calendar) -> None:
    name = await calendar.create()
    calendar.world.now += MINUTE_MS
    seen = await calendar.find(name)
    plan = settle(seen.schedule, seen.tasks, calendar.moment())
    assert plan is not None
    await calendar.run_ahead(name)

    assert await calendar.write(plan) == [False]
    assert await calendar.outcomes(name) == []


async def test_only_the_owner_of_its_partition_decides(calendar: Calendar) -> None:
    name = await calendar.create()
    calendar.world.now += MINUTE_MS
    seen = await calendar.find(name)
    plan = settle(seen.schedule, seen.tasks, calendar.moment())
    assert plan is not None
    await calendar.world.start("incarnation-2")
    calendar.world.incarnation = "incarnation-1"

    assert await calendar.write(plan) == [False]
    calendar.world.incarnation = "incarnation-2"
    assert await calendar.write(plan) == [True]


async def test_other_zone_data_moves_the_fire_ahead(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    calendar.tzdata = "2026b"

    await calendar.world.database.write(lambda tx: schedules.outdate(tx, calendar.world.now, "2026b"))
    await calendar.settle()

    assert (await calendar.row(name)).tzdata == "2026b"
    assert (await calendar.ahead(name)).id == ahead.id, "it was the same time"


async def test_other_zone_data_is_taken_up_a_few_at_a_time(calendar: Calendar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "OUTDATED_MAX", 2)
    names = [await calendar.create() for _ in range(3)]
    write, now = calendar.world.database.write, calendar.world.now
    taken = [await write(lambda tx: schedules.outdate(tx, now, "2026b")) for _ in range(3)]
    assert taken == [2, 1, 0]
    assert [(await calendar.row(name)).look_at for name in names] == [now] * 3


async def test_a_deleted_schedule_leaves_its_ledger_and_no_fire(calendar: Calendar) -> None:
    name = await calendar.create()
    await calendar.fire(name)

    async def operation(tx: object) -> None:
        seen = await schedules.find(tx, TENANT, f"sch_{name}")  # type: ignore[arg-type] # a transaction
        plan = stand_still(seen.schedule, seen.tasks, calendar.moment().by, "deleted")
        await schedules.delete(tx, plan)  # type: ignore[arg-type] # as above

    await calendar.world.database.write(operation)

    assert await calendar.outcomes(name) == ["run"]
    assert await calendar.settle() == 0


async def test_a_fire_that_is_held_by_hand_goes_when_it_is_resumed(calendar: Calendar) -> None:
    name = await calendar.create()
    ahead = await calendar.ahead(name)
    await calendar.world.act("pause", ahead.id)
    await calendar.pass_ms(3 * MINUTE_MS, seen=False)

    await calendar.world.act("resume", ahead.id)

    assert len(await calendar.world.claim(ahead.id)) == 1
    assert (await calendar.outcomes(name))[0] == "run"


async def test_a_fire_that_was_cancelled_ahead_of_its_time_was_skipped(calendar: Calendar) -> None:
    name = await calendar.create(Rule(every_ms=60 * 24 * HOUR_MS))
    ahead = await calendar.ahead(name)
    await calendar.world.act("cancel", ahead.id)
    calendar.world.now += 40 * 24 * HOUR_MS
    before = calendar.world.now - 30 * 24 * HOUR_MS
    await calendar.world.database.write(lambda tx: retention.remove_finished(tx, before, 100))

    calendar.world.now = ahead.due_at
    await calendar.settle()

    assert await calendar.outcomes(name) == ["skipped(cancelled)"]


async def test_the_ledger_goes_when_it_is_old_and_its_tasks_are_gone(calendar: Calendar) -> None:
    skip_where_history_moves(calendar.world.database)
    name = await calendar.create()
    await calendar.fire(name)
    await calendar.fire(name)
    later = calendar.world.now + 1
    assert await calendar.world.database.write(lambda tx: retention.remove_ledger(tx, later, 100)) == 0

    await calendar.world.database.write(lambda tx: retention.remove_finished(tx, later, 1))

    assert await calendar.world.database.write(lambda tx: retention.remove_ledger(tx, later, 100)) == 1
    assert len(await calendar.ledger(name)) == 1


async def test_what_a_schedule_once_sent_is_kept_as_long_as_a_fire_names_it(calendar: Calendar) -> None:
    name = await calendar.create()
    claimed = await calendar.run_ahead(name)
    payload = await calendar.world.payload(claimed)
    await calendar.world.database.write(lambda tx: schedules.add_template(tx, name, 2, payload))

    assert await calendar.world.database.write(lambda tx: schedules.purge(tx, 0, 100)) == 0
    await calendar.world.finish(claimed)
    await calendar.world.database.write(
        lambda tx: tasks.delete(tx, [(claimed.id, claimed.tenant, int(State.SUCCEEDED))])
    )

    assert await calendar.world.database.write(lambda tx: schedules.purge(tx, 0, 100)) == 1


async def test_several_rules_are_kept_and_caught_up_with_as_one(calendar: Calendar) -> None:
    rule = Rule(
        spec=(Member(cron="*/5 * * * *"), Member(every_ms=2 * MINUTE_MS), Member(rrule="FREQ=HOURLY;BYMINUTE=0,10")),
        timezone="Europe/Berlin",
    )
    calendar.missed_rows_max = 10
    name = await calendar.create(rule)
    assert (await calendar.row(name)).rule == rule

    await calendar.pass_ms(3 * HOUR_MS, seen=False)

    rows = [one.row for one in await calendar.ledger(name)]
    # 30 even minutes of each hour, and the 6 odd ones in which 5 minutes end.
    assert sum(row.times for row in rows) == 3 * 36
    assert [(row.outcome, row.missed, row.collapsed) for row in rows][-1] == ("run", 3 * 36 - 1, 3)
    assert len(rows) == 12, "a stretch, the latest ten that are missed, and the one that runs"
    after = await calendar.row(name)
    assert (after.fired, after.missed) == (1, 3 * 36 - 1)
    assert (await calendar.ahead(name)).run_at == calendar.world.now + 2 * MINUTE_MS
