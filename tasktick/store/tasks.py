"""Tasks in the store: create, read, change, delete. Claims and ends are in `claims`."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, cast

import msgspec

from tasktick.errors import Refused, not_found
from tasktick.model.change import Change
from tasktick.model.ids import KEY_PREFIX, parse, wire
from tasktick.model.schedule import NewFire
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import NewTask, Payload, TaskDetail, TaskState
from tasktick.store import fires, lateness, lines, names, plain_tasks, schedule_faults, tenants, waiting
from tasktick.store.counts import PURGED, Deltas
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Aborted, Alone, Batch, Lane, Transaction, only
from tasktick.store.rows import Name, StoredPayload, TaskView, columns
from tasktick.store.task_rows import NewRow, detail_row, encoded, new_row, payload_row, state_row

# Payloads that are read at once: 500 of the largest would hold up the writer, and fill the memory.
PAYLOAD_CHARS_MAX = 4_194_304


class Create(msgspec.Struct, frozen=True):
    """A task to create, and the key and answer to keep with it."""

    task: NewTask
    idempotency: IdempotencyKey | None = None
    answer: StoredAnswer | None = None


async def create_many(tx: Transaction, creates: list[Any]) -> list[Any]:
    """Insert tasks. Each item's result is None (created), a `StoredAnswer` (seen before), or its refusal."""
    results: list[Any] = [None] * len(creates)
    named = any(one.idempotency is not None or one.task.detail.key is not None for one in creates)
    if named:
        await _judge_names(tx, creates, results)
    rows = [new_row(one.task) for one in creates]
    are_plain = None not in rows
    if are_plain and not named and await plain_tasks.insert(tx, cast(list[NewRow], rows), unlimited=True):
        return results
    await _take_room(tx, creates, results, known=are_plain and not named)
    if named:
        await _take_names(tx, creates, results)
    await _insert(tx, [(one.task, row) for one, row, got in zip(creates, rows, results, strict=True) if got is None])
    return results


def create_alone(creates: list[Any]) -> Alone | None:
    """These as one statement, where nothing has to be asked before."""
    if any(one.idempotency is not None or one.task.detail.key is not None for one in creates):
        return None
    rows = [new_row(one.task) for one in creates]
    if None in rows:
        return None
    return plain_tasks.alone(cast(list[NewRow], rows), [None] * len(creates))


CREATE = Batch("create", Lane.CREATE, create_many, alone=create_alone)


async def insert(tx: Transaction, fresh: Sequence[NewTask]) -> None:
    """Insert the rows of new tasks, whose names have been taken."""
    await _insert(tx, [(task, new_row(task)) for task in fresh])


async def _insert(tx: Transaction, fresh: Sequence[tuple[NewTask, NewRow | None]]) -> None:
    if not fresh:
        return
    plain = [row for _, row in fresh if row is not None]
    if len(plain) == len(fresh):
        await plain_tasks.insert(tx, plain)
        return
    await insert_whole(tx, sorted([task for task, _ in fresh], key=attrgetter("state.id")))


async def insert_whole(tx: Transaction, fresh: Sequence[NewTask | NewFire]) -> None:
    """Insert the rows of new tasks with all that they can bring."""
    states = [state_row(task.state) for task in fresh]
    await tx.run("task_insert_whole", states=states, details=[detail_row(task) for task in fresh])
    deltas = Deltas()
    for task in fresh:
        deltas.born(task.state.tenant, task.state.state, [(task.state.id, task.detail.created_at)])
    await deltas.write(tx)


async def _take_room(tx: Transaction, creates: list[Create], results: list[Any], *, known: bool) -> None:
    """Let in, in order, those that the quotas of their tenants have room for. `known`: one of them has a quota."""
    of = {one.task.state.tenant for one in creates}
    rooms = await (tenants.rooms_of_limited if known else tenants.rooms)(tx, of)
    if not rooms:
        return
    for at, one in enumerate(creates):
        if results[at] is None:
            results[at] = rooms.take(one.task.state.tenant)


