"""A fire by hand: a task of a schedule, now, outside its ledger."""

import msgspec

from tasktick.api import faults as checks
from tasktick.api import render
from tasktick.api.call import Call, Reply, encode, etag
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.idempotency import once, reply
from tasktick.api.schedule_schemas import Trigger
from tasktick.api.target_overrides import overridden
from tasktick.api.task_requests import PRIORITY_MAX, traceparent_of
from tasktick.api.tasks import CREATED, check_version, sealing_of
from tasktick.model.schedule import NewFire
from tasktick.model.state import State
from tasktick.model.task import Payload, TaskState
from tasktick.scheduler.book import new_fire
from tasktick.store import schedules
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction
from tasktick.store.rows import TaskView

TRIGGER = Decoder(Trigger)


async def trigger(call: Call) -> Reply:
    """POST /v1/schedules/{id}/trigger: whether it is paused or not, and whatever else of it is under way."""
    depth = call.ports.config.server.json_depth_max
    request: Trigger = TRIGGER.decode(call.body, depth) if call.body else Trigger()
    await call.take_one()
    born: list[TaskState] = []

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        seen = await schedules.find(tx, call.tenant, call.parameters["id"])
        check_version(call, seen.schedule)
        await schedules.hold(tx, seen)
        moment = call.ports.deciding(seen.schedule.id)
        template = (await schedules.templates(tx, [seen.schedule.id]))[seen.schedule.id]
        now = moment.by.now
        fire, payload = _fire(call, request, new_fire(seen.schedule, now, now, State.SCHEDULED, moment), template)
        await schedules.trigger(tx, fire, payload)
        born[:] = [fire.state]
        return fire.state.id, _answer(call, TaskView(fire.state, fire.detail, payload or template))

    given = await once(call, operation)
    call.ports.created(born)
    return reply(given)


def _fire(call: Call, request: Trigger, fire: NewFire, template: Payload) -> tuple[NewFire, Payload | None]:
    """The fire, and what it sends if that is not what its schedule sends."""
    traceparent = traceparent_of(call.headers)
    faults = Faults()
    fire = _changed(faults, request, fire)
    if request.target is None:
        faults.end()
    if request.target is None and traceparent is None:
        return fire, None
    own = {"template_id": None, "payload_version": 1}
    if request.target is None:
        state = msgspec.structs.replace(fire.state, **own)
        return NewFire(state, fire.detail), msgspec.structs.replace(template, traceparent=traceparent)
    aim = overridden(faults, template.target, request.target, sealing_of(call))
    faults.end()
    state = msgspec.structs.replace(fire.state, host=aim.lane, timeout_ms=aim.target.timeout_ms, **own)
    return NewFire(state, fire.detail), Payload(aim.target, template.retry, traceparent)


def _changed(faults: Faults, request: Trigger, fire: NewFire) -> NewFire:
    """The fire with what is given in place of what its schedule has, but for the call."""
    state, detail = fire.state, fire.detail
    state = msgspec.structs.replace(
        state,
        queue=checks.name_of(faults, "/queue", request.queue, state.queue),
        priority=checks.number(faults, "/priority", request.priority, state.priority, 0, PRIORITY_MAX),
    )
    name = detail.name if request.name is None else checks.text(faults, "/name", request.name)
    tags = detail.tags if request.tags is None else checks.tags(faults, "/tags", request.tags)
    return NewFire(state, msgspec.structs.replace(detail, name=name, tags=tags))


def _answer(call: Call, view: TaskView) -> StoredAnswer:
    document = render.task(view, None, render.lens_of(call))
    headers = {"Location": f"/v1/tasks/{document['id']}", "ETag": etag(view.state.version)}
    return StoredAnswer(CREATED, encode(document).decode(), headers)
