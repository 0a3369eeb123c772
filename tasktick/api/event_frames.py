"""Events as clients read them: their types, their ids, their text. Pure.

An id is `<sequence>-<index>`: the batch that an event was written in, in the order of commits, and which of the
tenant's own events in it this is, from 1. With index 0 it is a place rather than an event: before that batch, after
all that came earlier. Whoever shows an id gets what comes behind it.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tasktick.api.answers import Answered, StateWord, TaskId, Time
from tasktick.api.times import written
from tasktick.errors import Refused
from tasktick.model.ids import wire
from tasktick.model.state import BIRTHS, NOT_YET, TERMINAL, TRANSITIONS, State
from tasktick.store import checkins, schedule_events, schedule_faults
from tasktick.store.counts import PURGED
from tasktick.store.events import UNBORN, EventRow, Item

CREATED, DELETED, GAP = "task.created", "task.deleted", "gap"
# What may be asked for: what this version tells of. `gap` is told to everybody whom it concerns.
_COME_INTO = {result for _, result in TRANSITIONS.values()} | (BIRTHS & TERMINAL)
TASK_TYPES = (CREATED, *(f"task.{state.word}" for state in sorted(_COME_INTO - NOT_YET)), DELETED)
TYPES = (*TASK_TYPES, *schedule_events.TYPES, *schedule_faults.TYPES, *checkins.TYPES)
# The least that a client waits before it comes again.
RETRY_MS = 2_000

_ENCODER = msgspec.json.Encoder()
_POSITION = re.compile(r"(\d{1,15})-(\d{1,9})", re.ASCII)


class TaskEvent(Answered):
    """The data of an event: a task has another state since. What is told of other things has other fields."""

    type: Annotated[str, Meta(extra_json_schema={"enum": [*TASK_TYPES]})]
    id: TaskId
    tenant: str
    before: Annotated[StateWord | None, Meta(description="null where it was made by this.")]
    state: Annotated[StateWord | None, Meta(description="null where it was removed.")]
    attempt: Annotated[int | None, Meta(description="Its latest attempt; 0 before the first.")]
    at: Time


class Position(msgspec.Struct, frozen=True, order=True, gc=False):
    """How far a client has read."""

    sequence: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.sequence}-{self.index}"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """An event, ready to be sent to whoever wants its type."""

    type: str
    text: bytes


def position_of(text: str) -> Position:
    """The place that an id names, or the refusal."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise Refused("malformed", "This is no id of an event: they look like 123-4. Without one, it begins now.")
    sequence, index = int(match[1]), int(match[2])
    return Position(sequence, index) if sequence else Position(1)  # before everything that ever was


def type_of(item: Item) -> str:
    """What an event is called: by the state that a task is in since."""
    if item.type is not None:
        return item.type
    if item.after == PURGED:
        return DELETED
    state = State(item.after)
    return CREATED if item.before == UNBORN and state not in TERMINAL else f"task.{state.word}"


def frames(row: EventRow, tenant: str, index: int = 0) -> list[Frame]:
    """A tenant's events of a batch, behind this one."""
    return [
        _frame(type_of(item), str(Position(row.sequence, number)), _document(item, tenant))
        for number, item in enumerate(row.of(tenant)[index:], start=index + 1)
    ]


def _document(item: Item, tenant: str) -> dict[str, Any]:
    if item.type is not None:
        return {"type": item.type, "id": item.id, "tenant": tenant, "at": written(item.at), **_shown(item)}
    return {
        "type": type_of(item),
        "id": wire("tsk", item.id),
        "tenant": tenant,
        "before": None if item.before == UNBORN else State(item.before).word,
        "state": None if item.after == PURGED else State(item.after).word,
        "attempt": item.attempt,
        "at": written(item.at),
    }


def _shown(item: Item) -> dict[str, Any]:
    """What is told beside; times are called `…_at`."""
    return {
        name: written(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in (item.data or {}).items()
    }


def _frame(kind: str, name: str, document: dict[str, Any]) -> Frame:
    return Frame(kind, b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), name.encode(), _ENCODER.encode(document)))


def gap(asked: Position, resumed: Position) -> Frame:
    """Some events that would come now are not kept any more, or this place is of another store."""
    reason = "forgotten" if asked < resumed else "unknown"
    document = {"type": GAP, "reason": reason, "after": str(asked), "resumed": str(resumed)}
    return _frame(GAP, str(resumed), document)


def beginning(position: Position) -> bytes:
    """What a stream begins with: from where to go on if it breaks off before the first event."""
    return b"retry: %d\nid: %b\n\n" % (RETRY_MS, str(position).encode())


def heartbeat(position: Position | None) -> bytes:
    """Life, when there is nothing to tell; and how far a client has come meanwhile, if it has."""
    moved = b"" if position is None else b"id: %b\n\n" % str(position).encode()
    return b": heartbeat\n" + moved
