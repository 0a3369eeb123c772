"""Why a task did, did not, or does not yet run: what is recorded of it, in order, and what it waits for now.

Only what is recorded is told, and what this process has in its memory. What it waits for within another node is in that
one's memory: then it is said whose it is, and where to ask.
"""

from typing import Any

import msgspec

from tasktick.api import render
from tasktick.api.call import Call, Reply, answer
from tasktick.api.task_reasons import reason_in_words
from tasktick.api.task_waits import Waits, waits_for
from tasktick.api.tasks import OK, no_query
from tasktick.api.times import written, written_or_none
from tasktick.model.attempt import AttemptRow
from tasktick.model.ids import partition_of, wire
from tasktick.model.partition import Lease, NodeRow
from tasktick.model.schedule import LedgerRow, Schedule
from tasktick.model.state import TERMINAL, WAITING, State
from tasktick.model.task import TaskState
from tasktick.store import attempts, leases, schedules, tasks
from tasktick.store.protocol import Transaction, only
from tasktick.store.rows import TaskView

ATTEMPTS_MAX = 200
Step = tuple[int | None, str, str]


class Facts(msgspec.Struct, frozen=True):
    """Everything that is recorded about a task."""

    view: TaskView
    attempts: list[AttemptRow]
    row: LedgerRow | None = None
    schedule: Schedule | None = None
    earlier: TaskState | None = None
    lease: Lease | None = None
    owner: NodeRow | None = None
    store_now: int = 0


async def explain(call: Call) -> Reply:
    """GET /v1/tasks/{id}/explain."""
    no_query(call)
    facts = await call.ports.database.read(lambda tx: _facts(tx, call))
    state = facts.view.state
    steps = _history(facts)
    if state.state in TERMINAL:
        steps.append(_ended(state))
    else:
        # Asked after the rows were read: what has changed in between is said as it is now, or that it is not known.
        waits = Waits(
            state,
            facts.schedule,
            facts.earlier,
            facts.lease,
            facts.owner,
            facts.store_now,
            call.ports.standing(state.id),
            max(call.now, facts.store_now),
        )
        steps.append(waits_for(waits))
    document = {
        "id": wire(render.TASK, state.id),
        "state": render.shown_state(state, call.now).word,
        "at": written(call.now),
        "steps": [{"at": written_or_none(at), "code": code, "detail": detail} for at, code, detail in steps],
    }
    return answer(OK, document)


async def _facts(tx: Transaction, call: Call) -> Facts:
    view = await tasks.view(tx, call.tenant, call.parameters["id"], bodies=False)
    state = view.state
    rows = await attempts.of_task(tx, state.id, max(0, state.attempt - ATTEMPTS_MAX), ATTEMPTS_MAX)
    more: dict[str, Any] = {}
    if view.detail.schedule_id is not None:
        more = await _of_schedule(tx, call.tenant, view.detail.schedule_id, state)
    if state.state not in TERMINAL:
        seen = await leases.view(tx, call.now)
        lease = next(one for one in seen.leases if one.partition == partition_of(state.id))
        more["lease"] = lease
        more["owner"] = next((one for one in seen.nodes if one.incarnation == lease.incarnation), None)
        more["store_now"] = seen.now
    return Facts(view, rows, **more)


async def _of_schedule(tx: Transaction, tenant: str, schedule_id: str, state: TaskState) -> dict[str, Any]:
    """What its schedule has written down about it, and for whom it waits."""
    found = await schedules.ledger(tx, schedule_id, from_at=state.run_at, to_at=state.run_at + 1, limit=1)
    row = found[0].row if found and found[0].row.task_id == state.id else None
    schedule = only(await schedules.read(tx, tenant, [schedule_id]))
    waits_for_id = state.after_id
    if state.state is State.BLOCKED and schedule is not None and schedule.buffered_id == state.id:
        waits_for_id = schedule.holder_id
    earlier = None if waits_for_id is None else only(await tasks.states(tx, [waits_for_id]))
    return {"row": row, "schedule": schedule, "earlier": earlier}


def _history(facts: Facts) -> list[Step]:
    """What has happened, in order."""
    state, detail = facts.view.state, facts.view.detail
    steps = [_made(facts)]
    was_due = state.attempt > 0 or state.state in (State.SUCCEEDED, State.DEAD, State.RUNNING)
    if was_due or (state.due_at <= facts.store_now and state.state not in TERMINAL):
        # A retry has another due time; its first is then the nominal one, as far as it is recorded.
        is_first = state.attempt == 0 or (state.attempt == 1 and state.state not in WAITING)
        due_at = state.due_at if is_first else max(state.run_at, detail.created_at)
        steps.append((due_at, "due", f"It was due, {_nominally(facts, due_at)}."))
    tried = _tried(facts)
    if facts.row is not None:
        row = _decided(facts.row)
        # An attempt may have ended before its schedule came to write it down.
        earlier = sum(at is not None and at < facts.row.decided_at for at, _, _ in tried)
        tried.insert(earlier, row)
    return [*steps, *tried]


