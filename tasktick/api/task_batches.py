"""POST /v1/tasks/batch: up to 10,000 tasks, as one JSON document or as lines of JSON.

Each task is read, made and refused by itself. With an Idempotency-Key every task has one of its own, derived
from it, so that a batch cut off in the middle goes on where it stopped; the whole answer is kept at the end.
"""

import asyncio
from collections import deque
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
from tasktick.errors import Refused, StoreError
from tasktick.store import names
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.plain_tasks import CREATE_SLICE
from tasktick.store.protocol import Transaction
from tasktick.store.tasks import CREATE, Create

# As many connections write what is made on PostgreSQL; on SQLite, a slice is handed on while another is written.
SLICES_UNDER_WAY = 2

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
        await _Writing(call, reading).write()
    return reading.results


class _Writing:
    """The parts of a batch on their way to the store.

    Of slices some at a time, so that the store has the next one while the event loop reads on; the rest one by one,
    since the store gives what room is left in their order.
    """

    def __init__(self, call: Call, reading: Reading) -> None:
        self._call = call
        self._reading = reading
        self._under_way: deque[tuple[asyncio.Future[bool], list[int]]] = deque()

    async def write(self) -> None:
        """All of them. Where something fails, what is on its way is written, and nobody asks what came of it."""
        reading = self._reading
        try:
            part = await reading.next()
            if part is None:  # all of them are refused: what is left of a rate is told all the same
                await self._call.take(0)
            while part is not None:
                granted = await self._granted(part)
                if part.slice is not None and len(granted) == len(part.places):
                    await self._settle(SLICES_UNDER_WAY - 1)
                    self._hand_on(part)
                    part = await reading.next()
                else:
                    await self._settle(0)
                    creates = part.creates[: len(granted)] if part.slice is None else await reading.again(granted)
                    _, part = await asyncio.gather(_write_each(self._call, creates, reading.results), reading.next())
            await self._settle(0)
        finally:
            for future, _ in self._under_way:
                future.cancel()

    async def _granted(self, part: Part) -> list[int]:
        """The places of those that the tenant may make now."""
        allowance = await self._call.take(len(part.places))
        for at in part.places[allowance.granted :]:
            self._reading.results[at] = refused(RateRefused(allowance))
        return part.places[: allowance.granted]

    def _hand_on(self, part: Part) -> None:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def told(outcome: object) -> None:
            try:
                if isinstance(outcome, StoreError):
                    raise outcome
                if outcome is True:
                    self._made(part)
            except Exception as error:  # noqa: BLE001 - whoever waits hears of it
                if not future.done():
                    future.set_exception(error)
            else:  # a row's fault is found by judging each by itself
                if not future.done():
                    future.set_result(outcome is True)

        self._under_way.append((future, part.places))
        self._call.ports.database.begin(CREATE_SLICE, part.slice, told)

    def _made(self, part: Part) -> None:
        for at, task_id in zip(part.places, part.ids, strict=True):
            self._reading.results[at] = made(task_id)
        if part.near:
            self._call.ports.created(part.near)
        if len(part.ids) > len(part.near):
            self._call.ports.created_far(len(part.ids) - len(part.near))

    async def _settle(self, left: int) -> None:
        """Wait until no more than so many are under way. The tasks of a slice that could not be written are judged each
        by itself."""
        while len(self._under_way) > left:
            future, places = self._under_way.popleft()
            if not await future:
                await _write_each(self._call, await self._reading.again(places), self._reading.results)


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
