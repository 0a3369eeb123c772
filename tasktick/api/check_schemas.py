"""The models of checks and pings: as clients write them, and as they are answered. How they are meant: `schemas`."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from tasktick.api.answers import Answered, Cursor, Seconds, Time
from tasktick.api.schedule_answers import DstShown
from tasktick.api.schedule_schemas import Cron, DstRequest, LocalInstant, Note, Rrule, Zone
from tasktick.api.schemas import Duration, Key, Name, Request, Tags
from tasktick.model.checkin import Kind, Status

Period = Annotated[Duration, Meta(description="How long after its last word the next one is expected.")]
Grace = Annotated[Duration, Meta(description="How long a word may be late.")]
MaxRuntime = Annotated[Duration, Meta(description="How long a run may take from its start; without it, any time.")]
PingId = Annotated[
    str, Meta(description="What it is pinged by; whoever may not manage checks sees its end only.", examples=["chk_…"])
]


class CheckFields(Request, kw_only=True):
    """A job that runs elsewhere: when a word of it is expected."""

    cron: Cron | None = None
    every: Duration | None = None
    anchor: LocalInstant | None = None
    rrule: Rrule | None = None
    period: Period | None = None
    timezone: Zone | None = None
    dst: DstRequest | None = None
    grace: Grace | None = None
    max_runtime: MaxRuntime | None = None
    name: Name | None = None
    note: Note | None = None
    tags: Tags | None = None
    paused: bool | None = None


class CheckRequest(CheckFields, kw_only=True):
    """A check to make: one of `cron`, `every`, `rrule` and `period`."""

    key: Key | None = None


class CheckPatch(Request):
    """What is to be different about a check: a field that is given replaces the whole of it, null resets it."""

    cron: Cron | UnsetType | None = UNSET
    every: Duration | UnsetType | None = UNSET
    anchor: LocalInstant | UnsetType | None = UNSET
    rrule: Rrule | UnsetType | None = UNSET
    period: Period | UnsetType | None = UNSET
    timezone: Zone | UnsetType | None = UNSET
    dst: DstRequest | UnsetType | None = UNSET
    grace: Grace | UnsetType | None = UNSET
    max_runtime: MaxRuntime | UnsetType | None = UNSET
    name: Name | UnsetType | None = UNSET
    note: Note | UnsetType | None = UNSET
    tags: Tags | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET


class Run(Answered):
    """A run that has begun and not ended."""

    run: str | None
    started_at: Time


class Check(Answered):
    """A check."""

    id: Annotated[str, Meta(extra_json_schema={"pattern": "^chi_[0-9a-f]{32}$"})]
    key: str | None
    tenant: str
    name: str | None
    note: str | None
    tags: dict[str, str]
    cron: str | None
    every: Seconds | None
    anchor: Time | None
    rrule: str | None
    period: Seconds | None
    timezone: str | None
    dst: DstShown | None
    grace: Seconds
    max_runtime: Seconds | None
    paused: bool
    state: Annotated[
        Literal["new", "up", "started", "late", "down", "paused"],
        Meta(description="`status`, or that it is paused, or that a run is under way where nothing is amiss."),
    ]
    status: Status
    status_since: Time
    reason: Annotated[str | None, Meta(description="Why it is down: overdue, overran, failed.")]
    ping_id: PingId
    ping_path: str | None
    expected_at: Time | None
    down_at: Annotated[Time | None, Meta(description="When it is down, if no word comes.")]
    runs: list[Run]
    failures: Annotated[int, Meta(description="In a row.")]
    pings: int
    last_ping_at: Time | None
    last_ping_kind: Kind | None
    last_success_at: Time | None
    last_duration: Seconds | None
    created_at: Time
    updated_at: Time
    version: int


class CheckPage(Answered):
    """A page of checks, the newest first."""

    data: list[Check]
    next_cursor: Cursor


class Ping(Answered):
    """What a job has said."""

    number: int
    at: Time
    kind: Kind
    exit_code: int | None
    run: str | None
    duration: Annotated[float | None, Meta(description="Seconds from the start of its run.")]
    method: str
    source: str | None
    agent: str | None
    body: Annotated[str | None, Meta(description="What it sent, up to 10 KiB of it.")]
    body_bytes: int


class PingPage(Answered):
    """A page of pings, the latest first."""

    data: list[Ping]
    next_cursor: Cursor