async def _judge_names(tx: Transaction, creates: list[Create], results: list[Any]) -> None:
    """Look up the keys of these creates; where one is taken, the result says by what."""
    wanted: dict[tuple[str, str, str], int] = {}
    for at, one in enumerate(creates):
        for row in _names_of(one):
            if (row.tenant, row.kind, row.name) in wanted:
                raise Refused("internal", "two creates of one batch share a key")  # halved until they stand alone
            wanted[row.tenant, row.kind, row.name] = at
    asked = [{"tenant": tenant, "kind": kind, "name": name} for tenant, kind, name in sorted(wanted)]
    for row in await tx.rows("names_read", Name, rows=asked):
        at = wanted[row.tenant, row.kind, row.name]
        await _settle_taken(tx, creates[at], row, at, results)


async def _take_names(tx: Transaction, creates: list[Create], results: list[Any]) -> None:
    """Take the keys of those that are let in."""
    rows = [row for one, result in zip(creates, results, strict=True) if result is None for row in _names_of(one)]
    if rows:
        await names.take(tx, sorted(rows, key=lambda row: (row.tenant, row.kind, row.name)))


async def _settle_taken(tx: Transaction, one: Create, row: Name, at: int, results: list[Any]) -> None:
    if row.kind == names.TASK:
        if results[at] is None:
            held = wire("tsk", row.object_id)
            detail = f"The key {row.name!r} belongs to the unfinished task {held}. Cancel it, or choose another key."
            results[at] = Refused("key_taken", detail, errors=[("/key", f"taken by {held}")])
        return
    assert one.idempotency is not None
    if row.expires_at is not None and row.expires_at <= one.idempotency.now:
        await tx.run("names_expire_now", tenant=row.tenant, kind=row.kind, name=row.name, now=one.idempotency.now)
        return
    try:
        results[at] = names.replayed(row, one.idempotency.fingerprint)
    except Refused as refused:
        results[at] = refused


def _names_of(one: Create) -> list[Name]:
    rows: list[Name] = []
    state, detail = one.task.state, one.task.detail
    if detail.key is not None:
        rows.append(Name(state.tenant, names.TASK, detail.key, state.id, detail.created_at))
    if one.idempotency is not None and one.answer is not None:
        rows.append(names.answer_row(one.idempotency, state.id, one.answer))
    return rows


async def resolve(tx: Transaction, tenant: str, name: str, prefix: str = "tsk") -> str:
    """The internal id of `tsk_…` or `key:…`: the unfinished task that holds the key, else the last that had it."""
    if not name.startswith(KEY_PREFIX):
        return parse(prefix, name)
    key = name.removeprefix(KEY_PREFIX)
    held = await names.find(tx, tenant, names.TASK, key)
    if held is not None:
        return held.object_id
    past = only(await tx.rows("task_by_key", str, tenant=tenant, key=key))
    if past is None:
        raise not_found("task", name)
    return past


async def views(tx: Transaction, tenant: str, ids: list[str], *, bodies: bool = True) -> list[TaskView]:
    """Tasks of this tenant, in the order asked for; others are not there. Bodies only if they are wanted."""
    rows = await tx.rows("task_views", TaskView, tenant=tenant, ids=ids, bodies=bodies)
    found = {view.state.id: view for view in rows}
    return [found[one] for one in ids if one in found]


async def view(tx: Transaction, tenant: str, name: str, *, bodies: bool = True) -> TaskView:
    """One task of this tenant by id or key, or the refusal."""
    found = only(await views(tx, tenant, [await resolve(tx, tenant, name)], bodies=bodies))
    if found is None:
        raise not_found("task", name)
    return found


async def holder(tx: Transaction, tenant: str, key: str) -> TaskView | None:
    """The unfinished task that holds this key."""
    held = await names.find(tx, tenant, names.TASK, key)
    return None if held is None else only(await views(tx, tenant, [held.object_id]))


