"""What can be done to a task: cancel, pause, resume, run, retry. Each answers with the task as it is then."""

from typing import Any

from tasktick.api import render
from tasktick.api.call import Call, Handler, Reply, encode, etag
from tasktick.api.decoding import Decoder
from tasktick.api.idempotency import once, reply
from tasktick.api.schemas import Empty
from tasktick.api.tasks import OK, check_version, written_state
from tasktick.model.change import ACTIONS, Change
from tasktick.model.state import TERMINAL
from tasktick.model.task import TaskState
from tasktick.store import attempts, dlq, tasks
from tasktick.store.fires import Deciding
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Aborted, Transaction
from tasktick.store.rows import TaskView

EMPTY = Decoder(Empty)
REPLAYED = "replayed"


def nothing_said(call: Call) -> None:
    """An action takes no body, or an empty object."""
    if call.body:
        EMPTY.decode(call.body, call.ports.config.server.json_depth_max)


def action(word: str) -> Handler:
    """The handler of POST /v1/tasks/{id}/<word>."""
    change = ACTIONS[word]

    async def handle(call: Call) -> Reply:
        nothing_said(call)
        changed: list[TaskState] = []

        async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
            before = await tasks.view(tx, call.tenant, call.parameters["id"])
            check_version(call, before.state)
            after = await write(tx, before, change(before.state, call.now), call.now, decided_by(call))
            changed[:] = [after.state]  # it may be run twice
            last = (await attempts.last(tx, [after.state.id])).get(after.state.id)
            return after.state.id, stored_answer(call, after, last)

        answer = await once(call, operation)
        call.ports.changed(changed)
        return reply(answer)

    return handle


def decided_by(call: Call) -> Deciding:
    """Who decides about a schedule here, as its ledger names it."""
    return lambda schedule_id: call.ports.deciding(schedule_id).by


async def write(
    tx: Transaction, before: TaskView, change: Change, now: int, deciding: Deciding | None = None
) -> TaskView:
    """Write a change of a task; what was dead and is taken up again has no open dead letter any more."""
    if not await tasks.change(tx, [change], deciding=deciding):
        raise Aborted("The task has changed meanwhile.")
    if before.state.state in TERMINAL and change.after.state not in TERMINAL:
        await dlq.resolve_tasks(tx, [before.state.id], REPLAYED, now)
    return TaskView(written_state(change.after, before.state), before.detail, before.payload)


def stored_answer(call: Call, view: TaskView, last: Any) -> StoredAnswer:
    """A task as an answer that can be given again."""
    document = encode(render.task(view, last, render.lens_of(call)))
    return StoredAnswer(OK, document.decode(), {"ETag": etag(view.state.version)})