def _made(facts: Facts) -> Step:
    state, detail = facts.view.state, facts.view.detail
    if detail.schedule_id is None:
        return detail.created_at, "created", f"It was created, to run at {written(state.run_at)}."
    name = wire(render.SCHEDULE, detail.schedule_id)
    ahead = facts.schedule is not None and facts.schedule.next_id == state.id
    if facts.row is None and not ahead:
        gone = facts.schedule is None
        if state.run_at <= detail.created_at and not gone:
            return detail.created_at, "triggered", f"It was made by hand, beside the times of the schedule {name}."
        more = ", which has been deleted since" if gone else ""
        return (
            detail.created_at,
            "made_by_schedule",
            f"The schedule {name}{more} made it. No row of its ledger names it.",
        )
    return detail.created_at, "made_by_schedule", f"The schedule {name} made it for its time {written(state.run_at)}."


def _nominally(facts: Facts, due_at: int) -> str:
    run_at = facts.view.state.run_at
    if due_at == run_at:
        return "at its nominal time"
    side = "after" if due_at > run_at else "before"
    return f"{abs(due_at - run_at) / 1_000:g} s {side} its nominal time {written(run_at)}"


def _decided(row: LedgerRow) -> Step:
    by = f"node {row.node}, epoch {row.epoch}, zone data {row.tzdata}, version {row.schedule_version} of the schedule"
    why = "" if row.reason is None else f" ({row.reason})"
    stands = f" It stands for {row.missed:,} missed times too." if row.missed else ""
    match row.outcome:
        case "run":
            return row.decided_at, "fire_runs", f"Its schedule wrote down that it runs{why}: {by}.{stands}"
        case "skipped":
            return row.decided_at, "fire_skipped", f"Its schedule skipped it{why}: {by}."
        case _:
            return row.decided_at, "fire_missed", f"Its schedule missed it{why}: {by}."


def _tried(facts: Facts) -> list[Step]:
    """Each attempt that has ended, and where a new series begins."""
    state, steps, series = facts.view.state, list[Step](), 1
    first = facts.attempts[0] if facts.attempts else None
    if first is not None and state.attempt > ATTEMPTS_MAX:
        left_out = f"{first.attempt - 1:,} earlier attempts are left out here: GET /v1/tasks/{{id}}/attempts has them."
        steps.append((None, "attempts_left_out", left_out))
        series = first.series
    for row in facts.attempts:
        if row.series > series:
            steps.append(_reopened(row.series))
            series = row.series
        steps.append(_attempt(row))
    return [*steps, _reopened(state.series)] if state.series > series else steps


def _reopened(series: int) -> Step:
    return None, "reopened", f"It was taken up again after its end, by hand: series {series}. By whom is not recorded."


def _attempt(row: AttemptRow) -> Step:
    where = f"Attempt {row.attempt} on node {row.node}, epoch {row.epoch}"
    lasted = "" if row.started_at is None else f", {(row.completed_at - row.started_at) / 1_000:g} s after its start"
    because = f" {row.error_detail}" if row.error_detail else ""
    match row.state:
        case "succeeded":
            said = f"{where} succeeded: the receiver answered {row.status}{lasted}."
        case "failed":
            said = f"{where} failed ({row.error_code}){lasted}.{because}"
        case "released":
            said = f"{where} was cut off as the node stopped, and does not count.{because}"
        case "unknown":
            said = f"{where} was cut off, and what came of it is not known; it may not be sent twice.{because}"
        case "interrupted" | "lease_lost":
            said = f"{where} was cut off: nobody saw its end. It was rescued, and does not count as a failure.{because}"
    return row.completed_at, f"attempt_{row.state}", said


_NEXT = {
    "attempts_exhausted": "All its attempts failed. Mend what the last error names, then retry it.",
    "outcome_unknown": "It may have been done, and at most once is asked for. Ask the receiver; retry it if not.",
    "rejected": "The receiver refused it for good. Mend the request or the receiver, then replay it.",
    "no_retry": "The receiver said not to try again. Retry it once that is no longer so.",
    "poison": "Its attempts were cut off too often: it may bring down who sends it. Look into the logs before a retry.",
    "forbidden_address": "Its target may not be called from here. Change the target, or allow its network.",
    "bad_target": "Its target cannot be called. Replay it with another.",
}


def _ended(state: TaskState) -> Step:
    """How it ended, and what to do about it."""
    at = state.completed_at
    match state.state:
        case State.SUCCEEDED:
            return at, "succeeded", "It succeeded. There is nothing it waits for."
        case State.DEAD:
            reason = state.reason or "unknown"
            name = wire(render.TASK, state.id)
            todo = _NEXT.get(reason, "Look at its last attempt, then retry it.")
            return at, "dead", f"It gave up ({reason}). {todo} POST /v1/tasks/{name}/retry"
        case State.CANCELLED:
            return at, "cancelled", "It was cancelled. By whom is not recorded."
        case State.EXPIRED:
            return (
                at,
                "expired",
                f"It had not started by {written_or_none(state.expires_at)}, and was not to start later.",
            )
        case State.SKIPPED:
            return (
                at,
                "skipped",
                f"It was skipped: {reason_in_words(state.reason)} It can be run: POST /v1/tasks/<id>/run",
            )
        case _:
            return (
                at,
                "missed",
                f"It was missed: {reason_in_words(state.reason)} It can be run: POST /v1/tasks/<id>/run",
            )
