"""Signing secrets: listed with their ends, made and shown once, and shown whole to an operator who asks."""

from secrets import token_bytes
from typing import Any

from tasktick.access import signing_secrets
from tasktick.access.roles import Permission
from tasktick.access.signing_secrets import ACTIVE_MAX, SigningSecret
from tasktick.access.vault import masked
from tasktick.api import filters, render
from tasktick.api.auth import permit
from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.faults import Faults
from tasktick.api.idempotency import key_of
from tasktick.api.task_actions import nothing_said
from tasktick.api.tasks import CREATED, OK
from tasktick.api.times import written, written_or_none
from tasktick.dispatch.signing import new_secret
from tasktick.errors import Refused
from tasktick.model.ids import wire
from tasktick.store.protocol import Transaction

SECRET_BYTES = 32


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
    return answer(OK, {"data": [_shown(one, reveal=reveal) for one in found], "next_cursor": None})


async def create(call: Call) -> Reply:
    """POST /v1/secrets: a further one; it signs beside those that are there."""
    nothing_said(call)
    if key_of(call) is not None:
        # To answer again, the secret would have to be kept in the clear.
        raise Refused("validation_failed", "A secret is shown once, so this request takes no Idempotency-Key.")
    secret = SigningSecret(call.ports.ids.new(call.now, 0), new_secret(token_bytes(SECRET_BYTES)), call.now)
    vault = call.ports.vault

    async def operation(tx: Transaction) -> None:
        present = await signing_secrets.read(tx, call.tenant, vault)
        if sum(one.retired_at is None for one in present) >= ACTIVE_MAX:
            raise Refused("state_conflict", f"There are {ACTIVE_MAX} active secrets; each one signs every request.")
        await signing_secrets.add(tx, call.tenant, vault, secret)

    await call.ports.database.write(operation)
    call.ports.signing_changed(call.tenant)
    document = _shown(secret, reveal=True)
    return Reply(CREATED, encode(document), {"Location": "/v1/secrets"})


def _shown(secret: SigningSecret, *, reveal: bool) -> dict[str, Any]:
    return {
        "id": wire(render.SECRET, secret.id),
        "secret": secret.text if reveal else masked(secret.text),
        "created_at": written(secret.created_at),
        "retired_at": written_or_none(secret.retired_at),
    }
