"""Fires that wait for the one before them to end: let go in the transaction in which it ends.

Two that end at once otherwise both commit, and who waits for them waits for ever (RULES: the schedule's row is
locked first; a store with one writer has no two at once).
"""

from collections.abc import Sequence

import msgspec

from tasktick.model.state import Event, State, after
from tasktick.model.task import Due
from tasktick.store.counts import Deltas
from tasktick.store.protocol import Transaction


class Waiter(msgspec.Struct, frozen=True, array_like=True):
    """A task that waits for `holder_id`."""

    holder_id: str
    due: Due


async def step_out(tx: Transaction, ended: Sequence[str]) -> None:
    """These tasks have ended while they waited: the next fire must not overlap the one that they waited for."""
    await tx.run("waiters_step_out", ids=ended)


async def let_go(tx: Transaction, ended: Sequence[str], now: int, deltas: Deltas) -> dict[str, Due]:
    """These tasks have ended: who waited for them may go now, by the task that was waited for."""
    waiters = await tx.rows("waiters_of", Waiter, ids=ended, now=now)
    if waiters:
        state = after(Event.UNBLOCK, State.BLOCKED)
        await tx.run("waiters_go", ids=[one.due.id for one in waiters], now=now, state=int(state))
        for one in waiters:
            deltas.moved(one.due.tenant, State.BLOCKED, state, one.due.id, now, 0)
    await tx.run("waiters_line_free", ids=ended)
    return {one.holder_id: one.due for one in waiters}
