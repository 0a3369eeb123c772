"""Dead letters: what gave up, as it was; tried again, perhaps otherwise; or laid aside."""

from typing import Any

import msgspec

from tasktick.api import filters, paging, render
from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.idempotency import once, reply
from tasktick.api.schemas import Replay, TargetOverrides
from tasktick.api.target_overrides import overridden
from tasktick.api.task_actions import REPLAYED, nothing_said, write
from tasktick.api.tasks import OK, no_query, rows_of, sealing_of
from tasktick.errors import Refused, not_found
from tasktick.model.change import Change, reopen
from tasktick.model.ids import parse, wire
from tasktick.model.task import Payload, TaskState
from tasktick.store import attempts, dlq, tasks
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction, only
from tasktick.store.rows import DeadLetter, TaskView

REPLAY = Decoder(Replay)
ARCHIVED = "archived"
ATTEMPTS_SHOWN_MAX = 1_000


async def list_(call: Call) -> Reply:
    """GET /v1/dlq."""
    faults = Faults()
    by = filters.dead_letters(faults, call.query)
    order = filters.choice(faults, call.query, "order", ("asc", "desc"), "desc")
    full = filters.choice(faults, call.query, "fields", ("full",), "") == "full"
    page = paging.page_of(faults, call.query, "dlq", call.tenant)
    faults.end()
    found = await call.ports.database.read(
        lambda tx: dlq.page(tx, call.tenant, by, beyond=page.beyond, limit=page.limit + 1, oldest_first=order == "asc")
    )
    shown = found[: page.limit]
    ids = list(dict.fromkeys(letter.task_id for letter in shown))
    about, taken = await rows_of(call, ids, full=full)
    # A full page ends before the first letter whose task did not fit; its task may have later letters on it.
    beyond = set(ids[taken:])
    end = next((at for at, letter in enumerate(shown) if letter.task_id in beyond), len(shown))
    rows = [render.dead_letter(letter, about[letter.task_id]) for letter in shown[:end] if letter.task_id in about]
    more = len(found) > page.limit or end < len(shown)
    return answer(OK, paging.document(rows, page.next_cursor(shown[end - 1].id) if more and end else None))


async def get(call: Call) -> Reply:
    """GET /v1/dlq/{id}: with every attempt."""
    no_query(call)

    async def operation(tx: Transaction) -> tuple[DeadLetter, TaskView, list[Any]]:
        letter, view = await _letter(tx, call)
        return letter, view, await attempts.of_task(tx, letter.task_id, 0, ATTEMPTS_SHOWN_MAX)

    letter, view, ended = await call.ports.database.read(operation)
    document = _document(call, letter, view, ended[-1] if ended else None)
    document["attempts"] = [render.attempt(one) for one in ended]
    return answer(OK, document)


async def _letter(tx: Transaction, call: Call) -> tuple[DeadLetter, TaskView]:
    name = call.parameters["id"]
    letter = only(await dlq.by_ids(tx, call.tenant, [parse(render.DEAD_LETTER, name, "dead letter")]))
    if letter is None:
        raise not_found("dead letter", name)
    return letter, await tasks.view(tx, call.tenant, wire(render.TASK, letter.task_id))


def _document(call: Call, letter: DeadLetter, view: TaskView, last: Any) -> dict[str, Any]:
    return render.dead_letter(letter, render.task(view, last, render.lens_of(call)))


async def replay(call: Call) -> Reply:
    """POST /v1/dlq/{id}/replay: the same task in a new series, with what is overridden of its target."""
    request = REPLAY.decode(call.body, call.ports.config.server.json_depth_max) if call.body else Replay()
    changed: list[TaskState] = []

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        letter, before = await _letter(tx, call)
        _check_open(letter)
        change, payload = _replayed(call, before, request.target)
        after = await write(tx, before, change, call.now)
        if payload is not None:
            await tasks.add_payload(tx, before.state.id, change.after.payload_version, payload)
            after = msgspec.structs.replace(after, payload=payload)
        changed[:] = [after.state]  # it may be run twice
        return letter.id, await _settled(tx, call, letter, after, REPLAYED)

    given = await once(call, operation)
    call.ports.changed(changed)
    return reply(given)


async def archive(call: Call) -> Reply:
    """POST /v1/dlq/{id}/archive: dealt with, and not run again."""
    nothing_said(call)

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        letter, view = await _letter(tx, call)
        _check_open(letter)
        await dlq.resolve(tx, [letter.id], ARCHIVED, call.now)
        return letter.id, await _settled(tx, call, letter, view, ARCHIVED)

    return reply(await once(call, operation))


async def _settled(tx: Transaction, call: Call, letter: DeadLetter, view: TaskView, resolution: str) -> StoredAnswer:
    settled = msgspec.structs.replace(letter, resolution=resolution, resolved_at=call.now)
    last = (await attempts.last(tx, [letter.task_id])).get(letter.task_id)
    return StoredAnswer(OK, encode(_document(call, settled, view, last)).decode())


def _check_open(letter: DeadLetter) -> None:
    if letter.resolution is not None:
        raise Refused("state_conflict", f"This dead letter is {letter.resolution} already. Look at its task instead.")


def _replayed(call: Call, before: TaskView, overrides: TargetOverrides | None) -> tuple[Change, Payload | None]:
    change = reopen(before.state, call.now)
    if overrides is None:
        return change, None
    faults = Faults()
    aim = overridden(faults, before.payload.target, overrides, sealing_of(call))
    faults.end()
    after = msgspec.structs.replace(
        change.after,
        host=aim.lane,
        timeout_ms=aim.target.timeout_ms,
        payload_version=before.state.payload_version + 1,
        template_id=None,
    )
    return Change(change.event, change.before, after), msgspec.structs.replace(before.payload, target=aim.target)
