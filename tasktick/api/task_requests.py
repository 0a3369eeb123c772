"""From a request to the rows of a task: a new one, a replaced one, a patched one. Nothing is written here."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from tasktick.api import faults as checks
from tasktick.api.faults import Faults
from tasktick.api.schemas import TargetRequest, TaskPatch, TaskRequest
from tasktick.api.target_requests import DEFAULT_RETRY, Sealing, aim_of, retry_of
from tasktick.api.times import INSTANT_MAX_MS, Duration, Instant, instant_ms
from tasktick.model import change as changes
from tasktick.model.change import Change
from tasktick.model.ids import IdMaker
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    DEFAULT_SLA_MS,
    NewTask,
    Payload,
    TaskDetail,
    TaskState,
)
from tasktick.store.rows import TaskView
from tasktick.store.task_rows import NewRow, tags_text

PRIORITY_MAX = 9
DELAY_MAX_MS = 100 * 366 * 86_400_000
SLA_MAX_MS = 366 * 86_400_000
JITTER_MAX_MS = 30 * 86_400_000
JITTER_BITS = 40

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Making(msgspec.Struct, frozen=True):
    """What a new task needs besides its request."""

    sealing: Sealing
    ids: IdMaker
    now: int
    traceparent: str | None = None
    idempotency_key: str | None = None
    latest: int | None = None
    """What the time is at most, where that is not `now`: what a delay counts from."""
    ahead: list[str] = []
    """Ids that were made in one go for tasks without a key, the last first."""

    def new_id(self, key: str | None) -> str:
        """A new id of its own."""
        return self.ids.new(self.now, self.ids.partition(key, self.idempotency_key))


def new_task(request: TaskRequest, making: Making) -> NewTask:
    """The task that a request asks for, or the refusal with every fault."""
    return row_of(request, making).task()


def row_of(request: TaskRequest, making: Making) -> NewRow:
    """The same as its row: what a request asks for is plain, but that it may have a key."""
    faults = Faults()
    now, sealing = making.now, making.sealing
    aim = aim_of(faults, request.target, sealing)
    run_at = _run_at(faults, request.run_at, request.delay, now, making.latest)
    # What is left out, as most of it is, is not even asked about.
    retry = DEFAULT_RETRY if request.retry is None else retry_of(faults, request.retry)
    key = None if request.key is None else checks.key(faults, "/key", request.key)
    jitter_ms = 0 if request.jitter is None else checks.duration(faults, "/jitter", request.jitter, 0, JITTER_MAX_MS)
    expires_in_ms = None if request.expires_in is None else _expires_in(faults, request.expires_in)
    queue, priority, sla_ms = DEFAULT_QUEUE, DEFAULT_PRIORITY, DEFAULT_SLA_MS
    if request.queue is not None:
        queue = checks.name_of(faults, "/queue", request.queue, DEFAULT_QUEUE)
    if request.priority is not None:
        priority = checks.number(faults, "/priority", request.priority, DEFAULT_PRIORITY, 0, PRIORITY_MAX)
    if request.sla is not None:
        sla_ms = checks.duration(faults, "/sla", request.sla, DEFAULT_SLA_MS, SLA_MAX_MS)
    name = None if request.name is None else checks.text(faults, "/name", request.name)
    kind = None if request.type is None else checks.text(faults, "/type", request.type)
    tags = {} if request.tags is None else checks.tags(faults, "/tags", request.tags)
    starts_at = run_at if run_at > now else now
    _check_end(faults, "/run_at", starts_at + jitter_ms + (expires_in_ms or 0))
    faults.end()
    ahead = making.ahead
    task_id = ahead.pop() if ahead and key is None else making.new_id(key)
    due_at = starts_at + _offset(task_id, jitter_ms) if jitter_ms else starts_at
    expires_at = None if expires_in_ms is None else due_at + expires_in_ms
    shape = (
        sealing.tenant,
        State.SCHEDULED,
        queue,
        aim.lane,
        priority,
        retry.max_attempts,
        aim.target.timeout_ms,
        request.delivery == "at_most_once",
        kind,
        sla_ms,
        expires_in_ms,
    )
    row = task_id, now, run_at, due_at, expires_at, key, name, tags_text(tags)
    return NewRow(shape, row, Payload(aim.target, retry, making.traceparent))


def _run_at(faults: Faults, run_at: Instant | None, delay: Duration | None, now: int, latest: int | None = None) -> int:
    """The nominal time: an instant, so long from now, or now. By no clock is a delay shorter than was asked."""
    if run_at is None:
        delay_ms = checks.duration(faults, "/delay", delay, 0, DELAY_MAX_MS)
        return delay_ms + (latest if delay_ms and latest is not None else now)
    if delay is not None:
        faults.add("/delay", "A task has run_at or delay, not both.")
    try:
        return instant_ms(run_at)
    except ValueError as error:
        faults.add("/run_at", str(error))
        return now


def _check_end(faults: Faults, pointer: str, last_at: int) -> None:
    """Refuse a time after which jitter or expiry would lie beyond what can be written: no row may hold such a one."""
    if last_at > INSTANT_MAX_MS:
        faults.add(pointer, "With its jitter and its expiry this would end after the year 9999.")


def _expires_in(faults: Faults, value: Duration | None) -> int | None:
    return None if value is None else checks.duration(faults, "/expires_in", value, 0, DELAY_MAX_MS, least_ms=1)


def _offset(task_id: str, jitter_ms: int) -> int:
    """A part of the jitter that the id decides, so that it is the same for ever."""
    if not jitter_ms:
        return 0
    drawn = (int(task_id, 16) >> 8) & ((1 << JITTER_BITS) - 1)
    return drawn * (jitter_ms + 1) >> JITTER_BITS


class Edit(msgspec.Struct, frozen=True):
    """What becomes of a task that is edited: its row, and what else changes with it."""

    change: Change | None
    detail: TaskDetail
    payload: Payload
    new_payload: bool = False


def replacement(before: TaskView, new: NewTask, now: int) -> Edit:
    """The task as another request has it, under the id that it has."""
    state = new.state
    change = changes.patch(
        before.state,
        now,
        queue=state.queue,
        host=state.host,
        priority=state.priority,
        run_at=state.run_at,
        due_at=state.due_at,
        wake_at=state.due_at,
        max_attempts=state.max_attempts,
        timeout_ms=state.timeout_ms,
        at_most_once=state.at_most_once,
        expires_at=state.expires_at,
        payload_version=before.state.payload_version + 1,
    )
    kept = before.detail
    detail = msgspec.structs.replace(new.detail, id=kept.id, created_at=kept.created_at, key=kept.key)
    return Edit(change, detail, new.payload, new_payload=True)


def patched(before: TaskView, patch: TaskPatch, sealing: Sealing, now: int, latest: int | None = None) -> Edit:
    """The task with what a PATCH gives in place of what it had."""
    faults = Faults()
    fields = _row_fields(faults, before.state, patch)
    detail = _patched_detail(faults, before.detail, patch)
    payload = _patched_payload(faults, before.payload, patch, sealing, fields)
    _move(faults, before, patch, (now, latest), fields)
    faults.end()
    new_payload = payload is not before.payload
    if new_payload:
        fields |= {"payload_version": before.state.payload_version + 1, "template_id": None}
    # Made even where nothing changes: a state that takes no change refuses an empty one too.
    made = changes.patch(before.state, now, **fields)
    change = made if fields or detail is not before.detail else None
    return Edit(_held_or_freed(change, before.state, patch, now), detail, payload, new_payload)


def _row_fields(faults: Faults, state: TaskState, patch: TaskPatch) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if patch.priority is not UNSET:
        fields["priority"] = checks.number(faults, "/priority", patch.priority, DEFAULT_PRIORITY, 0, PRIORITY_MAX)
    if patch.queue is not UNSET:
        fields["queue"] = checks.name_of(faults, "/queue", patch.queue, DEFAULT_QUEUE)
    return fields


def _patched_detail(faults: Faults, detail: TaskDetail, patch: TaskPatch) -> TaskDetail:
    fields: dict[str, Any] = {}
    if patch.name is not UNSET:
        fields["name"] = checks.text(faults, "/name", patch.name)
    if patch.sla is not UNSET:
        fields["sla_ms"] = checks.duration(faults, "/sla", patch.sla, DEFAULT_SLA_MS, SLA_MAX_MS)
    if patch.tags is not UNSET:
        fields["tags"] = checks.tags(faults, "/tags", patch.tags)
    return msgspec.structs.replace(detail, **fields) if fields else detail


def _patched_payload(
    faults: Faults, payload: Payload, patch: TaskPatch, sealing: Sealing, fields: dict[str, Any]
) -> Payload:
    """What is sent from now on; what of it stands in the row goes to `fields`."""
    parts: dict[str, Any] = {}
    if isinstance(patch.target, TargetRequest):
        aim = aim_of(faults, patch.target, sealing)
        parts["target"] = aim.target
        fields |= {"host": aim.lane, "timeout_ms": aim.target.timeout_ms}
    if patch.retry is not UNSET:
        retry: RetryPolicy = retry_of(faults, patch.retry)
        parts["retry"] = retry
        fields["max_attempts"] = retry.max_attempts
    return msgspec.structs.replace(payload, **parts) if parts else payload


def _move(
    faults: Faults, before: TaskView, patch: TaskPatch, moment: tuple[int, int | None], fields: dict[str, Any]
) -> None:
    """A new time, exactly: jitter is of the time that was asked for first. A fire keeps its nominal one."""
    if patch.run_at is UNSET and patch.delay is UNSET:
        return
    run_at = _run_at(
        faults,
        None if patch.run_at is UNSET else patch.run_at,
        None if patch.delay is UNSET else patch.delay,
        *moment,
    )
    due_at = max(run_at, moment[0])
    fields |= {"due_at": due_at, "wake_at": due_at}
    if before.detail.schedule_id is None:
        fields["run_at"] = run_at
    if before.detail.expires_in_ms is not None:
        fields["expires_at"] = due_at + before.detail.expires_in_ms
        _check_end(faults, "/run_at", fields["expires_at"])


def _held_or_freed(change: Change | None, state: TaskState, patch: TaskPatch, now: int) -> Change | None:
    """The change with a pause or a resume on top, where one is asked for and not so already."""
    after = state if change is None else change.after
    if patch.state == "paused" and state.state is not State.PAUSED:
        last = changes.pause(after, now)
    elif patch.state == "scheduled" and state.state is State.PAUSED:
        last = changes.resume(after, now)
    else:
        return change
    return Change(last.event, state, last.after)


def traceparent_of(headers: Mapping[str, str]) -> str | None:
    """The caller's trace, if it is one (W3C Trace Context, version 00); else there is none."""
    value = headers.get("traceparent")
    return value if value is not None and _TRACEPARENT.fullmatch(value) else None
