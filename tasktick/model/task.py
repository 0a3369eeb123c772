"""A task: what was asked for, the slim row that moves, and what is read when it is due.

`TaskState` is slim and changes with each step of its life; `TaskDetail` names and describes it; a `Payload` is
what is sent, of which each version stays as it was stored, so that what a claim returns is that which it claimed.
A store keeps the first version with the details.
"""

import struct
from itertools import starmap
from typing import Literal

import msgspec
from msgspec.structs import replace

from tasktick.model.ids import ID_CHARS
from tasktick.model.retry import RetryPolicy
from tasktick.model.state import State

BodyKind = Literal["json", "text", "base64"]

DEFAULT_TENANT = "default"
DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5
DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_SLA_MS = 30_000
TIMEOUT_LIMIT_MS = 3_600_000
_ID = struct.Struct(f"{ID_CHARS // 2}s")


class Target(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call to make. Sealed headers are encrypted at rest and shown to nobody."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    sealed_headers: dict[str, str] = {}
    body_kind: BodyKind | None = None
    body: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    success: tuple[str, ...] = ("2xx",)


class Payload(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Everything that a send needs and a state change does not."""

    target: Target
    retry: RetryPolicy = RetryPolicy()
    traceparent: str | None = None


class TaskState(msgspec.Struct, frozen=True):
    """The slim row, column by column as the store has it."""

    id: str
    tenant: str
    state: State
    queue: str
    host: str
    priority: int
    run_at: int
    due_at: int
    wake_at: int
    max_attempts: int
    timeout_ms: int
    updated_at: int
    at_most_once: bool = False
    keyed: bool = False
    expires_at: int | None = None
    attempt: int = 0
    series: int = 1
    series_base: int = 0
    uncounted: int = 0
    interruptions: int = 0
    fence: int = 0
    claim_id: int = 0
    claimed_from: int = 0
    node: str | None = None
    epoch: int = 0
    incarnation: str | None = None
    lease_until: int | None = None
    cancel_requested: bool = False
    payload_version: int = 1
    version: int = 1
    picked_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    sla_met: bool | None = None
    reason: str | None = None
    template_id: str | None = None
    """Whose payload it sends, if not its own: a fire sends its schedule's."""
    decide_by: int | None = None
    """A fire that its schedule has not decided about starts only by then."""
    after_id: str | None = None
    """A fire that its schedule has not decided about starts only once this task is not on its way."""
    late_at: int | None = None
    """From when on a fire that has not begun is late. Written at its birth; it goes when that is told."""


class TaskDetail(msgspec.Struct, frozen=True):
    """What a task is called and belongs to."""

    id: str
    tenant: str
    created_at: int
    key: str | None = None
    name: str | None = None
    type: str | None = None
    tags: dict[str, str] = {}
    sla_ms: int = DEFAULT_SLA_MS
    expires_in_ms: int | None = None
    schedule_id: str | None = None
    workflow_id: str | None = None
    step: str | None = None


class NewTask(msgspec.Struct, frozen=True):
    """A task that is about to be: all of its rows."""

    state: TaskState
    detail: TaskDetail
    payload: Payload


class Due(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the owner's memory needs of a task to give it its turn."""

    id: str
    tenant: str
    queue: str
    host: str
    priority: int
    due_at: int
    wake_at: int
    is_fire: bool = False
    """Of a schedule, whose payload it sends."""


class Timer(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """When a task wants to be looked at, as nodes tell each other."""

    wake_at: int
    id: str


class Timers(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The same of many, as the loader reads it: times, and ids in one piece. At a start there may be a million."""

    times: list[int] = []
    hexes: str = ""
    """The ids, `ID_CHARS` of each."""

    def __len__(self) -> int:
        return len(self.times)

    def __add__(self, others: "Timers") -> "Timers":
        return Timers(self.times + others.times, self.hexes + others.hexes)

    @property
    def ids(self) -> list[str]:
        """The ids, in the order of the times."""
        return [self.hexes[at : at + ID_CHARS] for at in range(0, len(self.hexes), ID_CHARS)]

    def keys(self, first: int = 0, last: int | None = None) -> list[int]:
        """The same as numbers, which is what the wheel holds; from one place up to another."""
        hexes = self.hexes[first * ID_CHARS : None if last is None else last * ID_CHARS]
        return list(starmap(int.from_bytes, _ID.iter_unpack(bytes.fromhex(hexes))))


class Claimed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An attempt that may be made: what the claim set, and what its end will need."""

    id: str
    tenant: str
    queue: str
    host: str
    attempt: int
    fence: int
    claim_id: int
    payload_version: int
    run_at: int
    due_at: int
    wake_at: int
    lease_until: int
    timeout_ms: int
    max_attempts: int
    series: int
    series_base: int
    uncounted: int
    interruptions: int
    claimed_from: int
    at_most_once: int
    keyed: int
    sla_ms: int
    started_at: int | None
    expires_at: int | None
    picked_at: int
    epoch: int
    priority: int
    schedule_id: str | None = None
    template_id: str | None = None
    late_at: int | None = None

    @property
    def payload_id(self) -> str:
        """Whose payload it sends."""
        return self.template_id or self.id

    @property
    def failures_before(self) -> int:
        """Attempts of this series that count, before this one."""
        return self.attempt - self.series_base - self.uncounted - 1


class Taken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An attempt that may be made, and what it sends; None if that is too large to come with the claim."""

    claimed: Claimed
    payload: Payload | None


class Foreseen(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A task that will be claimed soon, as its row is now; and what a claim would bring, but for what it sets."""

    id: str
    version: int
    state: int
    wake_at: int
    late_at: int | None
    taken: Taken

    def claimed(self, now: int, until: int, claim_id: int, epoch: int) -> Taken:
        """What a claim makes of it, that was made then, until then and the task's own time: as `task_claim` does."""
        before = self.taken.claimed  # stays: a claim may be tried again
        one = replace(
            before,
            attempt=before.attempt + 1,
            fence=max(before.fence + 1, now),
            claim_id=claim_id,
            lease_until=until + before.timeout_ms,
            claimed_from=self.state,
            picked_at=now,
            epoch=epoch,
        )
        return Taken(one, self.taken.payload)


def due_of(state: TaskState) -> Due:
    """The part of a state row that the owner's memory keeps."""
    due_at, wake_at, is_fire = state.due_at, state.wake_at, state.template_id is not None
    return Due(state.id, state.tenant, state.queue, state.host, state.priority, due_at, wake_at, is_fire)
