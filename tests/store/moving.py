"""A store with something of everything, and what a move makes of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from tasktick.clock import SystemClock
from tasktick.model.calendar import Calendar, Content
from tasktick.model.checkin import Check
from tasktick.model.schedule import CatchUp, Rule
from tasktick.scheduler.check_watch import HEAR, Arrival
from tasktick.scheduler.checkins import AWAY_AFTER_MS, Said, begun
from tasktick.store import calendars, check, checkins, leases, postgres_check, secrets, tenants
from tasktick.store.database import open_sqlite
from tasktick.store.moving import Carried, Moved, Mover, Tools, checksum_of
from tasktick.store.moving_ends import End
from tasktick.store.moving_sqlite import SqliteEnd
from tasktick.store.moving_tables import TABLES
from tasktick.store.postgres_links import PostgresAddress
from tasktick.store.postgres_moving import PostgresEnd
from tasktick.store.protocol import Database
from tasktick.store.rows import KeyRow, SecretRow
from tests.store.calendar import MINUTE_MS
from tests.store.calendar import Calendar as Schedules
from tests.store.drivers import opened, spawn, unexpected
from tests.store.world import HOUR_MS, NOW, TENANT, World

Place = Path | str


class Killed(BaseException):
    """As far as the mover is concerned, the power went."""


class KillAt:
    """Kills at the n-th point; counts them all."""

    def __init__(self, nth: int | None = None, point: str | None = None) -> None:
        self.nth = nth
        self.point = point
        self.seen: list[str] = []

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if len(self.seen) == self.nth or point == self.point:
            raise Killed(point)


def end_of(place: Place, *, may_make: bool = True) -> End:
    """A place as one end of a move."""
    if isinstance(place, Path):
        return SqliteEnd(place, may_make=may_make)
    return PostgresEnd(PostgresAddress(place, "moving tests"), may_make=may_make)


async def move(
    source: Place, target: Place, *, at: Callable[[str], None] = lambda point: None, clock: Any = None, **how: bool
) -> Moved:
    """Move as the command does; whatever happens, all connections are gone after it."""
    ends = end_of(source, may_make=False), end_of(target)
    tools = Tools(clock or SystemClock(), f"{Random().getrandbits(64):016x}", at=at)
    try:
        return await Mover(*ends, tools).move(**how)
    finally:
        for end in ends:
            await end.close()


@asynccontextmanager
async def served(place: Place, folder: Path) -> AsyncIterator[Database]:
    """The store as a daemon opens it."""
    if isinstance(place, Path):
        database = await open_sqlite(place, spawn, unexpected)
        try:
            yield database
        finally:
            await database.close()
        return
    async with opened(PostgresAddress(place, "tests"), folder) as there:
        yield there


async def may_be_served(place: Place, folder: Path) -> bool:
    """Whether a daemon would start on it."""
    from tasktick.errors import StoreMoved

    try:
        if isinstance(place, Path) and not place.exists():
            return False
        async with served(place, folder):
            return True
    except StoreMoved:
        return False


async def fill(database: Database) -> World:
    """Every state, schedules with ledgers, keys of all kinds, secrets, dead letters, nodes: a row in every table."""
    world = World(database)
    world.now = NOW - NOW % HOUR_MS
    await world.start()
    calendar = Schedules(world)
    for catch_up in (CatchUp(), CatchUp("none")):
        schedule_id = await calendar.create(
            Rule(every_ms=MINUTE_MS), catch_up=catch_up, key=f"s-{catch_up.mode}", tags={"a": "ü"}
        )
        for status in (200, 400, 200):
            await calendar.fire(schedule_id, status)
        await calendar.pass_ms(10 * MINUTE_MS, seen=False)
    await _fill_line(calendar)
    for n in range(40):
        await world.create(partition=n * 6 % 256, key=f"key-{n}", run_at=world.now + n * HOUR_MS)
    await world.create_all([world.idempotent(world.task(partition=n), f"once-{n}") for n in range(10)])
    await world.finish(await world.claimed(partition=3))
    await world.finish(await world.claimed(partition=3, max_attempts=1), None)
    await world.finish(await world.claimed(partition=4), 503)
    await world.act("cancel", await world.create(partition=5))
    await world.act("pause", await world.create(partition=6, run_at=world.now + HOUR_MS))
    for partition in (7, 8):
        await world.claimed(partition=partition)
    await world.act("cancel", (await world.claimed(partition=9)).id)
    await database.write(lambda tx: _rest(tx, world))
    await _fill_check(world)
    return world


async def _fill_check(world: World) -> None:
    """A job that runs elsewhere, and what it has said."""
    now = world.now
    check = Check(
        id=world.ids.new(now, 7),
        tenant=TENANT,
        version=1,
        created_at=now,
        updated_at=now,
        grace_ms=1_000,
        period_ms=HOUR_MS,
        ping_hash="h",
        ping_sealed="v1.abcd1234.sealed",
        status="new",
        status_at=now,
        anchor_at=now,
        key="elsewhere",
        tags={"a": "ü"},
    )
    await world.database.write(lambda tx: checkins.create(tx, begun(check, now)))
    said = Arrival("h", Said("fail", now, "run-1", exit_code=3), "POST", "127.0.0.1", "curl", "log ü\n", 7)
    await world.database.write_batch(HEAR, [said])
    await world.database.write(lambda tx: checkins.note_seen(tx, now, AWAY_AFTER_MS))


async def _fill_line(calendar: Schedules) -> None:
    """A fire under way that others wait for, of a schedule that shares a line and has failed before."""
    schedule_id = await calendar.create(overlap="buffer_all", overlap_key="shared", pause_on_failures=5)
    for status in (400, None):
        await calendar.pass_ms(MINUTE_MS)
        task_id = (await calendar.ledger(schedule_id))[-1].row.task_id
        assert task_id is not None
        (claimed,) = await calendar.world.claim(task_id)
        if status is not None:
            await calendar.world.finish(claimed, status)
    await calendar.pass_ms(2 * MINUTE_MS)


async def _rest(tx: Any, world: World) -> None:
    now = world.now
    await secrets.add(tx, SecretRow("1" * 32, TENANT, "signing", "v1.abcd1234.sealed", now))
    await secrets.add_key(tx, KeyRow("2" * 32, "tk_abc", "hash", TENANT, "operator", "operator", now))
    await tenants.put(tx, "acme", max_pending=7, create_rate="5/s", now=now)
    await leases.drain(tx, "node-z", now)
    await calendars.put(tx, Calendar(TENANT, "holidays", 1, now, now, Content(note="ü")))


async def holds(place: Place) -> list[Carried]:
    """What a store holds, table by table, read by an end of its own."""
    end = end_of(place, may_make=False)
    try:
        await end.look()
        found = []
        for table in TABLES:
            await end.columns(table)
            rows = await end.between(table, None, None, 1_000_000)
            assert len(rows) == await end.count(table)
            found.append(Carried(table.name, len(rows), f"{checksum_of(rows) % (1 << 128):032x}"))
        return found
    finally:
        await end.close()


async def faults(place: Place) -> list[check.Check]:
    """What `store check` finds."""
    if isinstance(place, Path):
        report = await asyncio.to_thread(check.check, place, full=True)
    else:
        report = await postgres_check.check(PostgresAddress(place, "tests"))
    return [one for one in report.checks if not one.ok]
