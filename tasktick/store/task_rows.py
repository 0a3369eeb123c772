"""The rows of new tasks, as the statements that insert them read them. Pure."""

from operator import attrgetter
from typing import Any

import msgspec

from tasktick.model.task import NewTask, Payload, TaskDetail

# What `task_insert` reads off the row of each new task, in its order, and then which shape is its own; and what a shape
# is: that in which those which come together are mostly alike.
ROW = ("id", "updated_at", "run_at", "due_at", "expires_at", "key", "name", "tags")
_SHAPE_STATE = ("tenant", "state", "queue", "host", "priority", "max_attempts", "timeout_ms", "at_most_once")
_SHAPE_DETAIL = ("type", "sla_ms", "expires_in_ms")
SHAPE = (*_SHAPE_STATE, *_SHAPE_DETAIL)
# What a task brings that is of a schedule or of a workflow, or was born otherwise than scheduled (`task_insert_whole`).
NEW_STATE_COLUMNS = (
    *("id", "tenant", "state", "queue", "host", "priority", "run_at", "due_at", "wake_at", "max_attempts"),
    *("timeout_ms", "updated_at", "at_most_once", "keyed", "expires_at"),
)
NEW_DETAIL_COLUMNS = ("id", "tenant", "created_at", "key", "name", "type", "tags", "sla_ms", "expires_in_ms")
_RARE_STATE = ("completed_at", "reason", "payload_version", "template_id", "decide_by", "after_id", "late_at")
_RARE_DETAIL = ("schedule_id", "workflow_id", "step")
STATE_COLUMNS = (*NEW_STATE_COLUMNS, *_RARE_STATE)
DETAIL_COLUMNS = (*NEW_DETAIL_COLUMNS, *_RARE_DETAIL)
_NO_TAGS = "{}"
Row = tuple[Any, ...]

state_row = attrgetter(*STATE_COLUMNS)
_shape_state = attrgetter(*_SHAPE_STATE)
_rare_state, _rare_detail = attrgetter(*_RARE_STATE), attrgetter(*_RARE_DETAIL)
_NO_RARE_STATE = (None, None, 1, None, None, None, None)
_NO_RARE_DETAIL = (None, None, None)


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """A new task as `task_insert` reads it."""

    shape: Row
    row: Row
    payload: tuple[str, str]


def new_row(task: NewTask) -> NewRow | None:
    """The row of a task; None for one that brings what `task_insert_whole` alone reads."""
    state, detail = task.state, task.detail
    is_plain = (
        state.wake_at == state.due_at
        and state.updated_at == detail.created_at
        and state.keyed == (detail.key is not None)
        and _rare_state(state) == _NO_RARE_STATE
        and _rare_detail(detail) == _NO_RARE_DETAIL
    )
    if not is_plain:
        return None
    task_id = state.id
    tags = encoded(detail.tags) if detail.tags else _NO_TAGS
    times = state.updated_at, state.run_at, state.due_at, state.expires_at
    shape = (*_shape_state(state), detail.type, detail.sla_ms, detail.expires_in_ms)
    return NewRow(shape, (task_id, *times, detail.key, detail.name, tags), (task_id, encoded(task.payload)))


def detail_row(detail: TaskDetail) -> Row:
    """The row that `task_insert_whole` reads, by `DETAIL_COLUMNS`."""
    return (
        detail.id,
        detail.tenant,
        detail.created_at,
        detail.key,
        detail.name,
        detail.type,
        encoded(detail.tags) if detail.tags else _NO_TAGS,
        detail.sla_ms,
        detail.expires_in_ms,
        detail.schedule_id,
        detail.workflow_id,
        detail.step,
    )


def payload_row(task_id: str, version: int, payload: Payload) -> tuple[Any, ...]:
    """A payload as a row."""
    return task_id, version, encoded(payload)


_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> str:
    """As JSON text."""
    return _encode(value).decode()
