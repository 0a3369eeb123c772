"""One thing done to all that a filter finds, a few at a time, so that nobody waits long behind it.

Ids are read newest first; each slice is looked at again in the transaction that changes it, so that nothing is
done to what does not match any more, and what is made meanwhile is not reached. With an Idempotency-Key the
place and the counts stand beside the key in every one of these transactions: a request that was cut off goes on
where it stopped, and counts nothing twice.
"""

from typing import Any, Protocol

import msgspec

from tasktick.api.call import Call, Reply, encode
from tasktick.api.faults import Faults
from tasktick.api.idempotency import begin, key_of, reply
from tasktick.api.render import Document
from tasktick.errors import Refused
from tasktick.model.task import TaskState
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Lane, Transaction

OK = 200
SLICE = 200
NOTHING_SAID = "Say what is to be found: a filter without any word would find everything."


class Step(msgspec.Struct, frozen=True):
    """What was done in one transaction."""

    matched: int = 0
    changed: int = 0
    left: int = 0
    states: list[TaskState] = []


class Tally(msgspec.Struct, frozen=True):
    """How far it is, and what came of it."""

    beyond: str | None = None
    matched: int = 0
    changed: int = 0
    left: int = 0

    def after(self, step: Step, beyond: str | None) -> "Tally":
        """This, and one step more."""
        return Tally(beyond, self.matched + step.matched, self.changed + step.changed, self.left + step.left)

    def stored(self, *, ended: bool, beside: Document) -> StoredAnswer:
        """The answer; until it is known, where to go on."""
        if ended:
            counts = {"matched": self.matched, "changed": self.changed, "left": self.left}
            return StoredAnswer(OK, encode({**counts, **beside}).decode())
        return StoredAnswer(OK, "", {"tally": encode(self).decode()})


class Bulk(Protocol):
    """What is to be found, and what is to be done to it."""

    async def ids(self, tx: Transaction, beyond: str | None, limit: int) -> list[str]:
        """Ids of what matches, newest first, beyond the last one of the slice before."""
        ...

    async def act(self, tx: Transaction, ids: list[str]) -> Step:
        """Do it to those of them that match still."""
        ...

    async def left(self, tx: Transaction, ids: list[str]) -> int:
        """How many of these it would leave as they are, since they may have been done already."""
        ...


async def carry_out(call: Call, bulk: Bulk, *, dry_run: bool, beside: Document | None = None) -> Reply:
    """Do it to everything that is found, or only count; what stands beside the counts is answered with them."""
    told = {} if beside is None else beside
    key = key_of(call)
    with call.in_flight.held(key):
        before = await begin(call, key)
        if before is not None and before.body:
            return reply(before)
        tally, ended = _tally_of(before), False
        while not ended:
            if call.ports.draining():
                detail = f"This server is stopping; {tally.changed} are changed. Send the request again for the rest."
                raise Refused("draining", detail)
            tally, ended = await _step(call, bulk, tally, key, told, dry_run=dry_run)
    return reply(tally.stored(ended=True, beside=told))


def _tally_of(before: StoredAnswer | None) -> Tally:
    text = None if before is None else before.headers.get("tally")
    return Tally() if text is None else msgspec.json.decode(text, type=Tally)


async def _step(
    call: Call, bulk: Bulk, tally: Tally, key: IdempotencyKey | None, told: Document, *, dry_run: bool
) -> tuple[Tally, bool]:
    """One slice; whether it was the last one."""

    async def found(tx: Transaction) -> tuple[list[str], Step]:
        ids = await bulk.ids(tx, tally.beyond, SLICE)
        return ids, Step(len(ids), left=await bulk.left(tx, ids) if dry_run and ids else 0)

    ids, counted = await call.ports.database.read(found)
    ended = len(ids) < SLICE
    beyond = ids[-1] if ids else tally.beyond

    async def operation(tx: Transaction) -> tuple[Step, Tally]:
        step = counted if dry_run or not ids else await bulk.act(tx, ids)
        after = tally.after(step, beyond)
        if key is not None:
            await names.answer(tx, key, after.stored(ended=ended, beside=told))
        return step, after

    if key is None and (dry_run or not ids):
        return tally.after(counted, beyond), ended
    step, after = await call.ports.database.write(operation, Lane.UPKEEP)
    if step.states:
        call.ports.changed(step.states)
    return after, ended


class SelectionFaults(Faults):
    """Faults of a filter that stands in a body rather than in a query."""

    def add(self, pointer: str, detail: str, code: str = "validation_failed") -> None:
        """Note a fault under the field that it is about."""
        super().add(pointer.replace("?", "/filter/", 1), detail, code)


def words_of(faults: Faults, selection: msgspec.Struct) -> dict[str, list[str]]:
    """A filter in a body as the words of a query, so that both mean the same."""
    given: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(selection).items() if value is not None}
    words = {name: _texts(value) for name, value in given.items()}
    for name in [name for name, values in words.items() if not values]:
        faults.add(f"?{name}", "This finds nothing. Leave it out, or say what is to be found.")
    if not given:
        raise Refused("validation_failed", NOTHING_SAID, errors=[("/filter", NOTHING_SAID)])
    return words


def _texts(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
