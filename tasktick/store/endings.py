"""How attempts end in the store: state, attempt row, dead letter and counts, in one transaction.

The end of an attempt needs its own fence and claim, from whoever shows them, so that work done is not thrown away
when a partition has moved. What does not match is stale, and nothing happens.

Nearly all attempts end in nearly the same way: they succeed, and nothing waits for them. Those are a batch of their
own (`success_batch`), one guarded statement that writes their rows and those of their attempts, all of them or none;
where it writes none, because one of them is stale, they end like all others, each judged by itself. So they do where
one of them is a fire on whose end something hangs: the next in its line, or a count of those that gave up.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from itertools import repeat
from typing import Any

from msgspec.structs import astuple

from tasktick.errors import StoreError, StoreUnavailable
from tasktick.model.attempt import AttemptRow, End
from tasktick.model.ids import IdMaker, partition_of
from tasktick.model.schedule import Recorder
from tasktick.model.state import TERMINAL, Event, State, after
from tasktick.model.task import Due
from tasktick.model.value import Value
from tasktick.store import failures, lines, schedule_faults, schedules, waiting
from tasktick.store.counts import RUNNING, Deltas
from tasktick.store.failures import FireEnd
from tasktick.store.fires import count_failed
from tasktick.store.protocol import Alone, Batch, Lane, Transaction, Writer
from tasktick.store.rows import EndFault
from tasktick.store.task_rows import encoded

SUCCEEDED = int(State.SUCCEEDED)


class Ended(Value, frozen=True):
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


def success_batch(ids: IdMaker) -> Batch:
    """The batch by which attempts end that are a plain success."""

    async def operation(tx: Transaction, ends: list[Any]) -> list[Any]:
        return await succeed(tx, ends, ids)

    return Batch("succeed", Lane.FIRE, operation, alone=_alone)


class EndWriter:
    """Writes ends: the plain successes as one batch, the others as another, at once."""

    def __init__(self, writer: Writer, ids: IdMaker) -> None:
        self._writer = writer
        self._plain = success_batch(ids)
        self._other = end_batch(ids)

    async def write(self, ends: list[End]) -> list[Any]:
        """What became of each; as `write_batch` it raises where nothing of them was written."""
        are_plain = _which_are_plain(ends)
        plain = [one for one, is_one in zip(ends, are_plain, strict=True) if is_one]
        if len(plain) == len(ends):
            return await self._writer.write_batch(self._plain, plain)
        other = [one for one, is_one in zip(ends, are_plain, strict=True) if not is_one]
        if not plain:
            return await self._writer.write_batch(self._other, other)
        both = await asyncio.gather(
            self._writer.write_batch(self._plain, plain),
            self._writer.write_batch(self._other, other),
            return_exceptions=True,
        )
        return _joined(are_plain, *both)


def _which_are_plain(ends: list[End]) -> list[bool]:
    """Which of them may be written apart from the others: of a schedule's, only all together, in their order."""
    are_plain = [is_plain(one) for one in ends]
    if all(are_plain):
        return are_plain
    judged = {one.claimed.schedule_id for one in ends if not is_plain(one)} - {None}
    return [is_one and one.claimed.schedule_id not in judged for one, is_one in zip(ends, are_plain, strict=True)]


def _joined(
    are_plain: list[bool], of_plain: list[Any] | BaseException, of_other: list[Any] | BaseException
) -> list[Any]:
    """The results of all, in their order; an error, if nobody knows what was written, or nothing was."""
    both = (of_plain, of_other)
    # All but a store that is away, or full: what is to be done then is waiting, and not to take it for a row's fault.
    unknown = next((one for one in both if isinstance(one, StoreError) and not isinstance(one, StoreUnavailable)), None)
    if unknown is not None:
        raise unknown
    if isinstance(of_plain, BaseException) and isinstance(of_other, BaseException):
        raise of_plain
    count = sum(are_plain)
    results = {True: _each(of_plain, count), False: _each(of_other, len(are_plain) - count)}
    return [next(results[is_one]) for is_one in are_plain]


def _each(outcome: list[Any] | BaseException, count: int) -> Iterator[Any]:
    return repeat(outcome, count) if isinstance(outcome, BaseException) else iter(outcome)


def is_plain(one: End) -> bool:
    """Whether this is a success as it comes: the most of all ends by far."""
    return one.event is Event.SUCCEED and one.expired_by is None


def stands_alone(one: End) -> bool:
    """Whether it makes no difference in which order this and others are written."""
    return is_plain(one) and one.claimed.schedule_id is None


