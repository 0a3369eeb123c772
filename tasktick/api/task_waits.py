"""What a task waits for now. Pure, from its row, who owns it, and where it is in this process's memory."""

import msgspec

from tasktick.api import render
from tasktick.api.times import written, written_or_none
from tasktick.model.ids import wire
from tasktick.model.partition import Lease, NodeRow
from tasktick.model.schedule import Schedule, is_busy
from tasktick.model.state import State
from tasktick.model.task import TaskState
from tasktick.ready.limits import Reason
from tasktick.ready.standing import Standing

_FULL = {
    Reason.GLOBAL: "As many calls are in flight on this node as it may have",
    Reason.TENANT: "As many calls of its tenant are in flight as it may have",
    Reason.QUEUE: "As many calls of its queue are in flight as it may have",
    Reason.HOST: "As many calls to its host are in flight as it may have, for how quick it is",
}


class Waits(msgspec.Struct, frozen=True):
    """What there is to know about a task that has not ended."""

    state: TaskState
    schedule: Schedule | None
    earlier: TaskState | None
    lease: Lease | None
    owner: NodeRow | None
    store_now: int
    standing: Standing
    now: int


Step = tuple[int | None, str, str]


def waits_for(known: Waits) -> Step:
    """What it waits for: when that was so, a code, a sentence."""
    code, detail = _waits_for(known)
    return known.now, code, detail


def _waits_for(known: Waits) -> tuple[str, str]:
    state = known.state
    match state.state:
        case State.PAUSED:
            return (
                "paused",
                f"It is paused, since {written(state.updated_at)} at the latest. Resume it to let it go on.",
            )
        case State.BLOCKED:
            return "behind_earlier_fire", f"It waits until {_earlier(known)} has ended."
        case State.RUNNING | State.AWAITING:
            return _running(known)
        case _:
            return _unstarted(known)


def _earlier(known: Waits) -> str:
    if known.earlier is None:
        return "the fire before it, which is not known any more,"
    shown = render.shown_state(known.earlier, known.now).word
    return f"the fire before it ({wire(render.TASK, known.earlier.id)}, which is {shown})"


def _running(known: Waits) -> tuple[str, str]:
    state = known.state
    held = f"node {state.node} holds it under epoch {state.epoch} until {written_or_none(state.lease_until)}"
    if state.lease_until is not None and state.lease_until <= known.now:
        return "lease_expired", f"Attempt {state.attempt} should have ended: {held}. It is about to be rescued."
    if state.cancel_requested:
        return "cancel_requested", f"It was asked to stop, and attempt {state.attempt} may still end: {held}."
    return "running", f"Attempt {state.attempt} is under way, picked up {written_or_none(state.picked_at)}: {held}."


def _unstarted(known: Waits) -> tuple[str, str]:
    state, now = known.state, known.now
    if state.wake_at > now:
        if state.state is State.RETRYING and state.due_at > now:
            return "backoff", f"Its last attempt failed; the next one is due at {written(state.due_at)}."
        if state.due_at > now:
            return "not_due", f"It is not due before {written(state.due_at)}."
        return "parked", f"There was no room for it in its lane. It is looked at again at {written(state.wake_at)}."
    if state.attempt == 0 and is_busy(known.earlier, now):
        return "behind_earlier_fire", f"What becomes of it depends on {_earlier(known)}: its schedule decides."
    if _is_undecided(known):
        return "undecided", f"It starts once its schedule has decided about {written(state.run_at)}, which is late."
    return _due(known)


def _is_undecided(known: Waits) -> bool:
    state = known.state
    is_ahead = known.schedule is not None and known.schedule.next_id == state.id
    return is_ahead and state.attempt == 0 and state.decide_by is not None and state.decide_by <= known.now


def _due(known: Waits) -> tuple[str, str]:
    """It may go, as far as the store knows: the rest is in the memory of the node that owns it."""
    standing = known.standing
    match standing.place:
        case "in_hand":
            return "being_claimed", "It is being claimed on this node at this moment."
        case "ready":
            if standing.held_by is None:
                return "waiting_turn", f"It is ready on this node, and waits for its turn among {standing.before:,}."
            full = f"{_FULL[standing.held_by]} ({standing.in_flight:,} of {standing.cap:,})"
            return f"held_{standing.held_by.value}", f"{full}. It goes when one of them ends."
        case "not_loaded":
            return "not_loaded", "It is due, and this node, which owns it, is about to read it from the store."
        case "unknown":
            return "not_known", "It is due. What it waits for within the node is not known here."
        case "elsewhere":
            return _elsewhere(known)


def _elsewhere(known: Waits) -> tuple[str, str]:
    lease, owner = known.lease, known.owner
    partition = None if lease is None else lease.partition
    if lease is None or owner is None or owner.dead_at is not None or owner.expires_at <= known.store_now:
        return "no_owner", f"It is due, and no node owns its partition ({partition}) now. The next that lives takes it."
    where = (
        ""
        if owner.address is None
        else f" Ask that node: {owner.address}/v1/tasks/{wire(render.TASK, known.state.id)}/explain"
    )
    return (
        "owner_elsewhere",
        f"It is due, and node {owner.name} owns its partition ({partition}, epoch {lease.epoch}). What it waits "
        f"for there is in that node's memory, and not known here.{where}",
    )
