"""The rows of new tasks, as the statements that insert them read them. Pure."""

from operator import attrgetter
from typing import Any

import msgspec

from tasktick.model.task import NewTask, Payload, TaskDetail

# What a new task brings, in the order in which `task_insert` reads it; and what one does that is of a schedule or of a
# workflow, or was born otherwise than scheduled (`task_insert_whole`).
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

state_row = attrgetter(*STATE_COLUMNS)
new_state_row = attrgetter(*NEW_STATE_COLUMNS)
_rare_state, _rare_detail = attrgetter(*_RARE_STATE), attrgetter(*_RARE_DETAIL)
_NO_RARE_STATE = (None, None, 1, None, None, None, None)
_NO_RARE_DETAIL = (None, None, None)


def detail_row(detail: TaskDetail) -> tuple[Any, ...]:
    """The row that `task_insert_whole` reads, by `DETAIL_COLUMNS`."""
    return *new_detail_row(detail), detail.schedule_id, detail.workflow_id, detail.step


def new_detail_row(detail: TaskDetail) -> tuple[Any, ...]:
    """The row that `task_insert` reads, by `NEW_DETAIL_COLUMNS`."""
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
    )


def payload_row(task_id: str, version: int, payload: Payload) -> tuple[Any, ...]:
    """A payload as a row."""
    return task_id, version, encoded(payload)


_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> str:
    """As JSON text."""
    return _encode(value).decode()


def is_plain(task: NewTask) -> bool:
    """Whether all that it brings is in the rows of `task_insert`."""
    return _rare_state(task.state) == _NO_RARE_STATE and _rare_detail(task.detail) == _NO_RARE_DETAIL
