"""What can be done to all tasks that a filter finds, or that are named: cancel, retry, run, delete."""

from contextlib import suppress

import msgspec

from tasktick.api import filters, render
from tasktick.api.bulk import Bulk, SelectionFaults, Step, carry_out, words_of
from tasktick.api.call import Call, Handler, Reply
from tasktick.api.decoding import Decoder
from tasktick.api.render import Document
from tasktick.api.schemas import TaskBulk
from tasktick.api.task_actions import REPLAYED, decided_by
from tasktick.api.tasks import written_state
from tasktick.errors import IllegalTransition, Refused
from tasktick.model.attempt import OUTCOME_UNKNOWN
from tasktick.model.change import ACTIONS, Change
from tasktick.model.ids import wire
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskState
from tasktick.store import dlq, fires, listing, schedules, tasks
from tasktick.store.fires import Deciding
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Transaction

REQUEST = Decoder(TaskBulk)
IDS_MAX = 1_000
NOTHING = "Say which tasks: `ids`, or a `filter`, or both for those of them that match."
# A time that is part of a stretch has no task that could be found.
CONDENSED = "{} more times are condensed into stretches, which have no tasks: POST /v1/schedules/{}/backfill runs them."


class Asked(msgspec.Struct, frozen=True):
    """What is to be found, and whether only to count it."""

    by: TaskFilter
    ids: tuple[str, ...] | None
    """Of these alone, newest first."""
    dry_run: bool


async def _asked(call: Call) -> Asked:
    request: TaskBulk = REQUEST.decode(call.body, call.ports.config.server.json_depth_max)
    if request.ids is None and request.filter is None:
        raise Refused("validation_failed", NOTHING, errors=[("/filter", NOTHING)])
    faults = SelectionFaults()
    by = TaskFilter(now=call.now)
    if request.filter is not None:
        by = filters.tasks(faults, words_of(faults, request.filter), call.now)
    names = request.ids
    if names is not None and not 1 <= len(names) <= IDS_MAX:
        faults.add("/ids", f"This names 1 to {IDS_MAX} tasks. More are found by a filter, or in several requests.")
    faults.end()
    return Asked(by, None if names is None else await _named(call, names), request.dry_run)


async def _named(call: Call, names: list[str]) -> tuple[str, ...]:
    """The tasks that are named, newest first; what is not there is not found."""

    async def operation(tx: Transaction) -> list[str]:
        found = []
        for name in names:
            with suppress(Refused):
                found.append(await tasks.resolve(tx, call.tenant, name))
        return found

    return tuple(sorted(set(await call.ports.database.read(operation)), reverse=True))


class Found(msgspec.Struct, frozen=True):
    """The tasks of a tenant that a filter finds, or of those that are named."""

    tenant: str
    by: TaskFilter
    now: int
    named: tuple[str, ...] | None = None

    async def ids(self, tx: Transaction, beyond: str | None, limit: int) -> list[str]:
        """Ids of what matches, newest first."""
        if self.named is None:
            return await listing.ids_page(tx, self.tenant, self.by, beyond=beyond, limit=limit)
        left = [one for one in self.named if beyond is None or one < beyond]
        found: list[str] = []
        while left and len(found) < limit:
            found += await listing.matching(tx, self.tenant, self.by, left[:limit])
            left = left[limit:]
        return found[:limit]

    async def left(self, tx: Transaction, ids: list[str]) -> int:
        """None, of whatever is not sent again."""
        return 0


