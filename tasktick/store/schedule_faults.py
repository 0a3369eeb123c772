"""What is told of schedules, in the transaction of the fact: times that were missed, fires that gave up.

That a fire is late is told in `lateness`, that a schedule stands still in `schedule_events`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tasktick.model.attempt import End
from tasktick.model.ids import wire
from tasktick.model.schedule import Plan
from tasktick.model.state import State
from tasktick.model.task import TaskState
from tasktick.store.events import Told
from tasktick.store.lateness import LATE
from tasktick.store.protocol import Transaction

MISSED, FAILING, RECOVERED = "schedule.missed", "schedule.failing", "schedule.recovered"
TYPES = (MISSED, LATE, FAILING, RECOVERED)


async def tell_plans(tx: Transaction, plans: Iterable[Plan]) -> None:
    """What of these plans somebody may want to know, once they are written."""
    told = Told(0)
    latest = 0
    for plan in plans:
        for row in plan.ledger:
            if row.outcome == "missed":
                latest = max(latest, row.decided_at)
                told.add(
                    plan.after.tenant,
                    MISSED,
                    wire("sch", plan.after.id),
                    row.decided_at,
                    nominal_at=row.nominal_at,
                    until_at=row.until_at,
                    times=row.times,
                    reason=row.reason,
                    task=None if row.task_id is None else wire("tsk", row.task_id),
                )
    await told.write(tx, latest)


async def tell_dead(tx: Transaction, dead: Sequence[End], failures: Mapping[str, int]) -> None:
    """Fires of schedules that have given up, and how many of each have in a row by now."""
    told = Told(max((one.now for one in dead), default=0))
    for one in dead:
        attempt = one.attempt
        told.add(
            one.claimed.tenant,
            FAILING,
            wire("sch", str(one.claimed.schedule_id)),
            one.now,
            task=wire("tsk", one.claimed.id),
            nominal_at=one.claimed.run_at,
            consecutive_failures=failures.get(str(one.claimed.schedule_id), 0),
            attempts=one.attempt_number,
            reason=one.reason or "attempts_exhausted",
            error_class=None if attempt is None else attempt.error_class,
            error_code=None if attempt is None else attempt.error_code,
            status=None if attempt is None else attempt.status,
        )
    await told.write(tx)


async def tell_recovered(tx: Transaction, ends: Sequence[tuple[End, State]], recovered: Collection[str]) -> None:
    """Schedules that were failing, and of which a fire has succeeded."""
    if not recovered:
        return
    told = Told(ends[0][0].now)
    left = set(recovered)
    for one, state in ends:
        name = str(one.claimed.schedule_id)
        if state is State.SUCCEEDED and name in left:
            left.discard(name)
            task = wire("tsk", one.claimed.id)
            told.add(
                one.claimed.tenant, RECOVERED, wire("sch", name), one.now, task=task, nominal_at=one.claimed.run_at
            )
    await told.write(tx)


async def tell_expired(tx: Transaction, expired: Sequence[TaskState]) -> None:
    """Fires of schedules that were to start by a time that has passed."""
    told = Told(expired[0].updated_at)
    for one in expired:
        told.add(
            one.tenant,
            FAILING,
            wire("sch", str(one.template_id)),
            one.updated_at,
            task=wire("tsk", one.id),
            nominal_at=one.run_at,
            consecutive_failures=None,
            attempts=one.attempt,
            reason="expired",
            error_class="platform",
            error_code=None,
            status=None,
        )
    await told.write(tx)
