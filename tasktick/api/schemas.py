"""The models of requests, field by field as the contract has them. What is not here is refused.

A field that is absent is `UNSET`; one that is null asks for its default. One whose type is `None` stands in the
contract and is brought by a later version: null is taken, a value is refused. `body` stays as the client wrote
it, byte for byte. What stands in `Meta` is for the description; `faults` and their callers check it.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from tasktick.api import times
from tasktick.model.attempt import DeathReason
from tasktick.model.retry import MAX_ATTEMPTS_LIMIT
from tasktick.model.state import State

Instant = Annotated[
    times.Instant,
    Meta(description="RFC 3339 with an offset, or Unix seconds.", examples=["2030-12-01T09:00:00+01:00", 1922342400]),
]
Duration = Annotated[
    times.Duration,
    Meta(description="Seconds, or text with units, or ISO 8601.", examples=["90s", "1h30m", "500ms", "PT90S", 90]),
]
Key = Annotated[
    str,
    Meta(
        description="Your own id, unique among what has not finished.",
        extra_json_schema={"pattern": "^[A-Za-z0-9_.:-]{1,128}$"},
    ),
]
Name = Annotated[str, Meta(extra_json_schema={"maxLength": 200})]
Queue = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_.:-]{1,128}$"})]
Priority = Annotated[int, Meta(description="0 goes first, 9 last.", extra_json_schema={"minimum": 0, "maximum": 9})]
Tags = Annotated[
    dict[str, str],
    Meta(
        description="Pairs of text to find it by.",
        extra_json_schema={
            "maxProperties": 20,
            "propertyNames": {"pattern": "^[^:]+$", "maxLength": 128},
            "additionalProperties": {"type": "string", "maxLength": 128},
        },
    ),
]
Headers = Annotated[dict[str, str], Meta(description="Secret ones are encrypted, and shown as ***.")]
Success = Annotated[
    list[str | int],
    Meta(description="Statuses that mean done.", examples=[["2xx"], ["200-204", 302]]),
]
Attempts = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_ATTEMPTS_LIMIT})]
Factor = Annotated[float, Meta(extra_json_schema={"minimum": 1, "maximum": 1_000})]
Fraction = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Delays = Annotated[list[Duration], Meta(extra_json_schema={"minItems": 1, "maxItems": 100})]
StateName = Annotated[str, Meta(extra_json_schema={"enum": [state.word for state in State]})]
States = Annotated[StateName | list[StateName], Meta(description="One state or several.", examples=["dead"])]
Tag = Annotated[str, Meta(description="As name:value.", examples=["team:billing"], extra_json_schema={"pattern": ":"})]
ScheduleId = Annotated[str, Meta(extra_json_schema={"pattern": "^sch_[0-9a-f]{32}$"})]
WorkflowId = Annotated[str, Meta(extra_json_schema={"pattern": "^wfl_[0-9a-f]{32}$"})]
NOT_EMPTY = Meta(extra_json_schema={"minProperties": 1})
TENANT_PATTERN = "^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$"
Body = Annotated[Raw, Meta(description="Any JSON; sent byte for byte.")]


class Request(Struct, forbid_unknown_fields=True, gc=False):
    """The body of a request."""


class Empty(Request):
    """Nothing to say."""


class TargetRequest(Request):
    """The call to make."""

    url: str
    method: str | None = None
    headers: Headers | None = None
    body: Body | UnsetType = UNSET
    body_text: str | None = None
    body_base64: str | None = None
    timeout: Duration | None = None
    success: Success | None = None
    sensitive_headers: list[str] | None = None
    async_timeout: None = None


class TargetOverrides(Request):
    """What is different from the call that failed."""

    url: str | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    headers: Headers | UnsetType | None = UNSET
    body: Body | UnsetType = UNSET
    body_text: str | UnsetType | None = UNSET
    body_base64: str | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET
    success: Success | UnsetType | None = UNSET
    sensitive_headers: list[str] | UnsetType | None = UNSET


class RetryRequest(Request):
    """How often, and how long between."""

    max_attempts: Attempts | None = None
    strategy: Literal["exponential", "fixed", "list"] | None = None
    initial: Duration | None = None
    factor: Factor | None = None
    max_delay: Duration | None = None
    jitter: Fraction | None = None
    delays: Delays | None = None


class TaskRequest(Request):
    """A task to make."""

    target: TargetRequest
    key: Key | None = None
    name: Name | None = None
    type: Name | None = None
    run_at: Instant | None = None
    delay: Duration | None = None
    queue: Queue | None = None
    priority: Priority | None = None
    retry: RetryRequest | None = None
    sla: Duration | None = None
    jitter: Duration | None = None
    expires_in: Duration | None = None
    delivery: Literal["at_least_once", "at_most_once"] | None = None
    tags: Tags | None = None
    callback: None = None
    payload: None = None


class TaskPatch(Request):
    """What is to be different about a task."""

    name: Name | UnsetType | None = UNSET
    run_at: Instant | UnsetType | None = UNSET
    delay: Duration | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    target: TargetRequest | UnsetType = UNSET
    retry: RetryRequest | UnsetType | None = UNSET
    sla: Duration | UnsetType | None = UNSET
    tags: Tags | UnsetType | None = UNSET
    queue: Queue | UnsetType | None = UNSET
    state: Literal["paused", "scheduled"] | UnsetType = UNSET


class TaskBatch(Request):
    """Tasks to make; each is read by itself, so that a bad one does not spoil the rest."""

    ADVICE: ClassVar = {"": 'This must be an object that has the list: {"tasks": [...]}.'}

    tasks: list[Raw]


class KeyRequest(Request):
    """An API key to make."""

    role: Literal["viewer", "submitter", "manager", "operator"]
    name: Name | None = None
    tenant: Annotated[str, Meta(extra_json_schema={"pattern": TENANT_PATTERN})] | None = None
    expires_at: Instant | None = None
    expires_in: Duration | None = None


class TenantRequest(Request):
    """What a tenant may have; what is not given is not limited."""

    max_pending: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 1_000_000_000})] | None = None
    create_rate: Annotated[str, Meta(description="A number and a time.", examples=["100/1m"])] | None = None
    weight: None = None
    max_running: None = None
    allowed_types: None = None
    allowed_hosts: None = None
    payload_schemas: None = None
    notify: None = None
    retention: None = None


class Rotation(Request):
    """A new signing secret, and how long those before it go on."""

    retire_after: Duration | None = None


class Replay(Request):
    """A dead letter to try again."""

    target: TargetOverrides | None = None


class Selection(Request):
    """What tasks and dead letters are found by; the words are those of a list."""

    queue: str | None = None
    type: str | None = None
    name: str | None = None
    tag: Tag | None = None
    schedule_id: ScheduleId | None = None
    workflow_id: WorkflowId | None = None
    run_after: Instant | None = None
    run_before: Instant | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    sla_met: bool | None = None
    q: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})] | None = None


class TaskSelection(Selection):
    """Which tasks; all that is said must be so, and something must be said."""

    state: States | None = None


class DeadLetterSelection(Selection):
    """Which dead letters; all that is said must be so, and something must be said."""

    unresolved: Annotated[bool, Meta(description="Open ones, which is the default, or the others.")] | None = None
    class_: Literal["receiver", "network", "policy", "platform"] | None = field(default=None, name="class")
    reason: (
        Annotated[DeathReason, Meta(description="A replay leaves out `outcome_unknown`, unless it is named.")] | None
    ) = None


class TaskBulk(Request):
    """Something to do to every task that is found, or that is named; with both, to those that are named and match."""

    filter: Annotated[TaskSelection, NOT_EMPTY] | None = None
    ids: (
        Annotated[list[str], Meta(description="Ids, or keys.", extra_json_schema={"minItems": 1, "maxItems": 1_000})]
        | None
    ) = None
    dry_run: Annotated[bool, Meta(description="Only count.")] = False


class DeadLetterBulk(Request):
    """Something to do to every dead letter that is found."""

    filter: Annotated[DeadLetterSelection, NOT_EMPTY]
    dry_run: Annotated[bool, Meta(description="Only count.")] = False
    rate: None = None
