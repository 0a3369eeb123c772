"""How it is going: liveness, readiness, metrics, figures."""

from http import HTTPStatus
from typing import Any

from tasktick.api import problems
from tasktick.api.call import Call, Reply, answer
from tasktick.api.problems import CODES
from tasktick.api.tasks import OK, no_query
from tasktick.api.times import written_or_none
from tasktick.errors import Refused
from tasktick.model.state import State
from tasktick.store import counts
from tasktick.store.counts import PURGED

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


async def healthz(_: Call) -> Reply:
    """GET /healthz: the process lives, since it answers."""
    return answer(OK, {"status": "ok"})


async def readyz(call: Call) -> Reply:
    """GET /readyz: 503 with the codes of what stands in the way."""
    reasons = call.ports.reasons_not_ready()
    if call.ports.draining() and "draining" not in reasons:
        reasons = ["draining", *reasons]
    if not reasons:
        return answer(OK, {"status": "ready", "reasons": []})
    code = next((reason for reason in reasons if CODES.get(reason, (0, ""))[0] == HTTPStatus.SERVICE_UNAVAILABLE), None)
    refused = Refused(code or "store_unavailable", f"Not ready: {', '.join(reasons)}.")
    return problems.reply(refused, call.request_id, reasons=reasons)


async def metrics(call: Call) -> Reply:
    """GET /metrics, for Prometheus; of several processes all, whichever answers."""
    return Reply(OK, await call.ports.metrics_text(), media_type=METRICS_TYPE)


async def stats(call: Call) -> Reply:
    """GET /v1/stats: tasks by state, and what the process says of itself."""
    no_query(call)
    rows = await call.ports.database.read(lambda tx: counts.read(tx, call.tenant))
    by_state = {row.state: row.tasks for row in rows}
    document: dict[str, Any] = {
        "tasks": {state.word: by_state.get(int(state), 0) for state in State if state is not State.READY},
        "purged": by_state.get(PURGED, 0),
    }
    live = call.ports.live_stats()
    deadman = live.get("deadman")
    if deadman is not None:
        live["deadman"] = deadman | {"last_success_at": written_or_none(deadman["last_success_at"])}
    return answer(OK, document | live)
