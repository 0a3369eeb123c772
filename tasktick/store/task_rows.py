"""The rows of new tasks, as the statements that insert them read them. Pure."""

from collections.abc import Iterable
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


class NewRows(msgspec.Struct, frozen=True):
    """New tasks as `task_insert` reads them."""

    rows: list[Row]
    payloads: list[tuple[str, str]]
    shapes: list[Row]

    @property
    def alike(self) -> dict[str, Any] | None:
        """The one shape that all have, by name."""
        return dict(zip(SHAPE, self.shapes[0], strict=True)) if len(self.shapes) == 1 else None


def new_rows(fresh: Iterable[NewTask]) -> NewRows:
    """The rows of tasks that are plain, and their shapes."""
    places: dict[Row, int] = {}
    rows: list[Row] = []
    payloads: list[tuple[str, str]] = []
    last: Row = ()
    place = 0
    for task in fresh:
        state, detail = task.state, task.detail
        shape = (*_shape_state(state), detail.type, detail.sla_ms, detail.expires_in_ms)
        if shape != last:
            last, place = shape, places.setdefault(shape, len(places))
        tags = encoded(detail.tags) if detail.tags else _NO_TAGS
        times = state.updated_at, state.run_at, state.due_at, state.expires_at
        rows.append((state.id, *times, detail.key, detail.name, tags, place))
        payloads.append((state.id, encoded(task.payload)))
    return NewRows(rows, payloads, list(places))


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


def is_plain(task: NewTask) -> bool:
    """Whether all that it brings is in the rows of `task_insert`."""
    state, detail = task.state, task.detail
    return (
        _rare_state(state) == _NO_RARE_STATE
        and _rare_detail(detail) == _NO_RARE_DETAIL
        and state.wake_at == state.due_at
        and state.updated_at == detail.created_at
        and state.keyed == (detail.key is not None)
    )
