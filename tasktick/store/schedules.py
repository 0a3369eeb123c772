"""Schedules in the store: plans carried out, and what is read of them.

A plan is written whole or not at all: tasks, ledger, cursor and counts in one transaction. What it was made from
must still be so, and who materialises must own the partition; a plan that is stale is left out, and made anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tasktick.errors import Refused, not_found
from tasktick.model import pause_note
from tasktick.model.calendar import Content
from tasktick.model.ids import KEY_PREFIX, parse, partition_of, wire
from tasktick.model.line import LineFire
from tasktick.model.schedule import LedgerRow, NewFire, PauseReason, Plan, Recorder, Schedule, pause
from tasktick.model.task import NewTask, Payload, TaskState
from tasktick.store import calendars, fires, lines, names, schedule_events, schedule_faults, standing, tasks, tenants
from tasktick.store.protocol import Aborted, Batch, Lane, Transaction, only
from tasktick.store.rows import Name, StoredPayload, columns

SCHEDULE = "schedule"
Names = Mapping[str, Sequence[str]]
BEYOND_ALL = 2**62
OUTDATED_MAX = 500
# Of a partition some more are read than its share of a page: those of one may all be due before those of the others.
SHARES = 1.5
EACH_LEAST = 16
JSON_COLUMNS = ("tags", "rule", "catch_up", "template", "calendars")


class Term(msgspec.Struct, frozen=True):
    """Under which leases (epoch by partition) an owner writes; how often it knows to have renewed its term."""

    incarnation: str
    epochs: Mapping[int, int]
    beat: int = 0


class Seen(msgspec.Struct, frozen=True):
    """A schedule and the tasks on which its decisions rest, of one snapshot."""

    schedule: Schedule
    tasks: dict[str, TaskState]
    calendars: dict[str, Content] = {}
    """Those that it names, as they are."""
    line: tuple[LineFire, ...] = ()
    """Who stands in its line, and its own fires in others."""


class LedgerEntry(msgspec.Struct, frozen=True):
    """A row of the ledger, and how its task stands now; a task that retention has removed stands nowhere."""

    row: LedgerRow
    state: int | None = None
    due_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None


class ScheduleFilter(msgspec.Struct, frozen=True):
    """What a client may filter schedules by; None does not filter."""

    name: str | None = None
    paused: bool | None = None
    tag_name: str | None = None
    tag_value: str | None = None
    text: str | None = None


async def create(tx: Transaction, plan: Plan, payload: Payload) -> None:
    """A new schedule with what it sends; its key has been taken."""
    await tx.run("schedule_insert", rows=[_definition_row(plan.before)])
    await add_template(tx, plan.before.id, plan.before.payload_version, payload)
    await _write(tx, [plan])


async def add_template(tx: Transaction, schedule_id: str, version: int, payload: Payload) -> None:
    """What its fires send from this version on; what they sent before stays as long as one of them names it."""
    text = msgspec.json.encode(payload).decode()
    await tx.run("schedule_template_insert", id=schedule_id, version=version, payload=text)
    await tx.run("schedule_template_retire", id=schedule_id, kept=version)


async def define(tx: Transaction, plan: Plan) -> None:
    """Carry out an edit, made in this very transaction."""
    await tx.run("schedule_define", rows=[_definition_row(plan.after)])
    await _write(tx, [plan])


async def carry_out(tx: Transaction, plans: Sequence[Plan], term: Term | None = None) -> list[bool]:
    """Write plans; which of them were not stale. An owner shows its term; who plans in this transaction has none."""
    # Leases first, as a claim does: who comes to them with tasks in hand closes a ring of waiters.
    stale = set() if term is None else await _foreign(tx, plans, term)
    held = await lines.held_for(tx, plans)
    stale |= await _stale(tx, plans)
    stale |= lines.stale(plans, held, stale)
    fresh = [plan for place, plan in enumerate(plans) if place not in stale]
    if fresh:
        await _write(tx, fresh)
    return [place not in stale for place in range(len(plans))]


def carry_out_batch(term: Callable[[], Term]) -> Batch:
    """The batch by which an owner writes plans, under its term of that moment: one at fault fails alone."""

    async def operation(tx: Transaction, plans: list[Any]) -> list[Any]:
        return await carry_out(tx, plans, term())

    return Batch("carry_out", Lane.FIRE, operation)


async def hold(tx: Transaction, seen: Seen) -> None:
    """What this transaction has read of a schedule stays so until its end."""
    await lines.hold(tx, lines.named([seen.schedule], seen.line))
    if await lines.read(tx, [seen.schedule]) != list(seen.line) or await _changed(
        tx, [(seen.schedule, seen.tasks.values())]
    ):
        raise Aborted("Another transaction has just changed the schedule.")


async def _stale(tx: Transaction, plans: Sequence[Plan]) -> set[int]:
    return await _changed(tx, [(plan.before, plan.seen) for plan in plans])


async def _changed(tx: Transaction, read: Sequence[tuple[Schedule, Iterable[TaskState]]]) -> set[int]:
    """The places of those that are no longer as they were read, themselves or their tasks."""
    rows = [
        [place, one.id, one.version, one.cursor_at, one.next_id, one.buffered_id, one.fired, one.skipped, one.missed]
        for place, (one, _) in enumerate(read)
    ]
    seen = [[place, task.id, task.version] for place, (_, tasks) in enumerate(read) for task in tasks]
    return set(await tx.rows("schedule_stale", int, schedules=rows, tasks=seen))


async def _foreign(tx: Transaction, plans: Sequence[Plan], term: Term) -> set[int]:
    rows = [
        [place, partition, term.epochs.get(partition)]
        for place, partition in enumerate(partition_of(plan.before.id) for plan in plans)
    ]
    return set(await tx.rows("schedule_foreign", int, rows=rows, incarnation=term.incarnation, beat=term.beat))


async def _write(tx: Transaction, plans: Sequence[Plan]) -> None:
    withdrawn = [(task.id, task.tenant, int(task.state)) for plan in plans for task in plan.withdrawn]
    if withdrawn:
        await tasks.delete(tx, withdrawn, at=max(plan.withdrawn_at for plan in plans))
    changes = [change for plan in plans for change in plan.changes]
    if changes:
        assert len({one.after.id for one in changes}) == len(changes), "each task is changed once"
        written = await tasks.change(tx, changes, of_many=True, written_down=True)
        if len(written) != len(changes):
            raise Aborted("Another transaction has just changed a task of the schedule.")
    born = sorted((fire for plan in plans for fire in plan.born), key=lambda fire: fire.state.id)
    if born:
        await tasks.insert_whole(tx, born)
    await lines.join(tx, [one for plan in plans for one in plan.joins])
    await fires.write(tx, plans)
    await standing.write(tx, plans)
    await schedule_events.tell(tx, plans)
    await schedule_faults.tell_plans(tx, plans)


def _definition_row(schedule: Schedule) -> dict[str, Any]:
    row = columns(schedule)
    del row["skips"]  # it stands with where it stands
    for name in JSON_COLUMNS:
        row[name] = msgspec.json.encode(row[name]).decode()
    return row


async def seen(tx: Transaction, schedules: Sequence[Schedule], *, deciding: bool = False) -> list[Seen]:
    """These schedules with the tasks, the calendars and the line on which their decisions rest.

    For a decision about what is due nobody asks who of a schedule without a line waits in one where it once stood, nor
    for a fire that has ended: the next one does not meet it.
    """
    asked = [one for one in schedules if one.line is not None or not deciding]
    in_line = lines.of_each(asked, await lines.read(tx, asked) if asked else [])
    names_of = {one.id: (*one.task_ids, *(row.task_id for row in in_line.get(one.id, ()))) for one in schedules}
    found = await (_to_decide if deciding else _all_of)(tx, schedules, names_of)
    states = {state.id: state for state in found}
    named = {(one.tenant, use.name) for one in schedules for use in one.calendars}
    contents = await calendars.contents(tx, named) if named else {}
    return [
        Seen(
            one,
            {name: states[name] for name in names_of[one.id] if name in states},
            {use.name: contents[one.tenant, use.name] for use in one.calendars if (one.tenant, use.name) in contents},
            in_line.get(one.id, ()),
        )
        for one in schedules
    ]


async def _all_of(tx: Transaction, schedules: Sequence[Schedule], names_of: Names) -> list[TaskState]:
    ids = sorted({task_id for one in schedules for task_id in names_of[one.id]})
    return await tasks.states(tx, ids) if ids else []


async def _to_decide(tx: Transaction, schedules: Sequence[Schedule], names_of: Names) -> list[TaskState]:
    """The same, but for those that have ended and are not ahead: nobody waits for them."""
    ahead = sorted({one.next_id for one in schedules if one.next_id is not None})
    others = sorted({task_id for one in schedules for task_id in names_of[one.id]}.difference(ahead))
    return await tasks.states_open(tx, ahead, others) if ahead or others else []


async def due(tx: Transaction, now: int, limit: int, partitions: list[str] | None = None) -> list[Seen]:
    """Schedules of these partitions (all, if None) that want to be looked at by now."""
    if partitions == []:
        return []
    if partitions is None:
        return await seen(tx, await tx.rows("schedules_due", Schedule, now=now, limit=limit), deciding=True)
    # Of each about its share: those of one must not be read in vain each time, because others are due before them.
    each = max(EACH_LEAST, int(SHARES * limit) // max(len(partitions), 1))
    found = await tx.rows("schedules_due_in", Schedule, now=now, limit=limit, partitions=partitions, each=each)
    return await seen(tx, found, deciding=True)


async def next_look(tx: Transaction, now: int, partitions: list[str] | None = None) -> int | None:
    """When the next one wants to be looked at."""
    if partitions is None:
        return only(await tx.rows("schedules_next_look", int | None, now=now))  # type: ignore[arg-type] # a union as a type
    return only(await tx.rows("schedules_next_look_in", int | None, now=now, partitions=partitions))  # type: ignore[arg-type] # the same


async def put_off(tx: Transaction, ids: list[str], until: int) -> None:
    """Look at these no sooner than that."""
    await tx.run("schedules_put_off", ids=ids, until=until)


async def outdate(tx: Transaction, now: int, tzdata: str) -> int:
    """Look again at some of those whose fire ahead was worked out by other zone data; how many."""
    if not only(await tx.rows("schedules_any_outdated", bool, now=now, tzdata=tzdata)):
        return 0
    return await tx.run("schedules_outdated", now=now, tzdata=tzdata, limit=OUTDATED_MAX)


async def resolve(tx: Transaction, tenant: str, name: str) -> str:
    """The internal id of `sch_…` or `key:…`."""
    if not name.startswith(KEY_PREFIX):
        return parse("sch", name, SCHEDULE)
    held = await names.find(tx, tenant, SCHEDULE, name.removeprefix(KEY_PREFIX))
    if held is None:
        raise not_found(SCHEDULE, name)
    return held.object_id


async def read(tx: Transaction, tenant: str, ids: list[str]) -> list[Schedule]:
    """Schedules of this tenant, in the order asked for."""
    rows = await tx.rows("schedules_read", Schedule, ids=ids, tenant=tenant)
    found = {one.id: one for one in rows}
    return [found[one] for one in ids if one in found]


async def find(tx: Transaction, tenant: str, name: str) -> Seen:
    """One schedule of this tenant by id or key, or the refusal."""
    found = only(await read(tx, tenant, [await resolve(tx, tenant, name)]))
    if found is None:
        raise not_found(SCHEDULE, name)
    return (await seen(tx, [found]))[0]


async def templates(tx: Transaction, ids: list[str], *, bodies: bool = True) -> dict[str, Payload]:
    """What these schedules send now; bodies only if they are wanted."""
    rows = await tx.rows("schedule_templates", StoredPayload, ids=ids, bodies=bodies)
    return {one.owner_id: one.payload for one in rows}


async def take_key(tx: Transaction, schedule: Schedule) -> None:
    """Take the key of a new schedule, which is its own as long as it exists."""
    if schedule.key is None:
        return
    held = await names.find(tx, schedule.tenant, SCHEDULE, schedule.key)
    if held is not None:
        holder = wire("sch", held.object_id)
        detail = f"The key {schedule.key!r} belongs to the schedule {holder}. Change that one, or choose another key."
        raise Refused("key_taken", detail, errors=[("/key", f"taken by {holder}")])
    row = Name(schedule.tenant, SCHEDULE, schedule.key, schedule.id, schedule.created_at)
    await names.take(tx, [row])


async def trigger(tx: Transaction, fire: NewFire, payload: Payload | None) -> None:
    """A fire outside the ledger, within the tenant's quota; it sends what its schedule sends, or this."""
    refused = (await tenants.rooms(tx, [fire.state.tenant])).take(fire.state.tenant)
    if refused is not None:
        raise refused
    if payload is None:
        await tasks.insert_whole(tx, [fire])
    else:
        await tasks.insert(tx, [NewTask(fire.state, fire.detail, payload)])


