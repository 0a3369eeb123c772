"""What can be done to all tasks that a filter finds: cancel, retry, run, delete."""

import msgspec

from tasktick.api import filters
from tasktick.api.bulk import Bulk, SelectionFaults, Step, carry_out, words_of
from tasktick.api.call import Call, Handler, Reply
from tasktick.api.decoding import Decoder
from tasktick.api.schemas import TaskBulk
from tasktick.api.task_actions import REPLAYED
from tasktick.api.tasks import written_state
from tasktick.errors import IllegalTransition
from tasktick.model.change import ACTIONS, Change
from tasktick.model.state import TERMINAL, State
from tasktick.model.task import TaskState
from tasktick.store import dlq, listing, tasks
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Transaction

REQUEST = Decoder(TaskBulk)


def _asked(call: Call) -> tuple[TaskFilter, bool]:
    """What is to be found, and whether only to count it."""
    request = REQUEST.decode(call.body, call.ports.config.server.json_depth_max)
    faults = SelectionFaults()
    by = filters.tasks(faults, words_of(faults, request.filter), call.now)
    faults.end()
    return by, request.dry_run


class Found(msgspec.Struct, frozen=True):
    """The tasks of a tenant that a filter finds."""

    tenant: str
    by: TaskFilter
    now: int

    async def ids(self, tx: Transaction, beyond: str | None, limit: int) -> list[str]:
        """Ids of what matches, newest first."""
        return await listing.ids_page(tx, self.tenant, self.by, beyond=beyond, limit=limit)


class Acting(Found, frozen=True):
    """An action on each; one whose state does not allow it stays as it is."""

    action: str

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Change those of them that match still."""
        matching = await listing.matching(tx, self.tenant, self.by, ids)
        rows = await tasks.states(tx, matching)
        changes = [change for row in rows if (change := self._change(row)) is not None]
        states = await write_many(tx, changes, self.now)
        return Step(len(matching), len(states), states)

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
        return Step(len(matching), len(removed), removed)


async def write_many(tx: Transaction, changes: list[Change], now: int) -> list[TaskState]:
    """Write changes of many tasks; those that were written, as they are then."""
    if not changes:
        return []
    written = set(await tasks.change(tx, changes, of_many=True))
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
        by, dry_run = _asked(call)
        bulk: Bulk = Acting(call.tenant, by, call.now, action)
        return await carry_out(call, bulk, dry_run=dry_run)

    return handle


async def delete(call: Call) -> Reply:
    """POST /v1/tasks/delete."""
    by, dry_run = _asked(call)
    return await carry_out(call, Deleting(call.tenant, by, call.now), dry_run=dry_run)
