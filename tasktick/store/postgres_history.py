"""What has finished moves aside on a PostgreSQL, into tables by the day on which it ended, which go whole.

The hot tables hold what is to come, what runs, and what ended a moment ago: so a claim costs the same beside ten
million finished tasks as beside none. A reader's snapshot has each task in one place; who writes to a finished task
brings it back first (`tasks.change`, `tasks.delete`). A day is gone for everybody by one commit, with its counts; its
tables are detached and dropped afterwards, outside any transaction, by whichever node comes to it.

If a day's tables cannot be made, what ended on it stays in the hot tables, and is found, counted and removed there as
on SQLite. There is no partition for the rest: with one, no other could be detached concurrently.
"""

import msgspec

from tasktick import logs
from tasktick.errors import StoreError
from tasktick.model.ids import partition_of
from tasktick.store.connect import PostgresConnection, fault_of
from tasktick.store.counts import Deltas
from tasktick.store.postgres import PostgresTransaction
from tasktick.store.postgres_links import PostgresLink
from tasktick.store.protocol import Lane, Transaction, Writer, only
from tasktick.store.rows import Count, Ended

log = logs.get("store")

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
DAYS_AHEAD = 14
# What ended a moment ago is asked for most.
MOVE_AFTER_MS = 600_000
ROWS_MAX = 500
# What is moved at once of bodies, by their size on the disk: far less than a statement has time for.
BYTES_MAX = 8_388_608
LEFTOVERS_AT_ONCE = 8


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where in the order of their end the look at finished tasks has come to."""

    completed_at: int = -1
    id: str = ""


class Moved(msgspec.Struct, frozen=True, array_like=True):
    """What a batch came to."""

    rows: int
    more: bool
    last: Place | None
    lacking: list[int]


def day_of(at: int) -> int:
    """The first millisecond of the day (UTC) of an instant."""
    return at - at % DAY_MS


class PostgresHistory:
    """The upkeep of history: any node does it, one at a time."""

    def __init__(self, writer: Writer, link: PostgresLink) -> None:
        self._writer = writer
        self._link = link
        self._place = Place()
        self._looked_ahead_at: int | None = None

    async def step(self, now: int, before: int) -> bool:
        """Make days ahead, move a batch, let a day go that ended before; whether there is more to do at once."""
        if self._looked_ahead_at is None or abs(now - self._looked_ahead_at) >= HOUR_MS:
            self._looked_ahead_at = now
            self.restart()
            await self.make_ahead(now)
        more = await self.move(now - MOVE_AFTER_MS)
        gone = await self._writer.write(lambda tx: let_go(tx, before), Lane.UPKEEP)
        await self.drop_leftovers()
        return more or gone is not None

    def restart(self) -> None:
        """Look from the beginning again: what stayed may go by now."""
        self._place = Place()

    async def make_ahead(self, now: int) -> None:
        """Make the tables of the days to come."""
        await self.make_days([day_of(now) + n * DAY_MS for n in range(DAYS_AHEAD + 1)])

    async def make_days(self, days: list[int]) -> None:
        """Make the tables of these days. Failing is no fault: what belongs there stays where it is."""
        try:
            lacking = await self._writer.write(lambda tx: lacking_of(tx, days), Lane.UPKEEP)
            for day in lacking:
                await self._writer.write(lambda tx, day=day: _make(tx, day), Lane.UPKEEP)  # type: ignore[misc] # bound
        except Exception as error:
            if not isinstance(error, StoreError) and fault_of(error) is None:
                raise
            log.warning("history_days_not_made", error=str(error))

    async def move(self, before: int) -> bool:
        """Move a batch of what finished by then; whether there are more to look at."""
        found = await self._writer.write(lambda tx: move(tx, before, self._place), Lane.UPKEEP)
        if found is not None and found.lacking:
            await self.make_days(found.lacking)
            found = await self._writer.write(lambda tx: move(tx, before, self._place), Lane.UPKEEP)
        if found is None:
            return False
        self._place = found.last or self._place
        if found.rows:
            log.debug("history_moved", tasks=found.rows)
        return found.more

    async def drop_leftovers(self) -> None:
        """Detach and drop the tables of days that are gone; who is in the way is not waited for for long."""
        try:
            await drop_leftovers(await self._link.raw(), LEFTOVERS_AT_ONCE)
        except Exception as error:
            if not isinstance(error, StoreError) and fault_of(error) is None:
                raise
            log.info("history_table_stays", error=str(error) or type(error).__name__)

    async def close(self) -> None:
        """End its connection."""
        await self._link.close()


async def lacking_of(tx: Transaction, days: list[int]) -> list[int]:
    """Which of these days have no tables."""
    return await tx.rows("history_days_lacking", int, days=days)


async def _make(tx: Transaction, day: int) -> list[int]:
    return await tx.rows("history_make_days", int, days=[day])


async def move(tx: Transaction, before: int, place: Place, limit: int = ROWS_MAX) -> Moved | None:
    """Move some of what finished by then, from this place on; nothing, if another node is at it."""
    if await tx.rows("history_turn", bool) != [True]:
        return None
    asked = {"before": before, "after": place.completed_at, "after_id": place.id}
    return only(await tx.rows("history_move", Moved, limit=limit, bytes_max=BYTES_MAX, **asked))


async def let_go(tx: Transaction, before: int) -> int | None:
    """The oldest day is gone, if it was over by then, and the counts say so; which one."""
    day = only(await tx.rows("history_oldest_day", int, before=before))
    if day is not None:
        await _goes(tx, day, await _counted(tx, day))
    return day


async def drop_day(tx: Transaction, day: int, tasks: int) -> bool:
    """A day is gone, if it holds so many tasks or is gone already. No older one may be left."""
    if not await tx.rows("history_day_oldest", int, from_at=day):
        if day in await days_of(tx, day + DAY_MS):
            raise StoreError("An older day of history is still there: days go in order. Run the command again.")
        return True
    counted = await _counted(tx, day)
    if sum(one.tasks for one in counted) != tasks:
        return False
    await _goes(tx, day, counted)
    return True


async def _counted(tx: Transaction, day: int) -> list[Count]:
    return await tx.rows("history_counted", Count, from_at=day)


async def _goes(tx: Transaction, day: int, counted: list[Count]) -> None:
    deltas = Deltas()
    for one in counted:
        deltas.forgotten(one.tenant, one.state, one.tasks)
    await tx.run("history_day_goes", from_at=day)
    await deltas.write(tx)
    log.info("history_day_gone", from_at=day)


async def sum_of_day(tx: Transaction, day: int) -> str:
    """A sum over the tasks of a day of history, as they are now."""
    return (await tx.rows("history_sum", str, from_at=day, until=day + DAY_MS))[0]


async def days_of(tx: Transaction, before: int) -> list[int]:
    """The days of history that are over by then."""
    return await tx.rows("history_days", int, before=before)


async def history_page(tx: Transaction, from_at: int, last: Ended | None) -> list[Ended]:
    """Tasks of a day of history, in the order of their key."""
    after = {"after": -1, "after_id": ""} if last is None else {"after": partition_of(last.id), "after_id": last.id}
    return await tx.rows("history_page", Ended, from_at=from_at, until=from_at + DAY_MS, limit=ROWS_MAX, **after)


async def drop_leftovers(raw: PostgresConnection, at_once: int = 10_000) -> None:
    """Detach and drop, one after another, the tables of days that are gone."""
    tx = PostgresTransaction(raw)
    for _ in range(at_once):
        text = only(await tx.rows("history_leftover", str))
        if text is None:
            await tx.run("history_days_forget")
            return
        await raw.execute(text)
