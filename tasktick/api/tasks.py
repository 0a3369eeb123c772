"""Tasks: create, read, list, replace, patch, remove. What acts on one is in `task_actions`."""

from typing import Any

import msgspec

from tasktick.api import filters, paging, render
from tasktick.api.call import Call, Reply, Single, answer, encode, etag
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.idempotency import key_of, reply, stored
from tasktick.api.routing import MethodRefused
from tasktick.api.schemas import TaskPatch, TaskRequest
from tasktick.api.target_requests import Sealing
from tasktick.api.task_requests import (
    Edit,
    Making,
    new_task,
    patched,
    replacement,
    traceparent_of,
)
from tasktick.errors import IllegalTransition, Refused, TaskTickError
from tasktick.model.calendar import Calendar
from tasktick.model.checkin import Check
from tasktick.model.ids import KEY_PREFIX, wire
from tasktick.model.schedule import Schedule
from tasktick.model.state import State
from tasktick.model.task import NewTask, TaskState
from tasktick.store import attempts, listing, tasks
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Aborted, Transaction
from tasktick.store.rows import TaskView
from tasktick.store.tasks import CREATE, Create

TASK = Decoder(TaskRequest)
PATCH = Decoder(TaskPatch)

# What can be done to a task that is named by its id.
BY_ID = ("DELETE", "GET", "HEAD", "PATCH")
CREATED = 201
OK = 200
NO_CONTENT = 204
RENDER_SLICE = 50
# With bodies, a page ends where it comes to so many bytes, whatever its limit.
FULL_PAGE_BYTES = 8 * 1_048_576
FULL_SLICE = 16


def sealing_of(call: Call) -> Sealing:
    """What judges the targets of this request."""
    return Sealing(call.tenant, call.ports.vault, call.ports.policy())


def making_of(call: Call, idempotency_key: str | None = None) -> Making:
    """What new tasks of this request are made with."""
    return Making(
        sealing_of(call), call.ports.ids, call.now, traceparent_of(call.headers), idempotency_key, call.latest
    )


def view_of(new: NewTask) -> TaskView:
    """A new task, as it will be read."""
    return TaskView(new.state, new.detail, new.payload)


async def create(call: Call) -> Reply:
    """POST /v1/tasks. Creates that come together are committed together."""
    request = TASK.decode(call.body, call.ports.config.server.json_depth_max)
    key = key_of(call)
    one = _creating(call, request, key)
    await call.take_one()
    with call.in_flight.held(key):
        [outcome] = await call.ports.database.write_batch(one.batch, [one.item])
    return one.reply(outcome)


def single(call: Call) -> Single:
    """What `create` writes for a request without an idempotency key."""
    return _creating(call, TASK.decode(call.body, call.ports.config.server.json_depth_max), None)


def _creating(call: Call, request: TaskRequest, key: IdempotencyKey | None) -> Single:
    new = new_task(request, making_of(call, None if key is None else key.name))
    given = created_reply(call, new)

    def reply_to(outcome: Any) -> Reply:
        if outcome is None:
            call.ports.created((new.state,))
            return given
        if isinstance(outcome, StoredAnswer):
            return reply(outcome)
        raise outcome

    return Single(CREATE, Create(new) if key is None else Create(new, key, stored(given)), reply_to)


def created_reply(call: Call, new: NewTask) -> Reply:
    """What a client is told about its new task."""
    document = render.new_task(new, render.lens_of(call))
    headers = {"Location": f"/v1/tasks/{document.id}", "ETag": etag(new.state.version)}
    return answer(CREATED, document, headers)


async def get(call: Call) -> Reply:
    """GET /v1/tasks/{id}."""
    no_query(call)

    async def operation(tx: Transaction) -> tuple[TaskView, Any, int]:
        view = await tasks.view(tx, call.tenant, call.parameters["id"])
        last = await attempts.last(tx, [view.state.id])
        return view, last.get(view.state.id), await attempts.count(tx, view.state.id)

    view, last, ended = await call.ports.database.read(operation)
    document = render.task(view, last, render.lens_of(call))
    document["attempts_count"] = ended + (view.state.state is State.RUNNING)
    return answer(OK, document, {"ETag": etag(view.state.version)})


