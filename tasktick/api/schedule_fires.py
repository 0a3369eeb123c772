"""The ledger of a schedule, as it is read: what became of each of its times."""

from tasktick.api import filters, paging, schedule_render
from tasktick.api.call import Call, Reply, answer
from tasktick.api.faults import Faults
from tasktick.api.tasks import OK
from tasktick.store import schedules
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import BEYOND_ALL, LedgerEntry


async def fires(call: Call) -> Reply:
    """GET /v1/schedules/{id}/fires: the latest times first."""
    faults = Faults()
    by = filters.ledger(faults, call.query)
    page = paging.page_of(faults, call.query, f"fires {call.parameters['id']}", call.tenant)
    faults.end()
    beyond = BEYOND_ALL if page.beyond is None else paging.number_of(page.beyond)

    async def operation(tx: Transaction) -> list[LedgerEntry]:
        found = (await schedules.find(tx, call.tenant, call.parameters["id"])).schedule
        return await schedules.ledger(
            tx,
            found.id,
            outcomes=by.outcomes,
            reason=by.reason,
            from_at=by.from_at,
            to_at=by.to_at,
            beyond=beyond,
            limit=page.limit + 1,
        )

    found = await call.ports.database.read(operation)
    shown = found[: page.limit]
    last = str(shown[-1].row.nominal_at) if len(found) > page.limit else None
    rows = [schedule_render.ledger_row(one, call.now) for one in shown]
    return answer(OK, paging.document(rows, page.next_cursor(last)))
