"""Rows as the store reads and writes them, where they are not a model's own value."""

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from tasktick.model.task import Payload, TaskDetail, TaskState

T = TypeVar("T")


class TaskView(msgspec.Struct, frozen=True):
    """All that is stored of a task but its attempts."""

    state: TaskState
    detail: TaskDetail
    payload: Payload


class StoredPayload(msgspec.Struct, frozen=True, array_like=True):
    """A payload under the version that a claim returns; a fire's is that of its schedule."""

    owner_id: str
    version: int
    payload: Payload


class Count(msgspec.Struct, frozen=True, array_like=True):
    """How many tasks of a tenant are in a state."""

    tenant: str
    state: int
    tasks: int


class Name(msgspec.Struct, frozen=True):
    """A key that must be unique, and the answer that it was given."""

    tenant: str
    kind: str
    name: str
    object_id: str
    created_at: int
    expires_at: int | None = None
    fingerprint: str | None = None
    status: int | None = None
    headers: dict[str, str] | None = None
    body: str | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """A task that gave up."""

    id: str
    tenant: str
    task_id: str
    class_: str = msgspec.field(name="class")
    reason: str = ""
    error_code: str | None = None
    error_detail: str | None = None
    attempts: int = 0
    died_at: int = 0
    resolution: str | None = None
    resolved_at: int | None = None


class SecretRow(msgspec.Struct, frozen=True):
    """A secret, sealed; `retired_at` may lie ahead."""

    id: str
    tenant: str
    kind: str
    sealed: str
    created_at: int
    retired_at: int | None = None


class KeyRow(msgspec.Struct, frozen=True):
    """An API key: its hash."""

    id: str
    prefix: str
    hash: str
    tenant: str
    role: str
    name: str | None
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None

    def works_at(self, now: int) -> bool:
        """Whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class TenantRow(msgspec.Struct, frozen=True):
    """What a tenant may have, and what it has; one without limits of its own has no times."""

    name: str
    max_pending: int | None = None
    create_rate: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    pending: int = 0
    running: int = 0


class Room(msgspec.Struct, frozen=True, array_like=True):
    """How many unfinished tasks a tenant with a quota may have, and has."""

    tenant: str
    max_pending: int
    pending: int


class EndFault(msgspec.Struct, frozen=True, array_like=True):
    """The place in a list of ends of one that is not plain: it is stale, or was asked to cancel."""

    place: int
    live: bool
    cancel: bool
    reason: str | None = None
    """Why it was asked to, if that was not by hand."""


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """A task that retention may take."""

    id: str
    tenant: str
    state: int


class Ended(msgspec.Struct, frozen=True, array_like=True):
    """A finished task, and its place among those of its day."""

    at: int
    id: str
    tenant: str
    in_history: bool = False


def decoder(kind: type[T]) -> "msgspec.json.Decoder[list[T]]":
    """What reads a result as values of this type, one a row; making one costs more than most results."""
    found: msgspec.json.Decoder[list[T]] = _decoder(cast(Any, kind))
    return found


@cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(list[kind], strict=False)


def columns(row: msgspec.Struct) -> dict[str, Any]:
    """A row as a JSON parameter, by column."""
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found
