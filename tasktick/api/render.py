"""Tasks, attempts and dead letters as clients read them. Pure but for the vault, which masks what is sealed."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from tasktick.access.vault import MASK, Vault, header_context
from tasktick.api.call import Call, encode
from tasktick.api.times import Number, seconds, seconds_or_none, written, written_or_none
from tasktick.model import task as model
from tasktick.model.attempt import AttemptRow
from tasktick.model.ids import partition_of, wire
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State
from tasktick.model.task import Target, TaskState
from tasktick.store.rows import DeadLetter, TaskView

Document = dict[str, Any]

TASK = "tsk"
DEAD_LETTER = "dlq"
SCHEDULE = "sch"
WORKFLOW = "wfl"
KEY = "key"
SECRET = "sec"  # noqa: S105 - how a secret's id begins

RETRIES_MAX = 256
_NO_STAGES: Document = {"pickup": None, "queue": None, "request": None}


class Lens(msgspec.Struct, frozen=True):
    """How a caller sees: at which time, through which vault, with or without bodies."""

    now: int
    vault: Vault
    full: bool = True


def lens_of(call: Call, *, full: bool = True) -> Lens:
    """The lens of a request."""
    return Lens(call.now, call.ports.vault, full)


def shown_state(state: TaskState, now: int) -> State:
    """The state as clients see it: what is due and waits for its turn is ready."""
    if state.state in (State.SCHEDULED, State.RETRYING) and state.due_at <= now:
        return State.READY
    return state.state


def task(view: TaskView, last: AttemptRow | None, lens: Lens) -> Document:
    """A task, whole."""
    state, detail, retry = view.state, view.detail, view.payload.retry
    return {
        "id": wire(TASK, state.id),
        "key": detail.key,
        "tenant": state.tenant,
        "name": detail.name,
        "type": detail.type,
        "queue": state.queue,
        "priority": state.priority,
        "state": shown_state(state, lens.now).word,
        "attempt": state.attempt,
        "max_attempts": state.max_attempts,
        "interruptions": state.interruptions,
        "series": state.series,
        "run_at": written(state.run_at),
        "due_at": written(state.due_at),
        "picked_at": written_or_none(state.picked_at),
        "started_at": written_or_none(state.started_at),
        "completed_at": written_or_none(state.completed_at),
        "expires_at": written_or_none(state.expires_at),
        "lateness": seconds_or_none(lateness_ms(state, detail.created_at)),
        "sla": seconds(detail.sla_ms),
        "sla_met": state.sla_met,
        "stages": stages(state, last),
        "held_by": None,
        "reason": state.reason,
        "delivery": "at_most_once" if state.at_most_once else "at_least_once",
        "cancel_requested": state.cancel_requested,
        "schedule_id": None if detail.schedule_id is None else wire(SCHEDULE, detail.schedule_id),
        "workflow_id": None if detail.workflow_id is None else wire(WORKFLOW, detail.workflow_id),
        "step": detail.step,
        "partition": partition_of(state.id),
        "target": target(view.payload.target, state.tenant, lens),
        "retry": retry_policy(retry),
        "tags": detail.tags,
        "result": result(last, full=lens.full),
        "error": error(last),
        "created_at": written(detail.created_at),
        "updated_at": written(state.updated_at),
        "version": state.version,
    }


class NewTask(msgspec.Struct, kw_only=True, gc=False):
    """A task that a client has just made, in the order of `task`; what has a value here is the same of all of them."""

    id: str
    key: str | None
    tenant: str
    name: str | None
    type: str | None
    queue: str
    priority: int
    state: str
    attempt: int = 0
    max_attempts: int
    interruptions: int = 0
    series: int = 1
    run_at: str
    due_at: str
    picked_at: None = None
    started_at: None = None
    completed_at: None = None
    expires_at: str | None
    lateness: None = None
    sla: Number
    sla_met: None = None
    stages: msgspec.Raw = msgspec.Raw(msgspec.json.encode(_NO_STAGES))
    held_by: None = None
    reason: None = None
    delivery: str
    cancel_requested: bool = False
    schedule_id: None = None
    workflow_id: None = None
    step: None = None
    partition: int
    target: Document
    retry: msgspec.Raw
    tags: dict[str, str]
    result: None = None
    error: None = None
    created_at: str
    updated_at: str
    version: int = 1


def new_task(new: model.NewTask, lens: Lens) -> NewTask:
    """A task that a client has just made: as `task` has it, at a fraction of the cost."""
    state, detail, payload = new.state, new.detail, new.payload
    created_at, run_at = written(detail.created_at), written(state.run_at)
    return NewTask(
        id=wire(TASK, state.id),
        key=detail.key,
        tenant=state.tenant,
        name=detail.name,
        type=detail.type,
        queue=state.queue,
        priority=state.priority,
        state="ready" if state.due_at <= lens.now else "scheduled",
        max_attempts=state.max_attempts,
        run_at=run_at,
        due_at=run_at if state.due_at == state.run_at else written(state.due_at),
        expires_at=written_or_none(state.expires_at),
        sla=seconds(detail.sla_ms),
        delivery="at_most_once" if state.at_most_once else "at_least_once",
        partition=partition_of(state.id),
        target=target(payload.target, state.tenant, lens),
        retry=_encoded_policy(payload.retry),
        tags=detail.tags,
        created_at=created_at,
        updated_at=created_at,
    )


@lru_cache(maxsize=RETRIES_MAX)
def _encoded_policy(policy: RetryPolicy) -> msgspec.Raw:
    """The same of a policy, encoded: most new tasks have one that others have."""
    return msgspec.Raw(encode(retry_policy(policy)))


def lateness_ms(state: TaskState, created_at: int) -> int | None:
    """How long after its time a task was first started, in its first series. A later series has no such time."""
    if state.started_at is None or state.series > 1:
        return None
    # With one attempt the row still has the time at which it was due, jitter and all.
    due = state.due_at if state.attempt == 1 else max(state.run_at, created_at)
    return max(0, state.started_at - due)


def stages(state: TaskState, last: AttemptRow | None) -> Document:
    """Where the time of the latest attempt went: until it was picked up, until it was sent, until its answer."""
    if state.state is State.RUNNING or last is None or last.started_at is None:
        if state.state is State.RUNNING and state.picked_at is not None:
            return _NO_STAGES | {"pickup": seconds(max(0, state.picked_at - state.due_at))}
        return _NO_STAGES
    ended = state.state in (State.SUCCEEDED, State.DEAD, State.CANCELLED)
    return {
        # Once a retry is due later, the time at which this attempt was due is gone.
        "pickup": seconds(max(0, last.picked_at - state.due_at)) if ended else None,
        "queue": seconds(max(0, last.started_at - last.picked_at)),
        "request": seconds(max(0, last.completed_at - last.started_at)),
    }


def target(made: Target, tenant: str, lens: Lens) -> Document:
    """The call, with its secrets masked, and its body as it was written."""
    headers: Document = dict(made.headers)
    for name, sealed in made.sealed_headers.items():
        headers[name] = lens.vault.open_masked(sealed, header_context(tenant, name)) if lens.full else MASK
    document: Document = {
        "url": made.url,
        "method": made.method,
        "headers": headers,
        "timeout": seconds(made.timeout_ms),
        "success": made.success,
    }
    if lens.full:
        match made.body_kind:
            case "json":
                document["body"] = msgspec.Raw(made.body.encode())
            case "text":
                document["body_text"] = made.body
            case "base64":
                document["body_base64"] = made.body
            case None:
                document["body"] = None
    return document


def retry_policy(policy: RetryPolicy) -> Document:
    """How often, and how long between."""
    return {
        "max_attempts": policy.max_attempts,
        "strategy": policy.strategy,
        "initial": seconds(policy.initial_ms),
        "factor": policy.factor,
        "max_delay": seconds(policy.max_delay_ms),
        "jitter": policy.jitter,
        "delays": [seconds(delay) for delay in policy.delays_ms] or None,
    }


def result(last: AttemptRow | None, *, full: bool = True) -> Document | None:
    """What the receiver answered last."""
    if last is None or last.status is None:
        return None
    document: Document = {
        "status": last.status,
        "headers": last.response_headers or {},
        "truncated": last.truncated,
    }
    if full:
        document |= _body(last)
    return document


def _body(last: AttemptRow) -> Document:
    name = "body_base64" if last.response_encoding == "base64" else "body"
    return {name: last.response_body or ""}


def error(last: AttemptRow | None) -> Document | None:
    """Why the last attempt failed, if it did."""
    if last is None or last.error_code is None:
        return None
    return {
        "class": last.error_class,
        "code": last.error_code,
        "detail": last.error_detail,
        "at": written(last.completed_at),
    }


def attempt(row: AttemptRow) -> Document:
    """One try that has ended."""
    document: Document = {
        "attempt": row.attempt,
        "series": row.series,
        "fence": row.fence,
        "state": row.state,
        "picked_at": written(row.picked_at),
        "started_at": written_or_none(row.started_at),
        "completed_at": written(row.completed_at),
        "status": row.status,
        "error": error(row),
        "response_headers": row.response_headers or {},
        "response_body": None,
        "truncated": row.truncated,
        "node": row.node,
        "epoch": row.epoch,
    }
    if row.response_body is not None:
        name = "response_body_base64" if row.response_encoding == "base64" else "response_body"
        document[name] = row.response_body
    return document


def running_attempt(state: TaskState) -> Document:
    """The try that is being made now: its row is the task's own."""
    return {
        "attempt": state.attempt,
        "series": state.series,
        "fence": state.fence,
        "state": State.RUNNING.word,
        "picked_at": written_or_none(state.picked_at),
        "started_at": None,
        "completed_at": None,
        "status": None,
        "error": None,
        "response_headers": {},
        "response_body": None,
        "truncated": False,
        "node": state.node,
        "epoch": state.epoch,
    }


def dead_letter(letter: DeadLetter, about: Mapping[str, Any] | None) -> Document:
    """A task that gave up, and what was done about it."""
    return {
        "id": wire(DEAD_LETTER, letter.id),
        "tenant": letter.tenant,
        "task_id": wire(TASK, letter.task_id),
        "class": letter.class_,
        "reason": letter.reason,
        "final_error": {
            "class": letter.class_,
            "code": letter.error_code or letter.reason,
            "detail": letter.error_detail,
            "at": written(letter.died_at),
        },
        "attempts_count": letter.attempts,
        "died_at": written(letter.died_at),
        "resolution": letter.resolution,
        "resolved_at": written_or_none(letter.resolved_at),
        "task": about,
    }
