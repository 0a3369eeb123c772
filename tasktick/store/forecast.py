"""What is to come, as a forecast reads it: slice by slice, so that no reading lasts."""

from collections.abc import Mapping

import msgspec

from tasktick.model.calendar import CalendarUse
from tasktick.model.ids import PARTITIONS
from tasktick.model.schedule import Rule
from tasktick.store.due import Stretch
from tasktick.store.protocol import Transaction

# After every name that a tenant can have.
LAST_TENANT = "~"


class Whose(msgspec.Struct, frozen=True):
    """One tenant's, or everybody's."""

    tenant: str | None

    @property
    def bounds(self) -> Mapping[str, str]:
        """As the statements ask for it: from the first tenant to the last."""
        first, last = ("", LAST_TENANT) if self.tenant is None else (self.tenant, self.tenant)
        return {"first_tenant": first, "last_tenant": last}


class Outline(msgspec.Struct, frozen=True):
    """As much of a schedule as says when it will fire, and where to."""

    id: str
    tenant: str
    rule: Rule
    jitter_ms: int
    queue: str
    host: str
    cursor_at: int
    fired: int
    calendars: tuple[CalendarUse, ...] = ()
    skips: tuple[int, ...] = ()
    start_at: int | None = None
    end_at: int | None = None
    max_fires: int | None = None
    paused: bool = False
    paused_until: int | None = None
    next_at: int | None = None
    ahead_state: int | None = None
    ahead_wake_at: int | None = None


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """How many tasks of a lane wait for a minute, counted from the first one asked for."""

    tenant: str
    queue: str
    host: str
    minute: int
    tasks: int


class WaitingPage(msgspec.Struct, frozen=True, array_like=True):
    """What was read, and where it ended."""

    rows: int
    last_at: int | None
    last_id: str | None
    counts: list[Waiting]


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """How long attempts at a host have lasted."""

    host: str
    attempts: int
    mean_ms: float


async def extent(tx: Transaction, whose: Whose) -> int:
    """How many schedules there are."""
    return (await tx.rows("forecast_extent", int, **whose.bounds))[0]


async def outlines(
    tx: Transaction, whose: Whose, beyond: tuple[str, str], limit: int, partitions: list[str] | None = None
) -> list[Outline]:
    """A page of schedules beyond (tenant, id), of these partitions (all, if None)."""
    return await tx.rows(
        "forecast_schedules",
        Outline,
        **whose.bounds,
        beyond_tenant=beyond[0],
        beyond_id=beyond[1],
        partitions=partitions,
        limit=limit,
    )


async def waiting(tx: Transaction, whose: Whose, stretch: Stretch, from_at: int, limit: int) -> WaitingPage:
    """A page of the tasks that wait, by minute from `from_at` on."""
    asked = {"from_at": from_at, "limit": limit, **stretch.bounds}
    [page] = await tx.rows("forecast_tasks", WaitingPage, **whose.bounds, **asked)
    return page


async def durations(tx: Transaction, since: int, limit: int) -> list[Measured]:
    """How long attempts have lasted of late, by host."""
    return await tx.rows("forecast_durations", Measured, since=since, limit=limit)


async def next_within(
    tx: Transaction, tenant: str, from_at: int, until: int, limit: int, but_id: str | None = None
) -> int:
    """How many schedules of a tenant, but for one, come next in this stretch of time."""
    [found] = await tx.rows(
        "schedules_next_within", int, tenant=tenant, from_at=from_at, until=until, limit=limit, but_id=but_id
    )
    return found


def sample(total: int, rows_max: int) -> list[str] | None:
    """The partitions to read of so many schedules, spread over all of them; None: there is room for all.

    Which partition a schedule is in is a matter of chance, so a part of them is a fair sample.
    """
    if total <= rows_max:
        return None
    wanted = max(1, PARTITIONS * rows_max // total)
    return [f"{place * PARTITIONS // wanted:02x}" for place in range(wanted)]
