"""The rows of new tasks, as the statements that insert them read them. Pure."""

from operator import attrgetter
from typing import Any

import msgspec

from tasktick.model.schedule import NewFire
from tasktick.model.task import NewTask, Payload, TaskDetail, TaskState

# What `task_insert` reads off the row of each new task, in its order, and then its payload and which shape is its own;
# and what a shape is: that in which those which come together are mostly alike.
ROW = ("id", "updated_at", "run_at", "due_at", "expires_at", "key", "name", "tags")
DUE_AT = ROW.index("due_at")
_SHAPE_STATE = ("tenant", "state", "queue", "host", "priority", "max_attempts", "timeout_ms", "at_most_once")
_SHAPE_DETAIL = ("type", "sla_ms", "expires_in_ms")
SHAPE = (*_SHAPE_STATE, *_SHAPE_DETAIL)
# What a task brings that is of a schedule or of a workflow, or was born otherwise than scheduled (`task_insert_whole`).
NEW_STATE_COLUMNS = (
    *("id", "tenant", "state", "queue", "host", "priority", "run_at", "due_at", "wake_at", "max_attempts"),
    *("timeout_ms", "updated_at", "at_most_once", "keyed", "expires_at"),
)
NEW_DETAIL_COLUMNS = (
    *("id", "tenant", "created_at", "key", "name", "type", "tags"),
    *("sla_ms", "expires_in_ms", "payload"),
)
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
    """A new task as `task_insert` reads it; its payload beside it."""

    shape: Row
    row: Row
    payload: Payload

    @property
    def id(self) -> str:
        """What the task is called."""
        task_id: str = self.row[0]
        return task_id

    def task(self) -> NewTask:
        """The task of which this is the row."""
        tenant, state, queue, host, priority, max_attempts, timeout_ms, at_most_once, *of_detail = self.shape
        task_id, now, run_at, due_at, expires_at, key, name, tags = self.row
        kind, sla_ms, expires_in_ms = of_detail
        made = TaskState(
            id=task_id,
            tenant=tenant,
            state=state,
            queue=queue,
            host=host,
            priority=priority,
            run_at=run_at,
            due_at=due_at,
            wake_at=due_at,
            max_attempts=max_attempts,
            timeout_ms=timeout_ms,
            updated_at=now,
            at_most_once=at_most_once,
            keyed=key is not None,
            expires_at=expires_at,
        )
        detail = TaskDetail(task_id, tenant, now, key, name, kind, _tags_of(tags), sla_ms, expires_in_ms)
        return NewTask(made, detail, self.payload)


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
    times = state.updated_at, state.run_at, state.due_at, state.expires_at
    shape = (*_shape_state(state), detail.type, detail.sla_ms, detail.expires_in_ms)
    return NewRow(shape, (state.id, *times, detail.key, detail.name, tags_text(detail.tags)), task.payload)


def detail_row(task: NewTask | NewFire) -> Row:
    """The row that `task_insert_whole` reads, by `DETAIL_COLUMNS`; what a fire sends is its schedule's."""
    detail = task.detail
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
        encoded(task.payload) if isinstance(task, NewTask) else None,
        detail.schedule_id,
        detail.workflow_id,
        detail.step,
    )


def payload_row(task_id: str, version: int, payload: Payload) -> tuple[Any, ...]:
    """A payload as a row."""
    return task_id, version, encoded(payload)


_read_tags = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def tags_text(tags: dict[str, str]) -> str | None:
    """Tags as a row has them: most have none, and where none of those that come together has, none are sent."""
    return encoded(tags) if tags else None


def _tags_of(text: str | None) -> dict[str, str]:
    return {} if text is None else _read_tags(text)


def encoded(value: Any) -> str:
    """As JSON text."""
    return _encode(value).decode()