async def succeed(tx: Transaction, ends: list[End], ids: IdMaker) -> list[Ended]:
    """End attempts that are a plain success."""
    if await _any_bound(tx, ends):
        return await end(tx, ends, ids)
    ordered = sorted(ends, key=_task_id)
    shaped = cache(lambda: _shaped(ordered))
    given = {
        # Each database takes one of them: SQLite looks nothing up again that is known here.
        "rows": lambda: _success_rows(ordered),
        "ends": lambda: shaped()[0],
        "shapes": lambda: shaped()[1],
    }
    if len({one.claimed.id for one in ends}) < len(ends) or not await tx.whole("task_succeed", len(ends), **given):
        return await end(tx, ends, ids)
    await _free_names(tx, ordered)
    await _deltas(ends).write(tx)
    return [Ended(one.claimed.id, State.SUCCEEDED) for one in ends]


def _alone(ends: list[End]) -> Alone | None:
    """The same as a single statement, of a file: it writes nothing if one is stale, or something hangs on a fire."""
    if len({one.claimed.id for one in ends}) < len(ends):
        return None
    ordered = sorted(ends, key=_task_id)
    fires = [one.claimed for one in ordered if one.claimed.schedule_id is not None]
    parameters = {
        "rows": _success_rows(ordered),
        "count": len(ends),
        "freed": [one.claimed.id for one in ordered if one.claimed.keyed],
        "tasks": [one.id for one in fires],
        "schedules": sorted({str(one.schedule_id) for one in fires}),
        **_deltas(ends).parameters(),
    }
    return Alone("task_succeed_told", parameters, [Ended(one.claimed.id, State.SUCCEEDED) for one in ends], len(ends))


def _deltas(ends: Sequence[End]) -> Deltas:
    """What changes by them, as they ended: those of one millisecond are told together."""
    deltas = Deltas()
    for one in ends:
        task = one.claimed
        deltas.moved(task.tenant, RUNNING, SUCCEEDED, task.id, one.now, task.attempt, task.claimed_from)
    return deltas


def _success_rows(ordered: Sequence[End]) -> list[tuple[Any, ...]]:
    """The same as `_shaped` on SQLite."""
    return [_success_row(one, one.attempt) for one in ordered if one.attempt is not None]


async def _any_bound(tx: Transaction, ends: Sequence[End]) -> bool:
    """Whether there are fires among them on whose ends something hangs."""
    fires = [one.claimed for one in ends if one.claimed.schedule_id is not None]
    return bool(fires) and await lines.any_bound(tx, [one.id for one in fires], [str(one.schedule_id) for one in fires])


def _task_id(one: End) -> str:
    return one.claimed.id


def _shaped(ends: Sequence[End]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """What `task_succeed` reads on PostgreSQL: the rows of the ends, and the shapes that they name by their place. One
    receiver says the same to many."""
    places: dict[tuple[Any, ...], int] = {}
    rows = []
    for one in ends:
        claimed, row = one.claimed, one.attempt
        if row is None:
            continue
        headers = row.response_headers
        shape = (
            claimed.claim_id,
            one.sla_met,
            row.node,
            row.status,
            None if headers is None else encoded(headers),
            row.response_body,
            row.response_encoding,
            row.truncated,
        )
        place = places.setdefault(shape, len(places))
        rows.append((claimed.id, claimed.fence, one.now, one.started_at, row.started_at, place))
    return rows, list(places)


def _success_row(one: End, row: AttemptRow) -> tuple[Any, ...]:
    claimed = one.claimed
    return (
        claimed.id,
        claimed.fence,
        claimed.claim_id,
        one.now,
        one.started_at,
        one.sla_met,
        row.attempt,
        row.series,
        row.picked_at,
        row.started_at,
        row.node,
        row.epoch,
        row.status,
        row.response_headers,
        row.response_body,
        row.response_encoding,
        row.truncated,
    )


async def _free_names(tx: Transaction, finished: Sequence[End]) -> None:
    """The keys of tasks that have finished may be another's."""
    freed = [one.claimed.id for one in finished if one.claimed.keyed]
    if freed:
        await tx.run("names_free", kind="task", ids=freed)


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
    await _free_names(tx, [one for one, state in valid if state >= State.SUCCEEDED])
    deltas = Deltas()
    for one, state in valid:
        task = one.claimed
        deltas.moved(task.tenant, RUNNING, state, task.id, one.now, one.attempt_number, task.claimed_from)
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