async def ids_page(
    tx: Transaction, tenant: str, by: ScheduleFilter, *, beyond: str | None, limit: int, oldest_first: bool = False
) -> list[str]:
    """Ids of a tenant's schedules that match, beyond the last one of the page before."""
    query = "schedule_ids_oldest_first" if oldest_first else "schedule_ids_newest_first"
    edge = beyond if beyond is not None else ("" if oldest_first else "~")
    wanted = {name: getattr(by, name) for name in ScheduleFilter.__struct_fields__}
    return await tx.rows(query, str, tenant=tenant, beyond=edge, limit=limit, **wanted)


async def ledger(
    tx: Transaction,
    schedule_id: str,
    *,
    outcomes: list[str] | None = None,
    reason: str | None = None,
    from_at: int | None = None,
    to_at: int | None = None,
    beyond: int = BEYOND_ALL,
    limit: int = 1_000,
) -> list[LedgerEntry]:
    """What became of its times, the latest first: from one instant on, before another."""
    return await tx.rows(
        "ledger_page",
        LedgerEntry,
        schedule_id=schedule_id,
        outcomes=outcomes,
        reason=reason,
        from_at=from_at,
        to_at=to_at,
        beyond=beyond,
        limit=limit,
    )


async def delete(tx: Transaction, plan: Plan) -> None:
    """Remove a schedule that stands still; its fires and its ledger stay until they are old."""
    await _write(tx, [plan])
    await tx.run("names_free", kind=SCHEDULE, ids=[plan.before.id])
    await tx.run("schedule_template_retire", id=plan.before.id, kept=0)
    await tx.run("schedule_delete", id=plan.before.id)


async def pause_gone(tx: Transaction, ids: Sequence[str], by: Recorder) -> None:
    """A receiver has said that it is gone for good: its schedules stop."""
    await pause_each(tx, ids, by, "gone", lambda _: pause_note.GONE)


async def pause_each(
    tx: Transaction, ids: Sequence[str], by: Recorder, reason: PauseReason, note: Callable[[Schedule], str]
) -> None:
    """Pause those of these schedules that are not paused yet, from within, for a reason of ours."""
    for found in await seen(tx, await tx.rows("schedules_read", Schedule, ids=sorted(ids), tenant=None)):
        if not found.schedule.paused:
            said = pause_note.left_by(note(found.schedule), found.schedule.note)
            await _write(tx, [pause(found.schedule, found.tasks, by, None, said, reason)])


async def purge(tx: Transaction, before: int, limit: int) -> int:
    """Remove some of the ledger's rows that are old, and of what schedules once sent; how many."""
    removed = await fires.purge(tx, before, limit)
    return max(removed, await tx.run("schedule_templates_purge", limit=limit))