async def states(tx: Transaction, ids: list[str]) -> list[TaskState]:
    """The slim rows of these tasks."""
    return await tx.rows("task_states", TaskState, ids=ids)


async def states_open(tx: Transaction, ahead: list[str], others: list[str]) -> list[TaskState]:
    """The slim rows of fires that are made ahead, and of others that have not ended."""
    return await tx.rows("task_states_open", TaskState, ahead=ahead, others=others)


async def change(
    tx: Transaction,
    changes: list[Change],
    *,
    of_many: bool = False,
    written_down: bool = False,
    deciding: fires.Deciding | None = None,
) -> list[str]:
    """Write changes, each guarded by the version and state it was made from; the ids that were not stale.

    A fire that was missed or skipped, and is taken up again, becomes a run in its ledger, by whom `deciding` says;
    unless that is written down by who calls.

    A finished task that is taken up again takes its key again, and room within its tenant's quota. If another has
    the key by now, or there is no room, one alone is refused; of several, or of many that come a few at a time, it
    is left out, as a stale one is.
    """
    alone = len(changes) == 1 and not of_many
    ending = [one.after.id for one in changes if one.after.state in TERMINAL and one.after.template_id is not None]
    if ending:
        unbegun = [str(one.before.template_id) for one in changes if one.ends_unbegun]
        await lines.hold(tx, tasks=ending, schedules=unbegun)
    # Then schedules, whose rows are held from here on.
    later = [one.after.id for one in changes if one.runs_later and not written_down]
    idle = await fires.idle(tx, later)
    await _take_back(tx, [one.after.id for one in changes if one.before.state in TERMINAL])
    ordered = await _fresh(tx, sorted(changes, key=lambda one: one.after.id))
    ordered = await _with_room(tx, ordered, alone=alone)
    ordered = await _with_keys(tx, ordered, alone=alone)
    if not ordered:
        return []
    changed = await tx.run("task_change", rows=[_change_row(one) for one in ordered])
    assert changed == len(ordered), "the guard was checked in this very transaction"
    freed = [one.after.id for one in ordered if one.frees_key]
    if freed:
        await tx.run("names_free", kind=names.TASK, ids=freed)
    await lateness.ask(tx, [one.after.id for one in ordered if one.reopens and one.after.template_id is not None])
    ran = [idle[one.after.id] for one in ordered if one.after.id in idle]
    await fires.ran_later(tx, ran, ordered[0].after.updated_at, deciding)
    deltas = Deltas()
    for one in ordered:
        before, row = one.before, one.after
        if before.state != row.state:
            where = before.claimed_from if before.state is State.RUNNING else None
            deltas.moved(row.tenant, before.state, row.state, row.id, row.updated_at, row.attempt, where)
    ended = [one.after for one in ordered if one.after.state in TERMINAL]
    in_line = [one.after.id for one in ordered if one.before.state is State.BLOCKED and one.after.state in TERMINAL]
    if in_line:
        await waiting.step_out(tx, in_line)
    if ended:
        await waiting.let_go(tx, [one.id for one in ended], ended[0].updated_at, deltas)
        await lines.leave(tx, [one.id for one in ended if one.template_id is not None], ended[0].updated_at, deltas)
    unstarted = [one.after for one in ordered if one.ends_unbegun]
    if unstarted:
        await tx.run("ledger_unstarted", rows=[[one.template_id, one.id, one.run_at, one.reason] for one in unstarted])
    await deltas.write(tx)
    expired = [one for one in ended if one.state is State.EXPIRED and one.template_id is not None]
    if expired:
        await schedule_faults.tell_expired(tx, expired)
    return [one.after.id for one in ordered]


async def _take_back(tx: Transaction, ids: list[str]) -> None:
    """Bring finished tasks back from where they are kept, so that they can be changed or removed like any other."""
    if ids:
        await tx.run("task_take_back", ids=ids)


