"""POST /v1/tasks/batch: up to 10,000 tasks, as one JSON document or as lines of JSON.

Each task is read, made and refused by itself. With an Idempotency-Key every task has one of its own, derived
from it, so that a batch cut off in the middle goes on where it stopped; the whole answer is kept at the end.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import msgspec

from tasktick import interpreter
from tasktick.api import problems, render
from tasktick.api.call import Call, Reply, encode
from tasktick.api.decoding import Decoder, unreadable
from tasktick.api.idempotency import begin, key_of, reply
from tasktick.api.rates import RateRefused
from tasktick.api.routing import NDJSON
from tasktick.api.schemas import TaskBatch
from tasktick.api.task_requests import new_task
from tasktick.api.tasks import OK, TASK, making_of
from tasktick.errors import Refused, TaskTickError
from tasktick.model.ids import wire
from tasktick.model.task import TaskState
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.plain_tasks import CREATE_SLICE, Slice, slice_of
from tasktick.store.protocol import Transaction
from tasktick.store.task_rows import NewRow, new_row
from tasktick.store.tasks import CREATE, Create

# So many characters are read before the loop gets its turn again, half a millisecond of them, and what a task costs by
# itself counted as some.
STRETCH_CHARS = 50_000
TASK_CHARS = 200
WRITE_SLICE = 500
# No key of a client contains it, so no derived key is ever one of a client's.
JOINT = "\x1f"

_BATCH = msgspec.json.Decoder(TaskBatch)
Result = dict[str, Any]


async def create_many(call: Call) -> Reply:
    """POST /v1/tasks/batch."""
    items = _items(call)
    key = key_of(call)
    with call.in_flight.held(key):
        before = await begin(call, key)
        if before is not None and before.body:
            await call.take(0)
            return reply(before)
        results = await _create(call, items, key)
        body = encode({"data": results})
        if key is not None:
            await _keep(call, key, body.decode())
    return Reply(OK, body)


def _items(call: Call) -> Sequence[msgspec.Raw | bytes]:
    """The tasks of a batch, each still as it was written."""
    most = call.ports.config.server.batch_max_tasks
    if call.headers.get("Content-Type", "").partition(";")[0].strip().lower() == NDJSON:
        items: Sequence[msgspec.Raw | bytes] = [line for line in call.body.split(b"\n") if line.strip()]
    else:
        items = _listed(call)
    if not items:
        raise Refused("validation_failed", "A batch has at least one task.", errors=[("/tasks", "It is empty.")])
    if len(items) > most:
        detail = f"A batch has at most {most} tasks; this one has {len(items)}."
        raise Refused("validation_failed", detail, errors=[("/tasks", detail)])
    return items


def _listed(call: Call) -> Sequence[msgspec.Raw]:
    try:
        return _BATCH.decode(call.body).tasks
    except msgspec.ValidationError:
        # Read again the slow way, which finds every fault.
        Decoder(TaskBatch).decode(call.body, call.ports.config.server.json_depth_max)
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(call.body, error) from None


class Part(msgspec.Struct):
    """Some tasks of a batch, which are written together; their places in it ascend."""

    named: list[tuple[int, Create]] = []
    """Those with a key of their own or of the batch, and whatever else is judged by itself."""
    places: list[int] = []
    """Of the others, ..."""
    ids: list[str] = []
    """... what they are called, ..."""
    rows: list[NewRow] = []
    """... what is written of each, ..."""
    slice: Slice | None = None
    """... and then of all, ..."""
    near: list[TaskState] = []
    """... and those of which the scheduler is to be told."""

    def __len__(self) -> int:
        return len(self.named) + len(self.places)

    def keep(self, count: int) -> list[int]:
        """Leave out all but the first; the places of those that are left out."""
        places = sorted((*self.places, *(at for at, _ in self.named)))
        kept = bisect_left(self.places, places[count])
        out = set(self.ids[kept:])
        self.near = [state for state in self.near if state.id not in out]
        del self.places[kept:], self.ids[kept:], self.rows[kept:]
        del self.named[count - kept :]
        return places[count:]


async def _create(call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None) -> list[Result]:
    """Make the tasks; a result for each, in order. While some are written, the next are read."""
    results: list[Result] = [{} for _ in items]
    reading = Reading(call, items, key, results)
    # The store's thread waits for the interpreter with each of its statements, and the loop is at work all the time.
    with interpreter.in_quick_turns():
        part = await reading.next()
        if part is None:  # all of them are refused: what is left of a rate is told all the same
            await call.take(0)
        while part is not None:
            _, part = await asyncio.gather(_write(call, part, reading), reading.next())
    return results


class Reading:
    """The tasks of a batch as they are read; what is wrong with one is its result."""

    def __init__(
        self, call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None, results: list[Result]
    ) -> None:
        self._call = call
        self._items = items
        self._key = key
        self.results = results
        self._making = making_of(call)
        self._seen: set[str] = set()
        self._at = 0
        self._stretch = 0
        self._near_until = 0
        # Whether plain ones are written as one. Not those of a tenant with a quota.
        self.in_slices = True

    async def next(self) -> Part | None:
        """As many as are written at once, of those that the tenant may make now; none at the end."""
        while self._at < len(self._items):
            part = Part()
            self._near_until = self._call.ports.near_until()
            self._at = await self._read(range(self._at, len(self._items)), part)
            if part:
                await self._let_in(part)
                return part
        return None

    async def again(self, part: Part) -> list[tuple[int, Create]]:
        """Those that could not be written as one, to be judged each by itself."""
        self.in_slices = False
        anew = Part()
        await self._read(part.places, anew)
        return anew.named

    async def _read(self, places: Sequence[int], part: Part) -> int:
        """Add those in these places, but for what has something wrong with it, until the part is full; where to go on.

        Now and then others have their turn.
        """
        for at in places:
            if len(part) >= WRITE_SLICE:
                return at
            try:
                self._add(at, part)
            except TaskTickError as error:
                self.results[at] = {"error": problems.item_error(error)}
            self._stretch += TASK_CHARS + len(self._items[at])
            if self._stretch > STRETCH_CHARS:
                self._stretch = 0
                await self._call.ports.clock.sleep_ms(0)
        return len(self._items)

    def _add(self, at: int, part: Part) -> None:
        item, limits = self._items[at], self._call.ports.config.server
        request = TASK.decode(item, limits.json_depth_max)
        if len(item) > limits.body_max_bytes:
            raise Refused("payload_too_large", f"A task has at most {limits.body_max_bytes} bytes.")
        new = new_task(request, self._making)
        if request.key is not None:
            if request.key in self._seen:
                detail = "An earlier task of this batch has the same key."
                raise Refused("key_taken", detail, errors=[("/key", detail)])
            self._seen.add(request.key)
        row = new_row(new) if self.in_slices and request.key is None and self._key is None else None
        if row is None:
            key = _derived(self._key, at)
            answer = None if key is None else StoredAnswer(OK, wire(render.TASK, new.state.id))
            part.named.append((at, Create(new, key, answer)))
        else:
            # What it was read into goes at once: see `plain_tasks`.
            part.places.append(at)
            part.ids.append(new.state.id)
            part.rows.append(row)
            if new.state.wake_at <= self._near_until:
                part.near.append(new.state)

    async def _let_in(self, part: Part) -> None:
        """Leave out those that the tenant may not make now, and put together what is written."""
        allowance = await self._call.take(len(part))
        if allowance.granted < len(part):
            for at in part.keep(allowance.granted):
                self.results[at] = {"error": problems.item_error(RateRefused(allowance))}
        if part.rows:
            part.slice = slice_of(part.rows, self._call.ports.database.bind)
            part.rows.clear()


async def _write(call: Call, part: Part, reading: Reading) -> None:
    """Make these."""
    await asyncio.gather(_write_slice(call, part, reading), _write_named(call, part.named, reading.results))


async def _write_slice(call: Call, part: Part, reading: Reading) -> None:
    if part.slice is None:
        return
    [written] = await call.ports.database.write_batch(CREATE_SLICE, [part.slice])
    if written is True:
        for at, task_id in zip(part.places, part.ids, strict=True):
            reading.results[at] = {"id": wire(render.TASK, task_id)}
        if part.near:
            call.ports.created(part.near)
        if len(part.ids) > len(part.near):
            call.ports.created_far(len(part.ids) - len(part.near))
    else:
        await _write_named(call, await reading.again(part), reading.results)


async def _write_named(call: Call, creates: Sequence[tuple[int, Create]], results: list[Result]) -> None:
    if not creates:
        return
    outcomes = await call.ports.database.write_batch(CREATE, [create for _, create in creates])
    made = []
    for (at, create), outcome in zip(creates, outcomes, strict=True):
        if outcome is None:
            made.append(create.task.state)
            results[at] = {"id": wire(render.TASK, create.task.state.id)}
        elif isinstance(outcome, StoredAnswer):
            results[at] = {"id": outcome.body}
        else:
            results[at] = {"error": problems.item_error(outcome)}
    if made:
        call.ports.created(made)


def _derived(key: IdempotencyKey | None, at: int) -> IdempotencyKey | None:
    return None if key is None else msgspec.structs.replace(key, name=f"{key.name}{JOINT}{at}")


async def _keep(call: Call, key: IdempotencyKey, body: str) -> None:
    async def operation(tx: Transaction) -> None:
        await names.answer(tx, key, StoredAnswer(OK, body))

    await call.ports.database.write(operation)
