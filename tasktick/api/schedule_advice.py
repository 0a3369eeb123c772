"""What there is to think about a schedule that its rule alone does not say: who else comes then, how long it takes."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from tasktick.model.schedule import Rule
from tasktick.store import attempts, forecast, names, schedules
from tasktick.store.protocol import Transaction
from tasktick.timetable.describe import described_length
from tasktick.timetable.fires import Fire
from tasktick.timetable.lint import Advice
from tasktick.timetable.upcoming import upcoming

MINUTE_MS = 60_000
# So many others in one minute are worth a word; more than the most are not counted.
CROWD_LEAST = 20
CROWD_MOST = 1_000
FIRES_MEASURED = 20
MEASURED_LEAST = 3
GAPS_LOOKED_AT = 20
# With at least so much of it a schedule is no part of a crowd.
SPREAD_LEAST_MS = 60_000
_CROWDED = frozenset({"midnight", "top_of_hour"})


class Known(msgspec.Struct, frozen=True):
    """What the store knows: others in the minute of the first fire, and how long the task has usually taken."""

    others: int = 0
    usual_ms: int | None = None


async def known(tx: Transaction, tenant: str, schedule_id: str | None, first_due_at: int | None) -> Known:
    """What there is to know of a schedule, saved or not, whose first fire is due then."""
    others = 0
    if first_due_at is not None:
        begin = first_due_at - first_due_at % MINUTE_MS
        others = await forecast.next_within(tx, tenant, begin, begin + MINUTE_MS, CROWD_MOST, schedule_id)
    return Known(others, None if schedule_id is None else await _usual_ms(tx, schedule_id))


async def with_key(tx: Transaction, tenant: str, key: str | None) -> str | None:
    """The schedule that has this key."""
    held = None if key is None else await names.find(tx, tenant, schedules.SCHEDULE, key)
    return None if held is None else held.object_id


async def _usual_ms(tx: Transaction, schedule_id: str) -> int | None:
    """How long the last attempts of its last runs took: the middle one of them."""
    rows = await schedules.ledger(tx, schedule_id, outcomes=["run"], limit=FIRES_MEASURED)
    ids = [one.row.task_id for one in rows if one.row.task_id is not None]
    last = await attempts.last(tx, ids, bodies=False) if ids else {}
    took = [
        row.completed_at - row.started_at
        for row in last.values()
        if row.started_at is not None and row.status is not None
    ]
    return int(median(took)) if len(took) >= MEASURED_LEAST else None


def advice_on(rule: Rule, begin: int, fires: Sequence[Fire], jitter_ms: int, found: Known) -> list[Advice]:
    """What follows from it. Fires are those that are shown; they may be too few to see how near they are."""
    said: list[Advice] = []
    if found.others >= CROWD_LEAST and fires and jitter_ms < SPREAD_LEAST_MS:
        many = f"{found.others:,}" if found.others < CROWD_MOST else f"{CROWD_MOST:,} and more"
        said.append(
            Advice(
                "pile_up", f"{many} other schedules come next in the minute of its first fire: `jitter` spreads them."
            )
        )
    coming = fires if len(fires) >= GAPS_LOOKED_AT else upcoming(rule, begin, GAPS_LOOKED_AT)
    gap_ms = min((later.nominal_at - one.nominal_at for one, later in pairwise(coming)), default=0)
    if found.usual_ms is not None and gap_ms and found.usual_ms >= gap_ms:
        said.append(
            Advice(
                "longer_than_interval",
                f"Its task usually takes {described_length(found.usual_ms)}, and its times are as near as "
                f"{described_length(gap_ms)}: `overlap` says what becomes of the next one.",
            )
        )
    return said


def unless_spread(advice: list[Advice], jitter_ms: int) -> list[Advice]:
    """What is spread is no part of a crowd."""
    return [one for one in advice if one.code not in _CROWDED or jitter_ms < SPREAD_LEAST_MS]
