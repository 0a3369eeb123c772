"""Schedules as they are written: create, replace, change, remove, pause, resume.

Each is one transaction, in which the schedule is read, everything that is due is decided, and then what was asked
for is done: so no time is decided twice, and none is lost between an edit and the loop that materialises.
"""

from collections.abc import Awaitable, Callable

import msgspec

from tasktick.access.vault import SealBroken, open_headers
from tasktick.api import render, schedule_render
from tasktick.api.call import Call, Reply, encode, etag
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults, text
from tasktick.api.idempotency import key_of, once, reply
from tasktick.api.routing import MethodRefused
from tasktick.api.schedule_requests import (
    NOTE_CHARS_MAX,
    Asked,
    Content,
    Definition,
    asked_for,
    fields_of,
    new_schedule,
    patched,
)
from tasktick.api.schedule_schemas import PauseRequest, SchedulePatch, ScheduleRequest
from tasktick.api.schedules import no_such_calendars
from tasktick.api.task_actions import nothing_said
from tasktick.api.tasks import BY_ID, CREATED, NO_CONTENT, OK, check_version, sealing_of
from tasktick.api.times import Instant, instant_ms
from tasktick.errors import Refused
from tasktick.model.calendar import CalendarUse
from tasktick.model.ids import KEY_PREFIX
from tasktick.model.schedule import Plan, Schedule, pause, stand_still
from tasktick.model.task import Payload
from tasktick.scheduler import plan as plans
from tasktick.scheduler.book import heeding
from tasktick.store import calendars, names, schedules
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import Seen

SCHEDULE = Decoder(ScheduleRequest)
PATCH = Decoder(SchedulePatch)
PAUSE = Decoder(PauseRequest)
# A schedule that is further behind is left to the loop that follows behind them all.
SETTLES_MAX = 3


