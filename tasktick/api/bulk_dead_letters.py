"""What can be done to all dead letters that a filter finds: replay, archive, purge."""

import msgspec

from tasktick.api import filters
from tasktick.api.bulk import Bulk, SelectionFaults, Step, carry_out, words_of
from tasktick.api.bulk_tasks import remove, write_many
from tasktick.api.call import Call, Reply
from tasktick.api.dead_letters import ARCHIVED
from tasktick.api.decoding import Decoder
from tasktick.api.schemas import DeadLetterBulk
from tasktick.errors import IllegalTransition
from tasktick.model.attempt import OUTCOME_UNKNOWN
from tasktick.model.change import Change, reopen
from tasktick.model.state import State
from tasktick.model.task import TaskState
from tasktick.store import dlq, tasks
from tasktick.store.dlq import DeadLetterFilter
from tasktick.store.protocol import Transaction
from tasktick.store.rows import DeadLetter

REQUEST = Decoder(DeadLetterBulk)


class Found(msgspec.Struct, frozen=True):
    """The dead letters of a tenant that a filter finds."""

    tenant: str
    by: DeadLetterFilter
    now: int

    async def ids(self, tx: Transaction, beyond: str | None, limit: int) -> list[str]:
        """Ids of what matches, newest first."""
        return [letter.id for letter in await dlq.page(tx, self.tenant, self.by, beyond=beyond, limit=limit)]

    async def matching(self, tx: Transaction, ids: list[str]) -> list[DeadLetter]:
        """Those of them that match still."""
        return await dlq.matching(tx, self.tenant, self.by, ids)

    async def left(self, tx: Transaction, ids: list[str]) -> int:
        """None, of whatever is not sent again."""
        return 0


class Replaying(Found, frozen=True):
    """Run the task of each open one again; not those whose call may have arrived, unless that is asked for."""

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Start new series of their tasks."""
        letters = await self.matching(tx, ids)
        wanted = [letter.task_id for letter in letters if letter.resolution is None and not self._leaves(letter)]
        changes = [change for row in await tasks.states(tx, wanted) if (change := self._change(row)) is not None]
        states = await write_many(tx, changes, self.now)
        written = {state.id for state in states}
        left = sum(self._leaves(letter) for letter in letters)
        return Step(len(letters), sum(one in written for one in wanted), left, states)

    async def left(self, tx: Transaction, ids: list[str]) -> int:
        """How many may have arrived."""
        return sum(self._leaves(letter) for letter in await self.matching(tx, ids))

    def _leaves(self, letter: DeadLetter) -> bool:
        is_unknown = letter.resolution is None and letter.reason == OUTCOME_UNKNOWN
        return is_unknown and self.by.reason != OUTCOME_UNKNOWN

    def _change(self, task: TaskState) -> Change | None:
        try:
            return reopen(task, self.now)
        except IllegalTransition:
            return None


class Archiving(Found, frozen=True):
    """Mark each open one as dealt with."""

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Mark them."""
        letters = await self.matching(tx, ids)
        changed = await dlq.resolve(tx, [letter.id for letter in letters], ARCHIVED, self.now)
        return Step(len(letters), changed)


class Purging(Found, frozen=True):
    """Remove each: with its task where that is dead since, alone where the task went on."""

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Remove them."""
        letters = await self.matching(tx, ids)
        states = {state.id: state for state in await tasks.states(tx, [letter.task_id for letter in letters])}
        last = [letter for letter in letters if _is_why(letter, states.get(letter.task_id))]
        removed = await remove(tx, self.tenant, list(dict.fromkeys(letter.task_id for letter in last)), self.now)
        gone = {state.id for state in removed}
        alone = [letter.id for letter in letters if letter not in last]
        # Older letters of a task that is removed have gone with it.
        if alone:
            await dlq.delete(tx, alone)
        return Step(len(letters), len(alone) + sum(letter.task_id in gone for letter in last), states=removed)


def _is_why(letter: DeadLetter, task: TaskState | None) -> bool:
    """Whether a task is dead by what this letter says, and not alive again, or dead again since."""
    return task is not None and task.state is State.DEAD and task.completed_at == letter.died_at


async def _carry_out(call: Call, kind: type[Replaying] | type[Archiving] | type[Purging]) -> Reply:
    request = REQUEST.decode(call.body, call.ports.config.server.json_depth_max)
    faults = SelectionFaults()
    by = filters.dead_letters(faults, words_of(faults, request.filter))
    faults.end()
    bulk: Bulk = kind(call.tenant, by, call.now)
    return await carry_out(call, bulk, dry_run=request.dry_run)


async def replay(call: Call) -> Reply:
    """POST /v1/dlq/replay."""
    return await _carry_out(call, Replaying)


async def archive(call: Call) -> Reply:
    """POST /v1/dlq/archive."""
    return await _carry_out(call, Archiving)


async def purge(call: Call) -> Reply:
    """POST /v1/dlq/purge."""
    return await _carry_out(call, Purging)
