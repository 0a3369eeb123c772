"""The life of an attempt in the store: claim, end, rescue. What does not match is stale, and nothing happens.

A claim needs the live term of the task's partition; the end of an attempt needs the attempt's own fence
and claim, from whoever shows them, so that work done is not thrown away when a partition has moved.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import astuple

from tasktick.model.attempt import AttemptRow, End
from tasktick.model.ids import IdMaker, partition_of
from tasktick.model.schedule import Recorder
from tasktick.model.state import TERMINAL, Event, State, after
from tasktick.model.task import Claimed, Due
from tasktick.store import failures, lateness, lines, schedule_faults, schedules, waiting
from tasktick.store.counts import Deltas
from tasktick.store.due import BEGINNING
from tasktick.store.failures import FireEnd
from tasktick.store.fires import count_failed
from tasktick.store.protocol import Batch, Lane, Transaction
from tasktick.store.rows import EndFault


class ClaimRequest(msgspec.Struct, frozen=True):
    """Who claims, under which terms (epoch by partition), and for how long."""

    node: str
    incarnation: str
    epochs: Mapping[int, int]
    claim_id: int
    now: int
    early_ms: int
    start_delay_ms: int
    margin_ms: int
    # Tasks that were due before the clock was set back, by the time that they were due: moved, they are not.
    was_due: Mapping[str, int] = {}
    # How often the claimer knows to have renewed its term.
    beat: int = 0


async def claim(tx: Transaction, ids: list[str], request: ClaimRequest) -> list[Claimed]:
    """Mark these tasks as running, in one guarded statement; what comes back may be sent."""
    rows = [
        [task_id, partition, request.epochs[partition], request.was_due.get(task_id)]
        for task_id, partition in ((one, partition_of(one)) for one in ids)
        if partition in request.epochs
    ]
    changed = await tx.run(
        "task_claim",
        rows=rows,
        incarnation=request.incarnation,
        node=request.node,
        claim_id=request.claim_id,
        now=request.now,
        early_ms=request.early_ms,
        start_delay_ms=request.start_delay_ms,
        margin_ms=request.margin_ms,
        beat=request.beat,
    )
    claimed = await tx.rows("task_claimed", Claimed, ids=ids, claim_id=request.claim_id)
    if changed:  # a claim that is asked for again, to learn its fate, has been counted
        deltas = Deltas()
        for one in claimed:
            deltas.moved(one.tenant, one.claimed_from, State.RUNNING, one.id, one.picked_at, one.attempt)
        await deltas.write(tx)
        await lateness.tell_claimed(tx, claimed)
    return claimed


class Ended(msgspec.Struct, frozen=True):
    """What became of an attempt's end: the state that followed, or stale."""

    id: str
    state: State | None
    woken: Due | None = None
    """Who waited for it, and may go now."""


def end_batch(ids: IdMaker) -> Batch:
    """The batch by which attempts end; dead letters get their ids from `ids`."""

    async def operation(tx: Transaction, ends: list[Any]) -> list[Any]:
        return await end(tx, ends, ids)

    return Batch("end", Lane.FIRE, operation)


async def end(tx: Transaction, ends: list[End], ids: IdMaker) -> list[Ended]:
    """End attempts: state, attempt row, dead letter and counts in one transaction."""
    order = sorted(range(len(ends)), key=lambda at: ends[at].claimed.id)
    fires = [one.claimed for one in ends if one.claimed.template_id is not None]
    if fires:
        await lines.hold(tx, tasks=[one.id for one in fires], schedules=[str(one.schedule_id) for one in fires])
    faults = await faults_of(tx, [ends[at] for at in order])
    states: list[State | None] = [None] * len(ends)
    valid: dict[str, tuple[End, State]] = {}
    reasons: dict[str, str] = {}
    for place, at in enumerate(order):
        one, fault = ends[at], faults.get(place)
        if (fault is None or fault.live) and one.claimed.id not in valid:
            state = states[at] = _after(one, cancel=fault is not None and fault.cancel)
            valid[one.claimed.id] = one, state
            if fault is not None and state is State.CANCELLED and fault.reason is not None:
                reasons[one.claimed.id] = fault.reason
    woken = await _write_ends(tx, list(valid.values()), reasons, ids) if valid else {}
    return [
        Ended(one.claimed.id, state, None if state is None else woken.get(one.claimed.id))
        for one, state in zip(ends, states, strict=True)
    ]


async def faults_of(tx: Transaction, ends: list[End]) -> dict[int, EndFault]:
    """By their place, those of these ends that are stale, or whose task was asked to cancel."""
    now = max(one.now for one in ends)
    found = await tx.rows("task_end_check", EndFault, rows=[_guard(one) for one in ends], now=now)
    return {fault.place: fault for fault in found}


def _after(one: End, *, cancel: bool) -> State:
    """A task that was asked to cancel keeps a success; everything else becomes the cancellation."""
    if cancel and one.event is not Event.SUCCEED:
        return after(Event.CANCEL_RUNNING, State.RUNNING)
    if one.event is Event.RELEASE and one.attempt is None and one.claimed.claimed_from == State.RETRYING:
        return State.RETRYING
    return one.state


def _guard(one: End) -> tuple[Any, ...]:
    """The row that `task_end_check` reads."""
    claimed = one.claimed
    return claimed.id, claimed.fence, claimed.claim_id, one.expired_by, claimed.schedule_id