class Work:
    """One schedule in one transaction, and what has been planned of it there."""

    def __init__(self, call: Call, tx: Transaction, seen: Seen) -> None:
        self.plans: list[Plan] = []
        self.made = False
        self._call = call
        self._tx = tx
        self.seen = seen
        self.moment = heeding(call.ports.deciding(seen.schedule.id), seen.calendars, seen.line)

    @property
    def schedule(self) -> Schedule:
        """As it is now."""
        return self.seen.schedule

    async def settle(self) -> None:
        """Decide about everything that is due."""
        for _ in range(SETTLES_MAX):
            look_at = self.schedule.look_at
            if look_at is None or look_at > self.moment.by.now:
                return
            plan = plans.settle(self.schedule, self.seen.tasks, self.moment)
            if plan is None:
                return
            await self.carry_out(plan)
        raise Refused("overloaded", "This schedule has much to catch up with. Try again in a moment.")

    async def create(self, asked: Asked, schedule_id: str) -> None:
        """Make it, with its first fire."""
        made = new_schedule(asked, schedule_id, self._call.tenant, self.moment.by.now)
        await self._heed(made.calendars)
        if plans.first_fire(made) is None:
            raise _never(made)
        await schedules.take_key(self._tx, made)
        plan = plans.begin(made, self.moment)
        await schedules.create(self._tx, plan, asked.content.payload)
        self.made = True
        await self._planned(plan)

    async def change(self, definition: Definition, content: Content | None, *, paused: bool | None) -> None:
        """Make it what is wanted from now on; what is so already stays untouched."""
        if paused is False:
            await self.resume()
        before = self.schedule
        wanted = msgspec.structs.replace(before, **fields_of(definition))
        if content is not None:
            version = await self._payload_version(content)
            wanted = msgspec.structs.replace(wanted, template=content.template, payload_version=version)
        if wanted != before:
            if wanted.calendars != before.calendars:
                await self._heed((*before.calendars, *wanted.calendars))
            plan = plans.edit(before, wanted, self.seen.tasks, self.moment)
            await schedules.define(self._tx, plan)
            await self._planned(plan)
        if paused and not self.schedule.paused:
            await self.pause(None, None)

    async def _heed(self, uses: tuple[CalendarUse, ...]) -> None:
        """Look at the calendars that it names, which stay there from now on, or refuse those that are not there."""
        if not uses:
            return
        tenant, names = self._call.tenant, {one.name for one in uses}
        missing = names.difference(await calendars.lock(self._tx, tenant, names))
        if missing:
            raise no_such_calendars(missing)
        found = await calendars.contents(self._tx, {(tenant, name) for name in names})
        contents = {name: content for (_, name), content in found.items()}
        self.moment = msgspec.structs.replace(self.moment, calendars=contents)

    async def pass_over(self) -> None:
        """Write down what a pause has skipped so far."""
        plan = plans.pass_over(self.schedule, self.seen.tasks, self.moment)
        if plan is not None:
            await self.carry_out(plan)

    async def set_skips(self, skips: tuple[int, ...]) -> None:
        """Leave out these times to come, and no others."""
        await self.carry_out(plans.skip(self.schedule, skips, self.seen.tasks, self.moment))

    async def _payload_version(self, content: Content) -> int:
        """Under which version its fires find what they send."""
        version = self.schedule.payload_version
        stored = await schedules.templates(self._tx, [self.schedule.id])
        if _is_same(self._call, stored[self.schedule.id], content.payload):
            return version
        await schedules.add_template(self._tx, self.schedule.id, version + 1, content.payload)
        return version + 1

    async def pause(self, until: int | None, note: str | None) -> None:
        """Let nothing of it start."""
        await self.carry_out(pause(self.schedule, self.seen.tasks, self.moment.by, until, note))

    async def resume(self) -> None:
        """Let it go on, if it was paused."""
        if self.schedule.paused:
            await self.carry_out(plans.resume(self.schedule, self.seen.tasks, self.moment))

    async def delete(self) -> None:
        """Remove it; what it has made stays."""
        plan = stand_still(self.schedule, self.seen.tasks, self.moment.by, "deleted")
        await schedules.delete(self._tx, plan)
        self.plans.append(plan)

    async def carry_out(self, plan: Plan) -> None:
        """Write what was planned of it as it is now."""
        fresh = await schedules.carry_out(self._tx, [plan])
        assert fresh == [True], "it was made from what this very transaction has read"
        await self._planned(plan)

    async def _planned(self, plan: Plan) -> None:
        self.plans.append(plan)
        self.seen = (await schedules.seen(self._tx, [plan.after]))[0]
        self.moment = msgspec.structs.replace(self.moment, line=self.seen.line)

    async def answer(self) -> StoredAnswer:
        """The schedule, as it is answered."""
        payload = (await schedules.templates(self._tx, [self.schedule.id]))[self.schedule.id]
        lens = msgspec.structs.replace(render.lens_of(self._call), now=self.moment.by.now)
        document = schedule_render.schedule(self.schedule, payload, lens)
        headers = {"ETag": etag(self.schedule.version)}
        if self.made:
            headers["Location"] = f"/v1/schedules/{document['id']}"
        return StoredAnswer(CREATED if self.made else OK, encode(document).decode(), headers)


def _is_same(call: Call, stored: Payload, asked: Payload) -> bool:
    """Whether the same is sent; a text that is sealed again never looks the same."""
    if not (stored.target.sealed_headers and asked.target.sealed_headers):
        return stored == asked
    try:
        return _opened_payload(call, stored) == _opened_payload(call, asked)
    except SealBroken:  # what was stored cannot be sent any more: what is asked for can
        return False


def _opened_payload(call: Call, payload: Payload) -> Payload:
    target = payload.target
    opened = open_headers(call.ports.vault, call.tenant, target.sealed_headers)
    return msgspec.structs.replace(payload, target=msgspec.structs.replace(target, sealed_headers=opened))


def _never(made: Schedule) -> Refused:
    code = "validation_failed" if made.rule.every_ms is not None else "cron_never_fires"
    detail = "Between its start and its end this has no fire that is still to come."
    # A recurrence rule may end by itself.
    ends = "/rrule" if made.rule.rrule is not None else "/start_at"
    pointer = "/end_at" if made.end_at is not None else ends
    return Refused(code, detail, errors=[(pointer, detail)])


async def opened(call: Call, tx: Transaction) -> Work:
    """The schedule that a path names, once everything that is due is decided."""
    seen = await schedules.find(tx, call.tenant, call.parameters["id"])
    check_version(call, seen.schedule)
    await schedules.hold(tx, seen)
    work = Work(call, tx, seen)
    await work.settle()
    return work