async def _fresh(tx: Transaction, changes: list[Change]) -> list[Change]:
    """Those made from the row that is there, one for each task."""
    stale = set(await tx.rows("task_change_stale", int, rows=[_change_row(one) for one in changes]))
    fresh: dict[str, Change] = {}
    for place, one in enumerate(changes):
        if place not in stale:
            fresh.setdefault(one.after.id, one)
    return list(fresh.values())


async def _with_room(tx: Transaction, changes: list[Change], *, alone: bool) -> list[Change]:
    """Those that need no room, or found it."""
    reopened = {one.after.id for one in changes if not pending(one.before.state) and pending(one.after.state)}
    if not reopened:
        return changes
    rooms = await tenants.rooms(tx, {one.after.tenant for one in changes if one.after.id in reopened})
    kept = []
    for one in changes:
        refused = rooms.take(one.after.tenant) if one.after.id in reopened else None
        if refused is None:
            kept.append(one)
        elif alone:
            raise refused
    return kept


async def _with_keys(tx: Transaction, changes: list[Change], *, alone: bool) -> list[Change]:
    """Those that need no key, or got theirs again."""
    wanted = [one.after.id for one in changes if one.takes_key]
    if not wanted:
        return changes
    await tx.run("names_take_again", kind=names.TASK, ids=wanted)
    without = set(wanted) - set(await tx.rows("names_held", str, kind=names.TASK, ids=wanted))
    if without and alone:
        raise Refused("key_taken", "Another unfinished task has taken the key of this one. Cancel that one first.")
    return [one for one in changes if one.after.id not in without]


def _change_row(one: Change) -> dict[str, Any]:
    row = columns(one.after)
    row["version"] = one.before.version
    row["from_state"] = int(one.before.state)
    return row


async def change_detail(tx: Transaction, detail: TaskDetail) -> None:
    """Write what a task is called."""
    row = {"id": detail.id, "name": detail.name, "type": detail.type, "tags": encoded(detail.tags)}
    await tx.run("task_detail_change", rows=[row | {"sla_ms": detail.sla_ms, "expires_in_ms": detail.expires_in_ms}])


async def add_payload(tx: Transaction, task_id: str, version: int, payload: Payload) -> None:
    """Store what is sent from this version on; earlier versions stay."""
    await tx.run("payload_insert", rows=[payload_row(task_id, version, payload)])


async def payloads(tx: Transaction, keys: list[tuple[str, int]]) -> list[StoredPayload]:
    """Payloads by (task, version), in this order, as many as are read at once; ask again for the rest."""
    return await tx.rows("payload_read", StoredPayload, keys=keys, chars_max=PAYLOAD_CHARS_MAX)


async def latest_payloads(tx: Transaction, ids: list[str]) -> list[StoredPayload]:
    """The payloads that these tasks have now."""
    return await tx.rows("payload_latest", StoredPayload, ids=ids)


async def delete(tx: Transaction, rows: list[tuple[str, str, int]], *, at: int | None = None) -> None:
    """Remove tasks (id, tenant, state, as read here) and all that hangs on them; the counts keep how many were.

    With a time, somebody has asked for it and others are told; what was kept long enough goes in silence.
    """
    ids = [task_id for task_id, _, _ in rows]
    await _take_back(tx, [task_id for task_id, _, state in rows if state in TERMINAL])
    await tx.run("names_free", kind=names.TASK, ids=ids)
    removed = await tx.run("task_delete", ids=ids, rows=[[task_id, int(state)] for task_id, _, state in rows])
    if removed != len(rows):
        raise Aborted("Another transaction has just changed a task that is to go.")
    deltas = Deltas()
    for task_id, tenant, state in rows:
        if at is None:
            deltas.forgotten(tenant, state)
        else:
            deltas.moved(tenant, state, PURGED, task_id, at, None)
    await deltas.write(tx)


def pending(state: State) -> bool:
    """Whether a task is still to come."""
    return state < State.SUCCEEDED