def no_query(call: Call) -> None:
    """Refuse parameters where there are none."""
    if call.query:
        faults = Faults()
        filters.known(faults, call.query, ())
        faults.end()


async def list_(call: Call) -> Reply:
    """GET /v1/tasks."""
    faults = Faults()
    by = filters.tasks(faults, call.query, call.now)
    order = filters.choice(faults, call.query, "order", ("asc", "desc"), "desc")
    full = filters.choice(faults, call.query, "fields", ("full",), "") == "full"
    page = paging.page_of(faults, call.query, "tasks", call.tenant)
    faults.end()

    async def ids_of(tx: Transaction) -> list[str]:
        return await listing.ids_page(
            tx, call.tenant, by, beyond=page.beyond, limit=page.limit + 1, oldest_first=order == "asc"
        )

    ids = await call.ports.database.read(ids_of)
    shown = ids[: page.limit]
    rows, taken = await rows_of(call, shown, full=full)
    more = len(ids) > page.limit or taken < len(shown)
    cursor = page.next_cursor(shown[taken - 1]) if more and taken else None
    return answer(OK, paging.document(list(rows.values()), cursor))


async def rows_of(call: Call, ids: list[str], *, full: bool) -> tuple[dict[str, Any], int]:
    """These tasks as clients read them, and how many of the ids were looked at; one removed meanwhile is not there.

    Slice by slice, so that a long page keeps nothing else waiting; with bodies only as much as fits.
    """
    size = FULL_SLICE if full else RENDER_SLICE
    rows: dict[str, Any] = {}
    taken, weight = 0, 0
    lens = render.lens_of(call, full=full)
    for at in range(0, len(ids), size):
        part = ids[at : at + size]

        async def operation(tx: Transaction, part: list[str] = part) -> tuple[list[TaskView], dict[str, Any]]:
            views = await tasks.views(tx, call.tenant, part, bodies=full)
            return views, await attempts.last(tx, part, bodies=full)

        views, last = await call.ports.database.read(operation)
        for view in views:
            encoded = encode(render.task(view, last.get(view.state.id), lens))
            rows[view.state.id] = msgspec.Raw(encoded)
            weight += len(encoded)
        taken += len(part)
        if full and weight > FULL_PAGE_BYTES:
            break
    return rows, taken


async def put(call: Call) -> Reply:
    """PUT /v1/tasks/key:<key>: create, or replace while it has not run."""
    name = call.parameters["id"]
    key = name.removeprefix(KEY_PREFIX)
    if key == name:
        raise MethodRefused("PUT", BY_ID, "PUT takes a key of your own: /v1/tasks/key:<key>. By id, use PATCH.")
    request = TASK.decode(call.body, call.ports.config.server.json_depth_max)
    if request.key not in (None, key):
        detail = "The key in the body is not the one in the path."
        raise Refused("validation_failed", detail, errors=[("/key", detail)])
    request.key = key
    new = new_task(request, making_of(call))
    await call.take_one()

    async def operation(tx: Transaction) -> tuple[TaskView, bool]:
        held = await tasks.holder(tx, call.tenant, key)
        if held is None:
            check_version(call, None)
            [outcome] = await tasks.create_many(tx, [Create(new)])
            if isinstance(outcome, TaskTickError):
                raise outcome
            return view_of(new), True
        check_version(call, held.state)
        if held.state.attempt:
            detail = f"The task with this key has run: it is {held.state.state.word}. Cancel it, or wait until it ends."
            raise Refused("state_conflict", detail)
        return await write_edit(tx, held, replacement(held, new, call.now)), False

    view, made = await call.ports.database.write(operation)
    (call.ports.created if made else call.ports.changed)((view.state,))
    headers = {"Location": f"/v1/tasks/{wire(render.TASK, view.state.id)}"} if made else {}
    return shown(call, view, None, CREATED if made else OK, headers)


