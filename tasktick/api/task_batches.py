"""POST /v1/tasks/batch: up to 10,000 tasks, as one JSON document or as lines of JSON.

Each task is read, made and refused by itself. With an Idempotency-Key every task has one of its own, derived
from it, so that a batch cut off in the middle goes on where it stopped; the whole answer is kept at the end.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from tasktick import interpreter
from tasktick.api.batch_reading import NO_LINES, Part, Reading, Result, made, refused
from tasktick.api.call import Call, Reply, encode
from tasktick.api.decoding import Decoder, unreadable
from tasktick.api.idempotency import begin, key_of, reply
from tasktick.api.rates import RateRefused
from tasktick.api.routing import NDJSON
from tasktick.api.schemas import TaskBatch
from tasktick.api.tasks import OK
from tasktick.errors import Refused
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.plain_tasks import CREATE_SLICE, Slice
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create

_BATCH = msgspec.json.Decoder(TaskBatch)
_IN_FULL = Decoder(TaskBatch, NO_LINES)


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
        body = f'{{"data":[{",".join(results)}]}}'
        if key is not None:
            await _keep(call, key, body)
    return Reply(OK, body.encode())


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
        _IN_FULL.decode(call.body, call.ports.config.server.json_depth_max)
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(call.body, error, NO_LINES) from None


async def _create(call: Call, items: Sequence[msgspec.Raw | bytes], key: IdempotencyKey | None) -> list[Result]:
    """Make the tasks; a result for each, in order. While some are written, the next are read."""
    reading = Reading(call, items, key)
    # The store's thread waits for the interpreter with each of its statements, and the loop is at work all the time.
    with interpreter.in_quick_turns() if reading.in_slices else nullcontext():
        part = await reading.next()
        if part is None:  # all of them are refused: what is left of a rate is told all the same
            await call.take(0)
        while part is not None:
            _, part = await asyncio.gather(_write(call, part, reading), reading.next())
    return reading.results


async def _write(call: Call, part: Part, reading: Reading) -> None:
    """Make as many of these as the tenant may make now."""
    allowance = await call.take(len(part.places))
    granted, too_many = part.places[: allowance.granted], part.places[allowance.granted :]
    for at in too_many:
        reading.results[at] = refused(RateRefused(allowance))
    if part.slice is None:
        await _write_each(call, part.creates[: allowance.granted], reading.results)
    elif too_many or not await _write_slice(call, part.slice, part, reading.results):
        await _write_each(call, await reading.again(granted), reading.results)


async def _write_slice(call: Call, written: Slice, part: Part, results: list[Result]) -> bool:
    """Make all of these; whether they were."""
    [outcome] = await call.ports.database.write_batch(CREATE_SLICE, [written])
    if outcome is not True:
        return False
    for at, task_id in zip(part.places, part.ids, strict=True):
        results[at] = made(task_id)
    if part.near:
        call.ports.created(part.near)
    if len(part.ids) > len(part.near):
        call.ports.created_far(len(part.ids) - len(part.near))
    return True


async def _write_each(call: Call, creates: Sequence[tuple[int, Create]], results: list[Result]) -> None:
    """Make those that can be made; each has its place."""
    outcomes = await call.ports.database.write_batch(CREATE, [create for _, create in creates])
    created = []
    for (at, create), outcome in zip(creates, outcomes, strict=True):
        if outcome is None:
            created.append(create.task.state)
            results[at] = made(create.task.state.id)
        elif isinstance(outcome, StoredAnswer):
            results[at] = encode({"id": outcome.body}).decode()
        else:
            results[at] = refused(outcome)
    if created:
        call.ports.created(created)


async def _keep(call: Call, key: IdempotencyKey, body: str) -> None:
    async def operation(tx: Transaction) -> None:
        await names.answer(tx, key, StoredAnswer(OK, body))

    await call.ports.database.write(operation)
