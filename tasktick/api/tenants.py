"""Tenants: their limits, and what they have. For operators alone."""

from typing import Any

from tasktick.access.roles import Role
from tasktick.api import faults as checks
from tasktick.api import filters, paging
from tasktick.api.auth import check_tenant
from tasktick.api.call import Call, Reply, answer
from tasktick.api.decoding import Decoder
from tasktick.api.faults import Faults
from tasktick.api.rates import rate_of
from tasktick.api.schemas import TenantRequest
from tasktick.api.tasks import CREATED, NO_CONTENT, OK, no_query
from tasktick.api.times import written_or_none
from tasktick.errors import Refused, not_found
from tasktick.model.task import DEFAULT_TENANT
from tasktick.store import secrets as stored
from tasktick.store import tenants
from tasktick.store.protocol import Transaction
from tasktick.store.rows import TenantRow

TENANT = Decoder(TenantRequest)
PENDING_MAX = 1_000_000_000


async def list_(call: Call) -> Reply:
    """GET /v1/tenants: those that have limits, keys or unfinished tasks, and `default`."""
    faults = Faults()
    filters.known(faults, call.query, filters.TENANT_WORDS)
    page = paging.page_of(faults, call.query, "tenants", "*")
    faults.end()
    found = await call.ports.database.read(lambda tx: tenants.page(tx, page.beyond, page.limit + 1))
    shown = found[: page.limit]
    cursor = page.next_cursor(shown[-1].name) if len(found) > page.limit else None
    return answer(OK, paging.document([_shown(one) for one in shown], cursor))


async def get(call: Call) -> Reply:
    """GET /v1/tenants/{name}."""
    no_query(call)
    name = call.parameters["name"]
    return answer(OK, _shown(await call.ports.database.read(lambda tx: _known(tx, name))))


async def put(call: Call) -> Reply:
    """PUT /v1/tenants/{name}: its limits, whole; what is not given is not limited."""
    request = TENANT.decode(call.body, call.ports.config.server.json_depth_max)
    name = call.parameters["name"]
    faults = Faults()
    check_tenant(faults, "/name", name)
    if request.max_pending is not None:
        checks.number(faults, "/max_pending", request.max_pending, 0, 0, PENDING_MAX)
    if request.create_rate is not None:
        try:
            rate_of(request.create_rate)
        except ValueError as error:
            faults.add("/create_rate", str(error))
    faults.end()

    async def operation(tx: Transaction) -> tuple[TenantRow, bool]:
        before = await tenants.find(tx, name)
        await tenants.put(tx, name, max_pending=request.max_pending, create_rate=request.create_rate, now=call.now)
        return await _known(tx, name), before is None or before.created_at is None

    row, made = await call.ports.database.write(operation)
    call.rates.changed(name)
    return answer(CREATED if made else OK, _shown(row), {"Location": f"/v1/tenants/{name}"} if made else None)


async def delete(call: Call) -> Reply:
    """DELETE /v1/tenants/{name}: its limits, keys and secrets; never while it has something to do."""
    name = call.parameters["name"]
    if name == DEFAULT_TENANT:
        raise Refused("state_conflict", f"The tenant {name} is always there. Its limits are lifted with PUT and {{}}.")

    async def operation(tx: Transaction) -> None:
        row = await _known(tx, name)
        if row.pending:
            detail = f"Unfinished tasks of this tenant: {row.pending}. Cancel them, or wait until they end."
            raise Refused("state_conflict", detail)
        if await stored.count_keys(tx, call.now, tenant=name, role=Role.OPERATOR):
            detail = "The tenant has an operator's key, which may do more than belongs to it. Revoke that first."
            raise Refused("state_conflict", detail)
        await stored.revoke_keys_of(tx, name, call.now)
        found = await stored.read(tx, name, stored.SIGNING)
        await stored.retire(tx, name, [one.id for one in found], call.now)
        await tenants.delete(tx, name)

    await call.ports.database.write(operation)
    call.rates.changed(name)
    call.ports.signing_changed(name)
    return Reply(NO_CONTENT)


async def _known(tx: Transaction, name: str) -> TenantRow:
    row = await tenants.find(tx, name)
    if row is None:
        raise not_found("tenant", name)
    return row


def _shown(row: TenantRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "max_pending": row.max_pending,
        "create_rate": row.create_rate,
        "pending": row.pending,
        "running": row.running,
        "created_at": written_or_none(row.created_at),
        "updated_at": written_or_none(row.updated_at),
    }