async def _write_ends(
    tx: Transaction, valid: list[tuple[End, State]], reasons: Mapping[str, str], ids: IdMaker
) -> dict[str, Due]:
    """Write them; why one was cancelled stands in `reasons`, unless that was by hand."""
    changed = await tx.run("task_end", rows=[_end_row(one, state, reasons) for one, state in valid])
    assert changed == len(valid), "the guard was checked in this very transaction"
    attempts = [astuple(one.attempt) for one, _ in valid if one.attempt is not None]
    if attempts:
        await tx.run("attempt_insert", rows=attempts)
    dead = [(one, state) for one, state in valid if state is State.DEAD]
    if dead:
        await tx.run("dead_letter_insert", rows=[dead_letter(one, ids) for one, _ in dead])
    freed = [one.claimed.id for one, state in valid if one.claimed.keyed and state >= State.SUCCEEDED]
    if freed:
        await tx.run("names_free", kind="task", ids=freed)
    deltas = Deltas()
    for one, state in valid:
        task = one.claimed
        deltas.moved(task.tenant, State.RUNNING, state, task.id, one.now, one.attempt_number)
    fires = [(one, state) for one, state in valid if one.claimed.schedule_id is not None and state in TERMINAL]
    woken = await _fires_ended(tx, fires, deltas) if fires else {}
    await deltas.write(tx)
    return woken


async def _fires_ended(tx: Transaction, fires: list[tuple[End, State]], deltas: Deltas) -> dict[str, Due]:
    """What the end of a fire means for its schedule: the next in line goes, failures count, 410 stops it."""
    last = fires[0][0]
    dead = [one for one, state in fires if state is State.DEAD]
    fires_of = sorted({str(one.claimed.schedule_id) for one, _ in fires})
    if dead:
        given_up = [(str(one.claimed.schedule_id), one.claimed.run_at, one.claimed.id) for one in dead]
        await count_failed(tx, given_up)
    failing = await failures.failing(tx, fires_of)
    enough = await failures.count(tx, [_fire_end(one, state) for one, state in fires])
    if dead or failing:
        await deltas.write(tx)  # what follows from them is told behind them
        still = await failures.failing(tx, fires_of)
        await schedule_faults.tell_dead(tx, dead, still)
        await schedule_faults.tell_recovered(tx, fires, failing.keys() - still.keys())
    gone = sorted({str(one.claimed.schedule_id) for one in dead if _is_gone(one)})
    if gone or enough:
        by = Recorder(last.now, next((one.attempt.node for one in dead if one.attempt), ""), last.claimed.epoch, "")
        # First: who is in line does not go to a receiver that is gone.
        await schedules.pause_gone(tx, gone, by)
        await failures.pause(tx, enough, by)
    ended = [one.claimed.id for one, _ in fires]
    woken = await waiting.let_go(tx, ended, last.now, deltas)
    return woken | await lines.leave(tx, ended, last.now, deltas)


def _fire_end(one: End, state: State) -> FireEnd:
    return FireEnd(str(one.claimed.schedule_id), one.claimed.id, one.claimed.run_at, state)


def _is_gone(one: End) -> bool:
    return one.attempt is not None and one.attempt.status == HTTPStatus.GONE


def _end_row(one: End, state: State, reasons: Mapping[str, str]) -> tuple[Any, ...]:
    """The row that `task_end` reads, in its order."""
    claimed = one.claimed
    finished = state >= State.SUCCEEDED
    return (
        claimed.id,
        claimed.fence,
        claimed.claim_id,
        int(state),
        one.now,
        one.attempt_number,
        None if finished else one.due_at,
        one.new_fence,
        one.interruptions,
        one.uncounted,
        one.started_at,
        one.sla_met,
        one.now if finished else None,
        reasons.get(claimed.id, "cancelled") if state is State.CANCELLED else one.reason,
    )


def dead_letter(one: End, ids: IdMaker) -> dict[str, Any]:
    """The dead letter of a task that gave up."""
    attempt: AttemptRow | None = one.attempt
    error_class = attempt.error_class if attempt is not None else None
    return {
        "id": ids.new(one.now, partition_of(one.claimed.id)),
        "tenant": one.claimed.tenant,
        "task_id": one.claimed.id,
        "class": error_class or "platform",
        "reason": one.reason or "attempts_exhausted",
        "error_code": attempt.error_code if attempt else None,
        "error_detail": attempt.error_detail if attempt else None,
        "attempts": one.attempt_number,
        "died_at": one.now,
    }


async def expired_leases(
    tx: Transaction,
    now: int,
    own: list[str],
    limit: int,
    partitions: list[str] | None = None,
    since: int = BEGINNING,
) -> list[Claimed]:
    """Attempts in these partitions whose lease has passed after `since`, but for those in the asker's own hands."""
    if partitions == []:
        return []
    given = {"own": own, "limit": limit, "partitions": partitions, "since": since}
    return await tx.rows("task_expired_leases", Claimed, now=now, **given)


async def orphans(tx: Transaction, limit: int, partitions: list[str] | None = None) -> list[Claimed]:
    """Attempts in these partitions of processes that are proven dead."""
    if partitions == []:
        return []
    return await tx.rows("task_orphans", Claimed, limit=limit, partitions=partitions)
