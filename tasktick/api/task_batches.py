"""POST /v1/tasks/batch: up to 10,000 tasks, as one JSON document or as lines of JSON.

Each task is read, made and refused by itself. With an Idempotency-Key every task has one of its own, derived
from it, so that a batch cut off in the middle goes on where it stopped; the whole answer is kept at the end.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

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
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create

# So many characters are read before the loop gets its turn again, half a millisecond of them, and what a task costs by
# itself counted as some: less would leave the store's thread waiting for the interpreter, which it is given after that.
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


async def _create(call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None) -> list[Result]:
    """Make the tasks; a result for each, in order. While some are written, the next are read."""
    results: list[Result] = [{} for _ in items]
    reading = Reading(call, items, key, results)
    ready = await reading.next()
    if not ready:  # all of them are refused: what is left of a rate is told all the same
        await call.take(0)
    while ready:
        _, ready = await asyncio.gather(_write(call, ready, results), reading.next())
    return results


class Reading:
    """The tasks of a batch as they are read; what is wrong with one is its result."""

    def __init__(
        self, call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None, results: list[Result]
    ) -> None:
        self._call = call
        self._items = items
        self._key = key
        self._results = results
        self._making = making_of(call)
        self._seen: set[str] = set()
        self._at = 0
        self._stretch = 0

    async def next(self) -> list[tuple[int, Create]]:
        """As many as are written at once, each with its place; none at the end."""
        ready: list[tuple[int, Create]] = []
        while self._at < len(self._items) and len(ready) < WRITE_SLICE:
            at = self._at
            self._at += 1
            try:
                ready.append((at, self._one(at)))
            except TaskTickError as error:
                self._results[at] = {"error": problems.item_error(error)}
            self._stretch += TASK_CHARS + len(self._items[at])
            if self._stretch > STRETCH_CHARS:
                self._stretch = 0
                await self._call.ports.clock.sleep_ms(0)
        return ready

    def _one(self, at: int) -> Create:
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
        key = _derived(self._key, at)
        return Create(new, key, None if key is None else StoredAnswer(OK, wire(render.TASK, new.state.id)))


async def _write(call: Call, waiting: Sequence[tuple[int, Create]], results: list[Result]) -> None:
    """Make as many of these as the tenant may make now."""
    allowance = await call.take(len(waiting))
    for at, _ in waiting[allowance.granted :]:
        results[at] = {"error": problems.item_error(RateRefused(allowance))}
    waiting = waiting[: allowance.granted]
    outcomes = await call.ports.database.write_batch(CREATE, [create for _, create in waiting])
    made = []
    for (at, create), outcome in zip(waiting, outcomes, strict=True):
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
