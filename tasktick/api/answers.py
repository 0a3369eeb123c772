"""The models of answers, field by field as `render` and the handlers write them: what the description shows.

Nothing is encoded through them; tests read real answers into them, and refuse a field that is not here. What a
client reads may grow, so the description leaves room for further fields.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from tasktick.access.roles import Role
from tasktick.model.attempt import AttemptState, ErrorClass

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-12-01T08:00:00.000Z"])]
Seconds = Annotated[float, Meta(description="Seconds.")]
TaskId = Annotated[str, Meta(extra_json_schema={"pattern": "^tsk_[0-9a-f]{32}$"})]
KeyId = Annotated[str, Meta(extra_json_schema={"pattern": "^key_[0-9a-f]{32}$"})]
DeadLetterId = Annotated[str, Meta(extra_json_schema={"pattern": "^dlq_[0-9a-f]{32}$"})]
Cursor = Annotated[str | None, Meta(description="What `cursor` takes for the page that follows; null at the end.")]
StateWord = Literal[
    "blocked",
    "scheduled",
    "ready",
    "running",
    "retrying",
    "paused",
    "awaiting",
    "succeeded",
    "dead",
    "cancelled",
    "expired",
    "skipped",
    "missed",
]


class Answered(Struct, forbid_unknown_fields=True, gc=False):
    """The body of an answer."""


class Fault(Answered):
    """A field at fault."""

    pointer: Annotated[str, Meta(description="A JSON pointer, or ?name for a parameter, or a header's name.")]
    detail: str


class Problem(Answered):
    """What was refused, and what to do (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(description="Stable: what a program looks at.")]
    request_id: str | UnsetType = UNSET
    errors: list[Fault] | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET


class TargetShown(Answered):
    """The call, its secrets masked. Lists leave the body out unless `fields=full` asks for it."""

    url: str
    method: str
    headers: dict[str, str]
    timeout: Seconds
    success: list[str]
    body: Any = UNSET
    body_text: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET


class RetryShown(Answered):
    """How often, and how long between."""

    max_attempts: int
    strategy: Literal["exponential", "fixed", "list"]
    initial: Seconds
    factor: float
    max_delay: Seconds
    jitter: float
    delays: list[Seconds] | None


class Stages(Answered):
    """Where the time of the latest attempt went."""

    pickup: Seconds | None
    queue: Seconds | None
    request: Seconds | None


class Result(Answered):
    """What the receiver answered last."""

    status: int
    headers: dict[str, str]
    truncated: bool
    body: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET


class TaskError(Answered):
    """Why an attempt failed."""

    class_: ErrorClass = field(name="class")
    code: str
    detail: str | None
    at: Time


class Task(Answered):
    """A task."""

    id: TaskId
    key: str | None
    tenant: str
    name: str | None
    type: str | None
    queue: str
    priority: int
    state: StateWord
    attempt: int
    max_attempts: int
    interruptions: int
    series: int
    run_at: Time
    due_at: Time
    picked_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    expires_at: Time | None
    lateness: Seconds | None
    sla: Seconds
    sla_met: bool | None
    stages: Stages
    held_by: str | None
    reason: str | None
    delivery: Literal["at_least_once", "at_most_once"]
    cancel_requested: bool
    schedule_id: str | None
    workflow_id: str | None
    step: str | None
    partition: int
    target: TargetShown
    retry: RetryShown
    tags: dict[str, str]
    result: Result | None
    error: TaskError | None
    created_at: Time
    updated_at: Time
    version: int


class TaskWhole(Task):
    """A task, and how often it was tried."""

    attempts_count: int


class TaskPage(Answered):
    """A page of tasks."""

    data: list[Task]
    next_cursor: Cursor


class Made(Answered):
    """What became of one task of a batch: its id, or why it was refused."""

    id: TaskId | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class BatchMade(Answered):
    """A result for each task of a batch, in order."""

    data: list[Made]


class Attempt(Answered):
    """One try."""

    attempt: int
    series: int
    fence: int
    state: AttemptState | Literal["running"]
    picked_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    status: int | None
    error: TaskError | None
    response_headers: dict[str, str]
    response_body: str | None
    truncated: bool
    node: str | None
    epoch: int | None
    response_body_base64: str | UnsetType = UNSET


