"""API keys: made and shown once, listed without what they open, revoked.

A manager gives and takes the keys of its own tenant, up to its own role; others are not there for it. An
operator has all: those of one tenant where it acts for one by header, else those of every tenant.
"""

from typing import Any

from tasktick.access import keys
from tasktick.access.roles import Permission, Role, least, may, up_to
from tasktick.api import faults as checks
from tasktick.api import filters, paging, render
from tasktick.api.auth import TENANT_HEADER, check_tenant
from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.schemas import KeyRequest
from tasktick.api.shown_once import random_bytes, shown_once
from tasktick.api.tasks import CREATED, NO_CONTENT, OK
from tasktick.api.times import INSTANT_MAX_MS, instant_ms, written, written_or_none
from tasktick.errors import Refused, not_found
from tasktick.model.ids import parse, wire
from tasktick.store import secrets as stored
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction
from tasktick.store.rows import KeyRow

KEY = Decoder(KeyRequest)
# Of one tenant, that work.
KEYS_MAX = 1_000
EXPIRES_IN_MAX_MS = 100 * 366 * 86_400_000


def _roles(call: Call) -> list[str]:
    """The roles whose keys this caller gives and takes."""
    return [role.value for role in up_to(call.principal.role)]


def _tenant(call: Call) -> str | None:
    """The tenant whose keys this caller sees; None is every one."""
    if may(call.principal.role, Permission.OPERATE) and call.headers.get(TENANT_HEADER) is None:
        return None
    return call.tenant


async def list_(call: Call) -> Reply:
    """GET /v1/keys: those that are not revoked, or those that are."""
    faults = Faults()
    filters.known(faults, call.query, filters.KEY_WORDS)
    revoked = bool(filters.flag(faults, call.query, "revoked"))
    tenant = _tenant(call)
    page = paging.page_of(faults, call.query, "keys", tenant or "*")
    faults.end()
    found = await call.ports.database.read(
        lambda tx: stored.keys_page(tx, tenant, _roles(call), revoked=revoked, beyond=page.beyond, limit=page.limit + 1)
    )
    shown = found[: page.limit]
    cursor = page.next_cursor(shown[-1].id) if len(found) > page.limit else None
    return answer(OK, paging.document([_shown(one) for one in shown], cursor))


async def create(call: Call) -> Reply:
    """POST /v1/keys."""
    request = KEY.decode(call.body, call.ports.config.server.json_depth_max)
    key = keys.make(random_bytes(keys.RANDOM_BYTES))
    row = _row(call, request, key)

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        if await stored.count_keys(tx, call.now, tenant=row.tenant) >= KEYS_MAX:
            detail = f"The tenant has {KEYS_MAX} keys. Revoke those that nobody uses: `last_used_at` says which."
            raise Refused("state_conflict", detail)
        if not await stored.add_key(tx, row):
            raise Refused("store_unavailable", "The key that was drawn is there already. Send the request again.")
        document = {**_shown(row), "secret": key}
        return row.id, StoredAnswer(CREATED, encode(document).decode(), {"Location": "/v1/keys"})

    return await shown_once(call, operation)


def _row(call: Call, request: KeyRequest, key: str) -> KeyRow:
    """The row of the key that a request asks for, or the refusal with every fault."""
    faults = Faults()
    name = checks.text(faults, "/name", request.name)
    if request.tenant is not None:
        check_tenant(faults, "/tenant", request.tenant)
    expires_at = _expires_at(faults, request, call.now)
    faults.end()
    role, tenant = Role(request.role), request.tenant or call.tenant
    if role not in up_to(call.principal.role):
        raise Refused("forbidden", f"A {call.principal.role} may not make a key with the role {role}.")
    if tenant != call.tenant and not may(call.principal.role, Permission.OPERATE):
        needed = least(Permission.OPERATE)
        raise Refused("forbidden", f"Keys of another tenant take a key with the role {needed}.")
    prefix = keys.prefix_of(key)
    assert prefix is not None
    return KeyRow(
        id=call.ports.ids.new(call.now, 0),
        prefix=prefix,
        hash=keys.digest(key),
        tenant=tenant,
        role=role,
        name=name,
        created_at=call.now,
        expires_at=expires_at,
    )


def _expires_at(faults: Faults, request: KeyRequest, now: int) -> int | None:
    if request.expires_at is None:
        if request.expires_in is None:
            return None
        return now + checks.duration(faults, "/expires_in", request.expires_in, 1, EXPIRES_IN_MAX_MS, least_ms=1)
    if request.expires_in is not None:
        faults.add("/expires_in", "A key has expires_at or expires_in, not both.")
    try:
        expires_at = instant_ms(request.expires_at)
    except ValueError as error:
        faults.add("/expires_at", str(error))
        return None
    if not now < expires_at <= INSTANT_MAX_MS:
        faults.add("/expires_at", "This has passed: such a key would open nothing.")
    return expires_at


async def revoke(call: Call) -> Reply:
    """DELETE /v1/keys/{id}: within seconds it opens nothing, anywhere."""
    name = call.parameters["id"]
    key_id = parse(render.KEY, name, "key")

    async def operation(tx: Transaction) -> None:
        row = await stored.key_by_id(tx, _tenant(call), key_id)
        if row is None or row.role not in _roles(call):
            raise not_found("key", name)
        await stored.revoke_key(tx, key_id, call.now)
        if row.role == Role.OPERATOR and not await stored.count_keys(tx, call.now, role=Role.OPERATOR):
            detail = "This is the last operator's key: without one nobody could make another. Make that first."
            raise Refused("state_conflict", detail)

    await call.ports.database.write(operation)
    return Reply(NO_CONTENT)


def _shown(row: KeyRow) -> dict[str, Any]:
    """A key as it may be seen: never what opens."""
    return {
        "id": wire(render.KEY, row.id),
        "prefix": f"{keys.KEY_START}_{row.prefix}",
        "tenant": row.tenant,
        "role": row.role,
        "name": row.name,
        "created_at": written(row.created_at),
        "expires_at": written_or_none(row.expires_at),
        "last_used_at": written_or_none(row.last_used_at),
        "revoked_at": written_or_none(row.revoked_at),
    }