async def patch(call: Call) -> Reply:
    """PATCH /v1/tasks/{id}: before it runs."""
    request = PATCH.decode(call.body, call.ports.config.server.json_depth_max)

    async def operation(tx: Transaction) -> tuple[TaskView, Any, bool]:
        before = await tasks.view(tx, call.tenant, call.parameters["id"])
        check_version(call, before.state)
        edit = patched(before, request, sealing_of(call), call.now, call.latest)
        after = await write_edit(tx, before, edit)
        last = await attempts.last(tx, [after.state.id])
        return after, last.get(after.state.id), edit.change is not None

    view, last, has_changed = await call.ports.database.write(operation)
    if has_changed:
        call.ports.changed((view.state,))
    return shown(call, view, last)


async def write_edit(tx: Transaction, before: TaskView, edit: Edit) -> TaskView:
    """Write what is different about a task; the task as it is then."""
    if edit.change is None:
        return before
    if not await tasks.change(tx, [edit.change]):
        raise Aborted("The task has changed meanwhile.")
    if edit.new_payload:
        await tasks.add_payload(tx, before.state.id, edit.change.after.payload_version, edit.payload)
    if edit.detail != before.detail:
        await tasks.change_detail(tx, edit.detail)
    return TaskView(written_state(edit.change.after, before.state), edit.detail, edit.payload)


def written_state(after: TaskState, before: TaskState) -> TaskState:
    """A changed row as the store has it now: its version has grown by one."""
    return msgspec.structs.replace(after, version=before.version + 1)


def shown(call: Call, view: TaskView, last: Any, status: int = OK, headers: dict[str, str] | None = None) -> Reply:
    """A task as an answer, with its version."""
    document = render.task(view, last, render.lens_of(call))
    return answer(status, document, {"ETag": etag(view.state.version), **(headers or {})})


def check_version(call: Call, state: TaskState | Schedule | Calendar | Check | None) -> None:
    """Honour If-Match: go on only if the thing is as the client saw it."""
    expected = call.headers.get("If-Match")
    if expected is None:
        return
    tags = {one.strip() for one in expected.split(",")}
    if state is None or not ("*" in tags or etag(state.version) in tags):
        there = "It is not there." if state is None else f"Its version is {state.version} now. Read it again."
        raise Refused("version_mismatch", there)


async def delete(call: Call) -> Reply:
    """DELETE /v1/tasks/{id}: with its history."""

    async def operation(tx: Transaction) -> TaskState:
        view = await tasks.view(tx, call.tenant, call.parameters["id"])
        state = view.state
        check_version(call, state)
        if state.state in (State.RUNNING, State.AWAITING):
            raise IllegalTransition(f"A task that is {state.state.word} cannot be removed: cancel it, and wait.")
        if view.detail.schedule_id is not None:
            raise IllegalTransition("A fire of a schedule stays in its ledger; cancel it instead.")
        await tasks.delete(tx, [(state.id, state.tenant, int(state.state))], at=call.now)
        return msgspec.structs.replace(state, state=State.CANCELLED)

    call.ports.changed((await call.ports.database.write(operation),))
    return Reply(NO_CONTENT)


async def list_attempts(call: Call) -> Reply:
    """GET /v1/tasks/{id}/attempts: those that have ended, in order, and the one that is being made."""
    faults = Faults()
    filters.known(faults, call.query, filters.ATTEMPT_WORDS)
    page = paging.page_of(faults, call.query, f"attempts {call.parameters['id']}", call.tenant)
    faults.end()
    after = paging.number_of(page.beyond)

    async def operation(tx: Transaction) -> tuple[TaskState, list[Any]]:
        view = await tasks.view(tx, call.tenant, call.parameters["id"], bodies=False)
        return view.state, await attempts.of_task(tx, view.state.id, after, page.limit + 1)

    state, found = await call.ports.database.read(operation)
    rows = [render.attempt(one) for one in found]
    if state.state is State.RUNNING and state.attempt > after:
        rows.append(render.running_attempt(state))
    last = str(rows[page.limit - 1]["attempt"]) if len(rows) > page.limit else None
    return answer(OK, paging.document(rows[: page.limit], page.next_cursor(last)))