class AttemptPage(Answered):
    """Attempts, oldest first."""

    data: list[Attempt]
    next_cursor: Cursor


class DeadLetter(Answered):
    """A task that gave up, and what was done about it."""

    id: DeadLetterId
    tenant: str
    task_id: TaskId
    class_: ErrorClass = field(name="class")
    reason: str
    final_error: TaskError
    attempts_count: int
    died_at: Time
    resolution: Literal["replayed", "archived"] | None
    resolved_at: Time | None
    task: Task | None


class DeadLetterWhole(DeadLetter):
    """A dead letter with every attempt."""

    attempts: list[Attempt]


class DeadLetterPage(Answered):
    """A page of dead letters."""

    data: list[DeadLetter]
    next_cursor: Cursor


class Secret(Answered):
    """A signing secret; masked but where it is made, or revealed."""

    id: str
    secret: str
    created_at: Time
    retired_at: Time | None


class SecretPage(Answered):
    """The signing secrets of a tenant."""

    data: list[Secret]
    next_cursor: Cursor


class Key(Answered):
    """An API key, without what opens."""

    id: KeyId
    prefix: Annotated[str, Meta(description="How the key begins, and what the log calls it.")]
    tenant: str
    role: Role
    name: str | None
    created_at: Time
    expires_at: Time | None
    last_used_at: Annotated[Time | None, Meta(description="To about a minute.")]
    revoked_at: Time | None


class KeyMade(Key):
    """An API key, where it is made."""

    secret: Annotated[str, Meta(description="The key itself, shown this once.")]


class KeyPage(Answered):
    """A page of API keys."""

    data: list[Key]
    next_cursor: Cursor


class Tenant(Answered):
    """A tenant: what it may have, and how many unfinished tasks it has."""

    name: str
    max_pending: int | None
    create_rate: str | None
    pending: int
    running: int
    created_at: Time | None
    updated_at: Time | None


class TenantPage(Answered):
    """A page of tenants."""

    data: list[Tenant]
    next_cursor: Cursor


class Health(Answered):
    """The process lives."""

    status: Literal["ok"]


class Ready(Answered):
    """The process takes work."""

    status: Literal["ready"]
    reasons: list[str]


class Lateness(Answered):
    """How late first attempts were started, by share of them."""

    p50: Seconds | None
    p99: Seconds | None
    p999: Seconds | None = field(name="p99.9")


class Rates(Answered):
    """How much there is to do."""

    created_per_second: float
    fired_per_second: float


class Deadman(Answered):
    """How the ping to a monitor elsewhere goes, as this process knows."""

    pings: Annotated[bool, Meta(description="Whether it is this process that pings; of a ring, one does.")]
    last_success_at: Time | None
    last_error: str | None
    withheld: Annotated[list[str], Meta(description="What keeps it silent now.")]


class Stats(Answered):
    """Tasks by state, of all; the rest is of the one process that has answered, which `node` names.

    Where several serve, `/metrics` has the figures of all of them.
    """

    tasks: dict[str, int]
    purged: int
    node: str | UnsetType = UNSET
    lateness: Lateness | UnsetType = UNSET
    rates: Rates | UnsetType = UNSET
    in_flight: int | UnsetType = UNSET
    ready: int | UnsetType = UNSET
    timers: int | UnsetType = UNSET
    deadman: Deadman | UnsetType | None = UNSET


class BulkDone(Answered):
    """How many were matched, and how many of those have changed: none in a dry run."""

    matched: int
    changed: int
    left: Annotated[
        int,
        Meta(
            description="Of those that were matched, these are dead by `outcome_unknown`: the call may have arrived, "
            "so a retry, a run or a replay by filter does not send it again. Name them by id, or dead letters by this "
            "reason."
        ),
    ]
    condensed: Annotated[
        int | UnsetType,
        Meta(description="Times of the schedule that were asked for and have no task: a backfill runs them."),
    ] = UNSET
    note: str | UnsetType = UNSET
