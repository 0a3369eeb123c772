"""Carries out a plan, one request after the other, and stops at the first that fails."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tasktick.client import calendars, schedules
from tasktick.client.core import Problem, Request
from tasktick.ctl.ascode import server
from tasktick.ctl.ascode.planning import Change
from tasktick.ctl.connect import Session, new_key

RACED = (409, 412)
Outcome = Literal["created", "changed", "marked", "pruned", "unchanged"]
DONE: dict[str, Outcome] = {"create": "created", "change": "changed", "mark": "marked", "prune": "pruned"}


class Progress(msgspec.Struct):
    """What has been done, in order, and what comes next."""

    done: list[tuple[Change, Outcome]] = []
    next: Change | None = None
    left: int = 0


def steps(changes: Sequence[Change]) -> list[Change]:
    """What there is to do. A secret cannot be compared from here: what has one is sent, and the server compares."""
    return [one for one in changes if one.action != "none" or (one.wanted is not None and one.wanted.has_secrets)]


def carry_out(
    session: Session, changes: Sequence[Change], progress: Progress, told: Callable[[Change, Outcome], None]
) -> None:
    """Do all of it, or raise at the first that fails; `progress` tells how far it came."""
    for place, change in enumerate(changes):
        progress.next, progress.left = change, len(changes) - place
        outcome = _do(session, change)
        progress.done.append((change, outcome))
        told(change, outcome)
    progress.next, progress.left = None, 0


def _do(session: Session, change: Change) -> Outcome:
    try:
        answer = session.send(_request(change))
    except Problem as problem:
        if problem.status in RACED:
            problem.detail += " Somebody else was faster: run this again to see what has changed."
        raise
    if change.action == "none":
        before = change.standing
        is_same = before is not None and (answer.json() or {}).get("version") == before.version
        return "unchanged" if is_same else "changed"
    return DONE[change.action]


def _request(change: Change) -> Request:
    version = None if change.standing is None else f'"{change.standing.version}"'
    if change.action == "prune":
        return schedules.delete(f"key:{change.key}", version)
    assert change.wanted is not None
    if change.kind == "calendar":
        return calendars.put(change.key, change.wanted.request, version)
    body = server.to_send(change.wanted)
    if change.standing is None:
        return schedules.create(body, new_key())
    return schedules.put(f"key:{change.key}", body, version)
