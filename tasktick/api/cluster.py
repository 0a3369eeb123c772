"""The nodes and what each owns, as the database has it; and what an operator may do about it.

A drain outlives a restart: it is of the node's name. Nothing here moves a partition; the nodes do, and are told to
look. On a store that is one process's, one node owns everything, and there is nobody to hand anything to.
"""

from http import HTTPStatus
from typing import Any

import msgspec

from tasktick.api.call import Call, Reply, answer, encode
from tasktick.api.idempotency import once, reply
from tasktick.api.task_actions import nothing_said
from tasktick.api.tasks import OK, no_query
from tasktick.api.times import INSTANT_MAX_MS, seconds, written, written_or_none
from tasktick.cluster.ring import eligible, live, placement, wanted
from tasktick.errors import Refused
from tasktick.model.partition import Lease, NodeRow
from tasktick.store import leases
from tasktick.store.leases import View
from tasktick.store.names import StoredAnswer
from tasktick.store.protocol import Transaction

# Of the nodes that there are, so many are named to who looks for another.
NAMES_MAX = 20
GOING_ON = HTTPStatus.ACCEPTED


async def get(call: Call) -> Reply:
    """GET /v1/cluster."""
    no_query(call)
    view = await call.ports.database.read(lambda tx: leases.view(tx, call.now))
    return answer(OK, _shown(call, view))


async def rebalance(call: Call) -> Reply:
    """POST /v1/cluster/rebalance: let every node look now at what it should own, rather than at its next renewal."""

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        view = await leases.view(tx, call.now)
        status = GOING_ON if _on_their_way(view) else OK
        return "", StoredAnswer(status, encode(_shown(call, view)).decode(), {})

    return await _moved(call, operation)


async def drain(call: Call) -> Reply:
    """POST /v1/cluster/nodes/{id}/drain: it is to own nothing, until it is undrained."""
    _check_shared(call)

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        await leases.take_turn_to_drain(tx)
        view = await leases.view(tx, call.now)
        node = _find(view, call.parameters["id"])
        if not eligible(view.nodes, view.now).keys() - {node.name} and not node.drained:
            detail = f"No other node would take what {node.name} owns. Start one, or undrain one, before."
            raise Refused("state_conflict", detail)
        await leases.drain(tx, node.name, call.now)
        after = await leases.view(tx, call.now)
        return node.incarnation, _stored(call, after, node, done=not _owned(after, node))

    return await _moved(call, operation)


async def undrain(call: Call) -> Reply:
    """POST /v1/cluster/nodes/{id}/undrain: it takes its share again."""
    _check_shared(call)

    async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
        node = _find(await leases.view(tx, call.now), call.parameters["id"])
        await leases.undrain(tx, node.name)
        after = await leases.view(tx, call.now)
        share = wanted(after.nodes, node.incarnation, after.now)
        return node.incarnation, _stored(call, after, node, done=share == _owned(after, node))

    return await _moved(call, operation)


async def _moved(call: Call, operation: Any) -> Reply:
    nothing_said(call)
    no_query(call)
    stored = await once(call, operation)
    call.ports.rebalance()
    return reply(stored)


def _stored(call: Call, view: View, node: NodeRow, *, done: bool) -> StoredAnswer:
    # One that does not run is in sight only as long as it is drained.
    not_drained = msgspec.structs.replace(node, drained=False)
    now_it_is = next((row for row in view.nodes if row.incarnation == node.incarnation), not_drained)
    document = encode(_node(call, view, now_it_is)).decode()
    return StoredAnswer(OK if done else GOING_ON, document, {})


def _check_shared(call: Call) -> None:
    if not call.ports.database.shared:
        raise Refused(
            "state_conflict",
            "There is one node, and the store is its alone: nobody could take what it owns. "
            "To stop it in order, send it SIGTERM. Several nodes need PostgreSQL.",
        )


def _find(view: View, name: str) -> NodeRow:
    """The node of this id, or the last start of this name."""
    living = live(view.nodes, view.now)
    found = [row for row in view.nodes if name in {row.incarnation, row.name}]
    if not found:
        raise Refused("not_found", f"There is no node {name!r}. {_named(view, name)}")
    return max(found, key=lambda row: (row.incarnation == name, row.incarnation in living, row.started_at))


def _named(view: View, name: str) -> str:
    """Who there is, for one that was looked for in vain: a supervisor is no node, its processes are."""
    names = sorted({row.name for row in view.nodes})
    processes = [one for one in names if one.startswith(f"{name}-") and one.removeprefix(f"{name}-").isdigit()]
    if processes:
        return f"Its processes are nodes of their own: {', '.join(processes[:NAMES_MAX])}."
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"There are: {', '.join(names[:NAMES_MAX])}{more}."


def _owned(view: View, node: NodeRow) -> frozenset[int]:
    return frozenset(lease.partition for lease in view.leases if lease.incarnation == node.incarnation)


def _on_their_way(view: View) -> bool:
    placed = placement(view.nodes, view.now)
    return any(lease.incarnation != placed.get(lease.partition, lease.incarnation) for lease in view.leases)


def _shown(call: Call, view: View) -> dict[str, Any]:
    living = live(view.nodes, view.now)
    placed = placement(view.nodes, view.now)
    rows = {row.incarnation: row for row in view.nodes}
    versions = {row.tzdata for row in living.values() if row.tzdata is not None}
    shared = call.ports.database.shared
    return {
        "shared": shared,
        "lease_ttl": seconds(call.ports.config.cluster.lease_ttl_ms) if shared else None,
        "tzdata_agrees": len(versions) <= 1,
        "nodes": [_node(call, view, row) for row in sorted(view.nodes, key=lambda row: (row.name, row.started_at))],
        "partitions": [
            _partition(lease, rows, placed, view.now) for lease in sorted(view.leases, key=lambda one: one.partition)
        ],
    }


def _node(call: Call, view: View, row: NodeRow) -> dict[str, Any]:
    standings = call.ports.standings()
    owned = len(_owned(view, row))
    return {
        "id": row.incarnation,
        "name": row.name,
        "address": row.address,
        "state": _state(row, owned, view.now),
        "partitions": owned,
        "version": row.version,
        "tzdata": row.tzdata,
        "started_at": written(row.started_at),
        "expires_at": _end(row),
        "clock_offset": None if row.clock_offset_ms is None else seconds(row.clock_offset_ms),
        "history_regressed": row.history_regressed,
        "gossip": None if standings is None else standings.get(row.incarnation),
    }


def _state(row: NodeRow, owned: int, now: int) -> str:
    if row.dead_at is not None or row.expires_at <= now:
        return "expired"
    if row.leaving:
        return "leaving"
    if row.drained:
        return "draining" if owned else "drained"
    return "live"


def _end(row: NodeRow | None) -> str | None:
    """When its term ends; one that holds the lock on its store has none."""
    return None if row is None or row.expires_at > INSTANT_MAX_MS else written_or_none(row.expires_at)


def _partition(lease: Lease, rows: dict[str, NodeRow], placed: dict[int, str], now: int) -> dict[str, Any]:
    holder = rows.get(lease.incarnation or "")
    heir = placed.get(lease.partition)
    if holder is None or holder.dead_at is not None or holder.expires_at <= now:
        state = "free"
    else:
        state = "owned" if heir in {None, lease.incarnation} else "moving"
    return {
        "partition": lease.partition,
        "owner": lease.incarnation,
        "node": None if holder is None else holder.name,
        "epoch": lease.epoch,
        "expires_at": _end(holder),
        "wanted_by": lease.wanted_by,
        "state": state,
    }