class Acting(Found, frozen=True, kw_only=True):
    """An action on each; one whose state does not allow it stays as it is.

    A retry leaves those whose call may have arrived, unless they are named.
    """

    action: str
    deciding: Deciding

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Change those of them that match still."""
        matching = await listing.matching(tx, self.tenant, self.by, ids)
        rows = await tasks.states(tx, matching)
        wanted = [row for row in rows if not self._leaves(row)]
        changes = [change for row in wanted if (change := self._change(row)) is not None]
        states = await write_many(tx, changes, self.now, self.deciding)
        return Step(len(matching), len(states), len(rows) - len(wanted), states)

    async def left(self, tx: Transaction, ids: list[str]) -> int:
        """How many may have arrived."""
        return sum(self._leaves(row) for row in await tasks.states(tx, ids))

    def _leaves(self, task: TaskState) -> bool:
        return self.action in {"retry", "run"} and self.named is None and task.reason == OUTCOME_UNKNOWN

    def _change(self, task: TaskState) -> Change | None:
        try:
            change = ACTIONS[self.action](task, self.now)
        except IllegalTransition:
            return None
        # One that is asked a second time to stop is not changed by that.
        same = msgspec.structs.replace(change.after, updated_at=task.updated_at) == task
        return None if same else change


class Deleting(Found, frozen=True):
    """Remove each with its history; one that is running, or a fire of a schedule, stays."""

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Remove those of them that match still."""
        matching = await listing.matching(tx, self.tenant, self.by, ids)
        removed = await remove(tx, self.tenant, matching, self.now)
        return Step(len(matching), len(removed), states=removed)


async def write_many(
    tx: Transaction, changes: list[Change], now: int, deciding: Deciding | None = None
) -> list[TaskState]:
    """Write changes of many tasks; those that were written, as they are then."""
    if not changes:
        return []
    written = set(await tasks.change(tx, changes, of_many=True, deciding=deciding))
    done = [change for change in changes if change.after.id in written]
    reopened = [one.after.id for one in done if one.before.state in TERMINAL and one.after.state not in TERMINAL]
    if reopened:
        await dlq.resolve_tasks(tx, reopened, REPLAYED, now)
    return [written_state(change.after, change.before) for change in done]


async def remove(tx: Transaction, tenant: str, ids: list[str], now: int) -> list[TaskState]:
    """Remove those of these tasks that may go; they are shown as cancelled."""
    views = await tasks.views(tx, tenant, ids, bodies=False)
    states = [
        view.state
        for view in views
        if view.state.state not in (State.RUNNING, State.AWAITING) and view.detail.schedule_id is None
    ]
    if states:
        await tasks.delete(tx, [(state.id, state.tenant, int(state.state)) for state in states], at=now)
    return [msgspec.structs.replace(state, state=State.CANCELLED) for state in states]


def act(action: str) -> Handler:
    """The handler of POST /v1/tasks/<action>."""

    async def handle(call: Call) -> Reply:
        asked = await _asked(call)
        bulk: Bulk = Acting(call.tenant, asked.by, call.now, asked.ids, action=action, deciding=decided_by(call))
        beside = await _condensed(call, asked) if action == "run" else None
        return await carry_out(call, bulk, dry_run=asked.dry_run, beside=beside)

    return handle


async def _condensed(call: Call, asked: Asked) -> Document | None:
    """What of a schedule is asked for and has no task: times that stand in stretches of its ledger."""
    by = asked.by
    words = {int(State.MISSED): "missed", int(State.SKIPPED): "skipped"}
    outcomes = [words[state] for state in by.states or () if state in words]
    schedule_id = by.schedule_id
    if asked.ids is not None or schedule_id is None or not outcomes:
        return None
    name = wire(render.SCHEDULE, schedule_id)

    async def operation(tx: Transaction) -> int:
        await schedules.find(tx, call.tenant, name)
        return await fires.condensed(tx, schedule_id, outcomes, by.run_after, by.run_before)

    try:
        times = await call.ports.database.read(operation)
    except Refused:  # it is gone, or was never there: its fires are found without it
        return None
    return {"condensed": times, "note": CONDENSED.format(times, name)} if times else None


async def delete(call: Call) -> Reply:
    """POST /v1/tasks/delete."""
    asked = await _asked(call)
    return await carry_out(call, Deleting(call.tenant, asked.by, call.now, asked.ids), dry_run=asked.dry_run)
