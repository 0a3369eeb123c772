"""Checks: made, replaced, changed, paused, given another ping id, removed, read with their pings."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from tasktick.access.roles import Permission, may
from tasktick.api import faults as checks
from tasktick.api import filters, paging
from tasktick.api.call import Call, Reply, answer, encode, etag
from tasktick.api.check_requests import Definition, definition_of, patched, ping_context, ping_shown, shown
from tasktick.api.check_schemas import CheckPatch, CheckRequest
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.idempotency import reply
from tasktick.api.render import Document
from tasktick.api.routing import MethodRefused
from tasktick.api.shown_once import shown_once
from tasktick.api.task_actions import nothing_said
from tasktick.api.tasks import CREATED, NO_CONTENT, OK, check_version, no_query
from tasktick.model.checkin import Check
from tasktick.model.ids import KEY_PREFIX, wire
from tasktick.scheduler.check_watch import tell
from tasktick.scheduler.checkins import begun
from tasktick.store import checkins, names
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction

CHECK = Decoder(CheckRequest)
PATCH = Decoder(CheckPatch)
PING_PREFIX = "chk_"
PING_BYTES = 16
BY_ID = ("DELETE", "GET", "HEAD", "PATCH")
Change = Callable[[Transaction, Check], Awaitable[Check]]


def ping_hash(ping_id: str) -> str:
    """What a check is found by."""
    return hashlib.sha256(ping_id.encode(errors="replace")).hexdigest()


def _pinged_by(call: Call, check: Check) -> Check:
    """With a new id to be pinged by."""
    ping_id = PING_PREFIX + secrets.token_bytes(PING_BYTES).hex()
    sealed = call.ports.vault.seal(ping_id, ping_context(check.tenant, check.id))
    return msgspec.structs.replace(check, ping_hash=ping_hash(ping_id), ping_sealed=sealed)


async def _shown(call: Call, tx: Transaction, found: list[Check]) -> list[Document]:
    away = (await checkins.watched(tx)).away
    whole = may(call.principal.role, Permission.MANAGE)
    return [shown(one, call.ports.vault, away, whole=whole) for one in found]


async def list_(call: Call) -> Reply:
    """GET /v1/checks."""
    faults = Faults()
    by = filters.checks(faults, call.query)
    page = paging.page_of(faults, call.query, "checks", call.tenant)
    faults.end()

    async def operation(tx: Transaction) -> tuple[list[Document], str | None]:
        ids = await checkins.ids_page(tx, call.tenant, by, page.beyond, page.limit + 1)
        found = await checkins.read(tx, call.tenant, ids[: page.limit])
        cursor = page.next_cursor(ids[page.limit - 1]) if len(ids) > page.limit else None
        return await _shown(call, tx, found), cursor

    return answer(OK, paging.document(*await call.ports.database.read(operation)))


async def get(call: Call) -> Reply:
    """GET /v1/checks/{id}."""
    no_query(call)

    async def operation(tx: Transaction) -> tuple[Check, Document]:
        found = await checkins.find(tx, call.tenant, call.parameters["id"])
        return found, (await _shown(call, tx, [found]))[0]

    found, document = await call.ports.database.read(operation)
    return answer(OK, document, {"ETag": etag(found.version)})


async def pings(call: Call) -> Reply:
    """GET /v1/checks/{id}/pings."""
    faults = Faults()
    kind = filters.pings(faults, call.query)
    page = paging.page_of(faults, call.query, f"pings {call.parameters['id']}", call.tenant)
    faults.end()
    beyond = paging.number_of(page.beyond) if page.beyond is not None else checkins.BEYOND_ALL

    async def operation(tx: Transaction) -> list[Document]:
        check = await checkins.find(tx, call.tenant, call.parameters["id"])
        return [ping_shown(one) for one in await checkins.pings(tx, check.id, kind, beyond, page.limit + 1)]

    found = await call.ports.database.read(operation)
    rows = found[: page.limit]
    cursor = page.next_cursor(str(rows[-1]["number"])) if len(found) > page.limit else None
    return answer(OK, paging.document(rows, cursor))


async def _answered(call: Call, tx: Transaction, check: Check, *, made: bool = False) -> StoredAnswer:
    document = (await _shown(call, tx, [check]))[0]
    headers = {"ETag": etag(check.version)}
    if made:
        headers["Location"] = f"/v1/checks/{document['id']}"
    return StoredAnswer(CREATED if made else OK, encode(document).decode(), headers)


def _new(call: Call, definition: Definition, key: str | None, *, paused: bool) -> Check:
    ids, now = call.ports.ids, call.now
    check = Check(
        id=ids.new(now, ids.partition(key, None)),
        tenant=call.tenant,
        version=1,
        created_at=now,
        updated_at=now,
        grace_ms=definition.grace_ms,
        ping_hash="",
        ping_sealed="",
        status="new",
        status_at=now,
        anchor_at=now,
        key=key,
        paused=paused,
    )
    return begun(_pinged_by(call, definition.of(check)), now)


def _asked(call: Call, key: str | None = None) -> tuple[Definition, CheckRequest]:
    request: CheckRequest = CHECK.decode(call.body, call.ports.config.server.json_depth_max)
    faults = Faults()
    definition = definition_of(faults, request)
    if key is not None and request.key not in (None, key):
        faults.add("/key", "The key in the body is not the one in the path.")
    checks.key(faults, "/key", request.key if key is None else key)
    faults.end()
    return definition, request


async def create(call: Call) -> Reply:
    """POST /v1/checks."""
    definition, request = _asked(call)
    check = _new(call, definition, request.key, paused=bool(request.paused))

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        await checkins.create(tx, check)
        return check.id, await _answered(call, tx, check, made=True)

    return await shown_once(call, operation)


async def put(call: Call) -> Reply:
    """PUT /v1/checks/key:<key>: make it, or make it what is given. A pause that is not spoken of stays."""
    name = call.parameters["id"]
    key = name.removeprefix(KEY_PREFIX)
    if key == name:
        raise MethodRefused("PUT", BY_ID, "PUT takes a key of your own: /v1/checks/key:<key>. By id, use PATCH.")
    definition, request = _asked(call, key)
    made = _new(call, definition, key, paused=bool(request.paused))

    async def operation(tx: Transaction) -> StoredAnswer:
        if await names.find(tx, call.tenant, checkins.CHECK, key) is None:
            check_version(call, None)
            await checkins.create(tx, made)
            return await _answered(call, tx, made, made=True)
        return await _answered(call, tx, await _changed(call, tx, lambda check: (definition, request.paused)))

    return reply(await call.ports.database.write(operation))


async def patch(call: Call) -> Reply:
    """PATCH /v1/checks/{id}."""
    request: CheckPatch = PATCH.decode(call.body, call.ports.config.server.json_depth_max)

    async def operation(tx: Transaction) -> StoredAnswer:
        return await _answered(call, tx, await _changed(call, tx, lambda check: patched(check, request)))

    return reply(await call.ports.database.write(operation))


async def _changed(call: Call, tx: Transaction, wanted: Callable[[Check], tuple[Definition, bool | None]]) -> Check:
    """The check as it is wanted. Other times count from now on."""
    before = await checkins.held_one(tx, call.tenant, call.parameters["id"])
    check_version(call, before)
    definition, paused = wanted(before)
    after = definition.of(before)
    if after == before and paused in (None, before.paused):
        return before
    if (after.rule, after.period_ms) != (before.rule, before.period_ms):
        after = begun(after, call.now)
    after = begun_again(after, call.now) if after.grace_ms != before.grace_ms else after
    return await _define(call, tx, before, after, paused)


def begun_again(check: Check, now: int) -> Check:
    """Looked at soon, as when it is late has changed."""
    return check if check.paused else msgspec.structs.replace(check, next_at=now)


async def _define(call: Call, tx: Transaction, before: Check, after: Check, paused: bool | None) -> Check:
    """Write a change, and whether it is watched since."""
    events = []
    if paused is not None and paused != before.paused:
        after = msgspec.structs.replace(after, paused=paused)
        if not paused:  # what was before says nothing about now
            after = msgspec.structs.replace(after, status="new", status_at=call.now, reason=None, runs={}, failures=0)
        after = begun(after, call.now)
        data = {"key": after.key, "name": after.name, "before": before.status, "status": after.status}
        events.append((checkins.PAUSED if paused else checkins.RESUMED, data))
    after = msgspec.structs.replace(after, version=before.version + 1, updated_at=call.now)
    await checkins.define(tx, after)
    call.ports.told(await tell(tx, call.now, [(after, events)]))
    return after


async def _act(call: Call, change: Callable[[Transaction, Check], Awaitable[Check]]) -> Reply:
    nothing_said(call)

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        before = await checkins.held_one(tx, call.tenant, call.parameters["id"])
        after = await change(tx, before)
        return after.id, await _answered(call, tx, after)

    return await shown_once(call, operation)


async def hold(call: Call) -> Reply:
    """POST /v1/checks/{id}/pause: pings are kept, and nothing is missed."""
    return await _act(call, lambda tx, check: _paused(call, tx, check, paused=True))


async def release(call: Call) -> Reply:
    """POST /v1/checks/{id}/resume: it is watched from now on."""
    return await _act(call, lambda tx, check: _paused(call, tx, check, paused=False))


async def _paused(call: Call, tx: Transaction, check: Check, *, paused: bool) -> Check:
    return check if check.paused == paused else await _define(call, tx, check, check, paused)


async def rotate(call: Call) -> Reply:
    """POST /v1/checks/{id}/rotate: another id to ping; the one before is nobody's from now on."""

    async def change(tx: Transaction, check: Check) -> Check:
        return await _define(call, tx, check, _pinged_by(call, check), None)

    return await _act(call, change)


async def delete(call: Call) -> Reply:
    """DELETE /v1/checks/{id}: with its pings."""

    async def operation(tx: Transaction) -> None:
        found = await checkins.held_one(tx, call.tenant, call.parameters["id"])
        check_version(call, found)
        await checkins.delete(tx, found)

    await call.ports.database.write(operation)
    return Reply(NO_CONTENT)


def name_of(check: Check) -> str:
    """As clients know it."""
    return wire(checkins.PREFIX, check.id)
