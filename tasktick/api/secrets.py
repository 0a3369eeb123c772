"""Signing secrets: made and shown once, listed with their ends, shown whole to an operator who asks, retired.

All that are active sign every request, so that receivers can change over from one to the next at leisure.
"""

from typing import Any

from tasktick.access import signing_secrets
from tasktick.access.roles import Permission
from tasktick.access.signing_secrets import ACTIVE_MAX, SigningSecret
from tasktick.access.vault import masked
from tasktick.api import faults as checks
from tasktick.api import filters, paging, render
from tasktick.api.auth import permit
from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.schemas import Rotation
from tasktick.api.shown_once import random_bytes, shown_once
from tasktick.api.task_actions import nothing_said
from tasktick.api.tasks import CREATED, NO_CONTENT, OK
from tasktick.api.times import written, written_or_none
from tasktick.dispatch.signing import new_secret
from tasktick.errors import Refused, not_found
from tasktick.model.ids import parse, wire
from tasktick.store import secrets as stored
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction

SECRET_BYTES = 32
RETIRE_AFTER_MAX_MS = 366 * 86_400_000
ROTATION = Decoder(Rotation)


async def list_(call: Call) -> Reply:
    """GET /v1/secrets."""
    faults = Faults()
    filters.known(faults, call.query, filters.SECRET_WORDS)
    reveal = bool(filters.flag(faults, call.query, "reveal"))
    faults.end()
    if reveal:
        permit(call.principal, Permission.OPERATE)
    vault = call.ports.vault
    found = await call.ports.database.read(lambda tx: signing_secrets.read(tx, call.tenant, vault))
    return answer(OK, paging.document([_shown(one, reveal=reveal) for one in found], None))


async def create(call: Call) -> Reply:
    """POST /v1/secrets: a further one; it signs beside those that are there."""
    nothing_said(call)
    return await _add(call, None)


async def rotate(call: Call) -> Reply:
    """POST /v1/secrets/rotate: a new one; those that are there sign beside it for as long as is said."""
    request = ROTATION.decode(call.body, call.ports.config.server.json_depth_max) if call.body else Rotation()
    faults = Faults()
    after_ms = checks.duration(faults, "/retire_after", request.retire_after, 0, RETIRE_AFTER_MAX_MS)
    faults.end()
    return await _add(call, None if request.retire_after is None else after_ms)


async def _add(call: Call, retire_after_ms: int | None) -> Reply:
    """Make one; end the others after a time, if one is given."""
    secret = SigningSecret(call.ports.ids.new(call.now, 0), new_secret(random_bytes(SECRET_BYTES)), call.now)
    vault, tenant = call.ports.vault, call.tenant

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        present = await _active(tx, call)
        remaining = [] if retire_after_ms == 0 else present
        if len(remaining) >= ACTIVE_MAX:
            detail = f"There are {ACTIVE_MAX} active secrets; each one signs every request. Retire one first."
            raise Refused("state_conflict", detail)
        await signing_secrets.add(tx, tenant, vault, secret)
        ids = [one.id for one in present]
        if retire_after_ms == 0:
            await stored.retire(tx, tenant, ids, call.now)
        elif retire_after_ms is not None:
            await stored.retire_at(tx, tenant, ids, call.now + retire_after_ms)
        document = _shown(secret, reveal=True)
        return secret.id, StoredAnswer(CREATED, encode(document).decode(), {"Location": "/v1/secrets"})

    reply = await shown_once(call, operation)
    call.ports.signing_changed(tenant)
    return reply


async def retire(call: Call) -> Reply:
    """DELETE /v1/secrets/{id}: it signs no more, and stays in the list."""
    name = call.parameters["id"]
    secret_id = parse(render.SECRET, name, "signing secret")

    async def operation(tx: Transaction) -> None:
        found = await stored.read(tx, call.tenant, stored.SIGNING)
        if not any(one.id == secret_id for one in found):
            raise not_found("signing secret", name)
        active = await _active(tx, call)
        lasting = [one for one in active if one.retired_at is None and one.id != secret_id]
        if any(one.id == secret_id for one in active) and not lasting:
            detail = "No other secret would sign for long. Make one first: POST /v1/secrets/rotate."
            raise Refused("state_conflict", detail)
        await stored.retire(tx, call.tenant, [secret_id], call.now)

    await call.ports.database.write(operation)
    call.ports.signing_changed(call.tenant)
    return Reply(NO_CONTENT)


async def _active(tx: Transaction, call: Call) -> list[SigningSecret]:
    found = await signing_secrets.read(tx, call.tenant, call.ports.vault)
    return [one for one in found if one.signs_at(call.now)]


def _shown(secret: SigningSecret, *, reveal: bool) -> dict[str, Any]:
    return {
        "id": wire(render.SECRET, secret.id),
        "secret": secret.text if reveal else masked(secret.text),
        "created_at": written(secret.created_at),
        "retired_at": written_or_none(secret.retired_at),
    }
