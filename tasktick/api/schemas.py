"""The models of requests, field by field as the contract has them. What is not here is refused.

A field that is absent is `UNSET`; one that is null asks for its default. One whose type is `None` stands in the
contract and is brought by a later version: null is taken, a value is refused. `body` stays as the client wrote
it, byte for byte.
"""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from tasktick.api.times import Duration, Instant


class Request(Struct, forbid_unknown_fields=True, gc=False):
    """The body of a request."""


class Empty(Request):
    """Nothing to say."""


class TargetRequest(Request):
    """The call to make."""

    url: str
    method: str | None = None
    headers: dict[str, str] | None = None
    body: Raw | UnsetType = UNSET
    body_text: str | None = None
    body_base64: str | None = None
    timeout: Duration | None = None
    success: list[str | int] | None = None
    sensitive_headers: list[str] | None = None
    async_timeout: None = None


class TargetOverrides(Request):
    """What is different from the call that failed."""

    url: str | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType | None = UNSET
    body: Raw | UnsetType = UNSET
    body_text: str | UnsetType | None = UNSET
    body_base64: str | UnsetType | None = UNSET
    timeout: Duration | UnsetType | None = UNSET
    success: list[str | int] | UnsetType | None = UNSET
    sensitive_headers: list[str] | UnsetType | None = UNSET


class RetryRequest(Request):
    """How often, and how long between."""

    max_attempts: int | None = None
    strategy: Literal["exponential", "fixed", "list"] | None = None
    initial: Duration | None = None
    factor: float | None = None
    max_delay: Duration | None = None
    jitter: float | None = None
    delays: list[Duration] | None = None


class TaskRequest(Request):
    """A task to make."""

    target: TargetRequest
    key: str | None = None
    name: str | None = None
    type: str | None = None
    run_at: Instant | None = None
    delay: Duration | None = None
    queue: str | None = None
    priority: int | None = None
    retry: RetryRequest | None = None
    sla: Duration | None = None
    jitter: Duration | None = None
    expires_in: Duration | None = None
    delivery: Literal["at_least_once", "at_most_once"] | None = None
    tags: dict[str, str] | None = None
    callback: None = None
    payload: None = None


class TaskPatch(Request):
    """What is to be different about a task."""

    name: str | UnsetType | None = UNSET
    run_at: Instant | UnsetType | None = UNSET
    delay: Duration | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET
    target: TargetRequest | UnsetType = UNSET
    retry: RetryRequest | UnsetType | None = UNSET
    sla: Duration | UnsetType | None = UNSET
    tags: dict[str, str] | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    state: Literal["paused", "scheduled"] | UnsetType = UNSET


class TaskBatch(Request):
    """Tasks to make; each is read by itself, so that a bad one does not spoil the rest."""

    tasks: list[Raw]


class KeyRequest(Request):
    """An API key to make."""

    role: Literal["viewer", "submitter", "manager", "operator"]
    name: str | None = None
    tenant: str | None = None
    expires_at: Instant | None = None
    expires_in: Duration | None = None


class TenantRequest(Request):
    """What a tenant may have; what is not given is not limited."""

    max_pending: int | None = None
    create_rate: str | None = None
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


class DstRequest(Request):
    """What becomes of a fixed time that a day does not have, or has twice."""

    gap: Literal["run_after", "skip"] | None = None
    repeat: Literal["first", "second", "both"] | None = None


class TimingRequest(Request):
    """When a schedule fires: the fields of it that decide that."""

    cron: str | None = None
    every: Duration | None = None
    anchor: Instant | None = None
    timezone: str | None = None
    dst: DstRequest | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    max_fires: int | None = None
    jitter: None = None
    calendars: None = None
    spec: None = None