async def answered(call: Call, operation: Callable[[Transaction], Awaitable[Work]]) -> Reply:
    """Do it, a POST once for its key; the answer is the schedule as it is then."""
    done: list[Plan] = []

    async def whole(tx: Transaction) -> tuple[str, StoredAnswer]:
        work = await operation(tx)
        done[:] = work.plans
        return work.schedule.id, await work.answer()

    if call.method == "POST":
        given = await once(call, whole)
    else:
        given = (await call.ports.database.write(whole))[1]
    call.ports.planned(done)
    return reply(given)


async def create(call: Call) -> Reply:
    """POST /v1/schedules."""
    asked = asked_for(SCHEDULE.decode(call.body, call.ports.config.server.json_depth_max), sealing_of(call))
    key = key_of(call)
    schedule_id = call.ports.ids.new(call.now, call.ports.ids.partition(asked.key, None if key is None else key.name))
    return await answered(call, lambda tx: _made(call, tx, asked, schedule_id))


async def _made(call: Call, tx: Transaction, asked: Asked, schedule_id: str) -> Work:
    work = Work(call, tx, Seen(new_schedule(asked, schedule_id, call.tenant, call.now), {}))
    await work.create(asked, schedule_id)
    return work


async def put(call: Call) -> Reply:
    """PUT /v1/schedules/key:<key>: create, or make it what is given. A pause that is not spoken of stays."""
    name = call.parameters["id"]
    key = name.removeprefix(KEY_PREFIX)
    if key == name:
        raise MethodRefused("PUT", BY_ID, "PUT takes a key of your own: /v1/schedules/key:<key>. By id, use PATCH.")
    request: ScheduleRequest = SCHEDULE.decode(call.body, call.ports.config.server.json_depth_max)
    if request.key not in (None, key):
        detail = "The key in the body is not the one in the path."
        raise Refused("validation_failed", detail, errors=[("/key", detail)])
    request.key = key
    asked = asked_for(request, sealing_of(call))
    schedule_id = call.ports.ids.new(call.now, call.ports.ids.partition(key, None))

    async def operation(tx: Transaction) -> Work:
        if await names.find(tx, call.tenant, schedules.SCHEDULE, key) is None:
            check_version(call, None)
            return await _made(call, tx, asked, schedule_id)
        work = await opened(call, tx)
        definition = asked.definition
        if work.schedule.paused and asked.paused is None and definition.note is None:
            definition = msgspec.structs.replace(definition, note=work.schedule.note)
        await work.change(definition, asked.content, paused=asked.paused)
        return work

    return await answered(call, operation)


async def patch(call: Call) -> Reply:
    """PATCH /v1/schedules/{id}."""
    request: SchedulePatch = PATCH.decode(call.body, call.ports.config.server.json_depth_max)

    async def operation(tx: Transaction) -> Work:
        work = await opened(call, tx)
        paused = bool(request.paused) if isinstance(request.paused, bool | None) else None
        if paused is False:
            await work.resume()
        definition, content = patched(work.schedule, request, sealing_of(call))
        await work.change(definition, content, paused=paused)
        return work

    return await answered(call, operation)


async def delete(call: Call) -> Reply:
    """DELETE /v1/schedules/{id}: its fires and its ledger stay until they are old."""

    async def operation(tx: Transaction) -> list[Plan]:
        work = await opened(call, tx)
        await work.delete()
        return work.plans

    call.ports.planned(await call.ports.database.write(operation))
    return Reply(NO_CONTENT)


async def hold(call: Call) -> Reply:
    """POST /v1/schedules/{id}/pause."""
    depth = call.ports.config.server.json_depth_max
    request: PauseRequest = PAUSE.decode(call.body, depth) if call.body else PauseRequest()
    faults = Faults()
    until = _until(faults, request.until, call.now)
    note = text(faults, "/note", request.note, NOTE_CHARS_MAX)
    faults.end()

    async def operation(tx: Transaction) -> Work:
        work = await opened(call, tx)
        await work.pause(until, note)
        return work

    return await answered(call, operation)


def _until(faults: Faults, value: Instant | None, now: int) -> int | None:
    if value is None:
        return None
    try:
        until = instant_ms(value)
    except ValueError as error:
        faults.add("/until", str(error))
        return None
    if until <= now:
        faults.add("/until", "This has passed already.")
    return until


async def release(call: Call) -> Reply:
    """POST /v1/schedules/{id}/resume. One that is not paused stays as it is."""
    nothing_said(call)

    async def operation(tx: Transaction) -> Work:
        work = await opened(call, tx)
        await work.resume()
        return work

    return await answered(call, operation)
